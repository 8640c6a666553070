"""Audit trail: logins, refusals and changes of objects, each with its user and origin (docs/audit-log.md).

Theory of operation. A change has a record of its own, and so has a login, as long as its user has an allowance. So no
user can overwrite the records of others. Events that a client may cause at any rate are summed: refusals, logins of
HTTP requests, declarations of objects that end with their clients, and records beyond the allowance. The first event of
a kind is recorded at once. Further events within `APART_S` become one record with their `count`. Clients choose the
names of users and objects, so the kinds are bounded as well: refused logins of all unknown users together, and refusals
of one user, have `KINDS_KEPT`. So neither a password guesser nor a user that changes objects in a loop can soon push
records of others out of the files. Secrets are replaced before a record is made.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.connections.log_allowance import PART_OF_LOG, LogAllowance
from penstock.connections.peer import network_of
from penstock.core.broker import Broker
from penstock.errors import AccessRefused, BrokerError
from penstock.flow.work import WorkMeter

if TYPE_CHECKING:
    from penstock.connections.connection import Connection

OCTETS_A_SECOND: Final = 400.0
"""Bytes by which an allowance grows in a second: the size of an ordinary record."""
BURST_OCTETS: Final = 4 * 1024 * 1024
"""Bytes of an unused allowance: a 32nd of the log by its default settings."""

Record = dict[str, object]

RECORDS_KEPT: Final = 10_000
"""Most records that wait for the event loop; further records are counted."""
SUMS_KEPT: Final = 1_000
"""Most sums at a time; events without a sum are counted as lost."""
KINDS_KEPT: Final = 100
"""Most sums of one group at a time. Further events are in one common sum."""
APART_S: Final = 60.0
"""Least seconds between two records of one sum."""
NAME_MAX: Final = 255
"""Most characters of a user's name: a stranger may send a longer name, which no user has."""
TEXT_MAX: Final = 4_096
"""Most characters of a field."""
SECRET: Final = "***"
RECORD_WORK: Final = 35
SUM_WORK: Final = 15
"""Units of work of a record, and of an event that is only counted in a sum."""
_SECRET_NAME: Final = re.compile(r"passw|secret|token|hash|credential|private|_key$|^key$", re.IGNORECASE)
_PLAIN_NAMES: Final = frozenset(("key", "routing_key", "binding_key", "x-dead-letter-routing-key", "hashing_algorithm"))
"""Names of fields that look like secrets, but hold none."""
_URL_SECRET: Final = re.compile(r"(//[^/@\s:]*):[^/@\s]*@")
_QUERY_SECRET: Final = re.compile(
    r"([?&;][^=?&;\s]{0,60}(?:passw|pwd|secret|token|hash|credential|private|key|sig|auth)[^=?&;\s]{0,60}=)[^&;\s\"']+",
    re.IGNORECASE,
)
"""Secret in the query of a URL, with its name; the names are short, so that searching a long text is fast."""


class Actor:
    """User of an operation, and its origin."""

    def __init__(self, user: str, address: str, protocol: str, vhost: str = "", connection: str = "") -> None:
        self.user = user[:NAME_MAX]
        self.address = address
        """Host and port, or the origin of a change that no client requested: `file`."""
        self.protocol = protocol
        self.vhost = vhost
        self.connection = connection
        """Number of the connection, as in its name; empty for HTTP."""

    def fields(self) -> Record:
        """Return the fields of a record."""
        record: Record = {"user": self.user, "address": self.address, "protocol": self.protocol}
        if self.connection:
            record["connection"] = self.connection
        if self.vhost:
            record["vhost"] = self.vhost
        return record


def actor_of(connection: Connection) -> Actor:
    """Return the user of a connection as actor."""
    protocol = connection.engine.details().get("protocol")
    vhost = "" if connection.vhost is None else connection.vhost.name
    name = "" if protocol is None else str(protocol)
    return Actor(connection.user, connection.peer.address, name, vhost, str(connection.number))


def audit_refusal(connection: Connection, operation: str, error: BrokerError) -> None:
    """Record an error that refuses an operation to a logged-in user; other errors are not recorded."""
    if isinstance(error, AccessRefused) and connection.logged_in:
        connection.services.audit.refused(actor_of(connection), operation, str(error))


class Sum:
    """Records of one kind that are counted until the next record is due."""

    def __init__(self, record: Record, group: str, now: float) -> None:
        self.record = record
        self.group = group
        self.written_at: float = now
        self.count: int = 0


class AuditTrail:
    """Records of one broker that wait for the writer of the audit log."""

    def __init__(self, broker: Broker) -> None:
        self.enabled: bool = False
        """False if there is no audit log: then nothing is recorded."""
        self.logins_accepted: i64 = 0
        self.logins_refused: i64 = 0
        """Logins since the start, over every protocol and HTTP; a request over HTTP is a login."""
        self.allowance = LogAllowance(OCTETS_A_SECOND, BURST_OCTETS)
        self._broker = broker
        self._work: WorkMeter = broker.work
        self._records: list[Record] = []
        self._lost: int = 0
        self._sums: dict[str, Sum] = {}
        self._groups: dict[str, int] = {}
        """Number of sums by group."""

    def enable(self, octets: int) -> None:
        """Begin to record. `octets` bounds the total size of the files."""
        self.enabled = True
        self.allowance.burst = octets // PART_OF_LOG

    def change(self, actor: Actor, operation: str, subject: str, before: object = None, after: object = None) -> None:
        """Record a change; `before` and `after` are values for `json.dumps`, None if there is nothing before or
        after."""
        if not self.enabled:
            return
        record = self._record("change", actor)
        record["operation"] = operation
        record["subject"] = subject[:TEXT_MAX]
        if self.allowance.left(actor.user, self._broker.now) < OCTETS_A_SECOND:
            self._add_own(actor, record, operation)
            return
        if before is not None:
            record["before"] = shown(before)
        if after is not None:
            record["after"] = shown(after)
        self._append_own(actor, record, operation)

    def login(self, actor: Actor, mechanism: str, refusal: str = "", summed: bool = False) -> None:
        """Record a login, or a refused login with the reason in `refusal`.

        Refusals are always summed, logins only with `summed`.
        """
        if refusal:
            self.logins_refused += 1
        else:
            self.logins_accepted += 1
        if not self.enabled:
            return
        record = self._record("login-refused" if refusal else "login", actor)
        record["mechanism"] = mechanism[:TEXT_MAX]
        if refusal:
            record["reason"] = shown_text(refusal)
        if refusal or summed:
            host = network_of(actor.address.rpartition(":")[0], False)
            kind = f"\0{host}\0{actor.protocol}"
            if not refusal:
                self._add(f"login\0{actor.user}", kind, record)
            elif self._broker.access.find(actor.user) is None:  # The client has chosen the name.
                self._add("login-refused", kind, record)
            else:
                self._add("login-refused", f"{kind}\0{actor.user}\0{refusal}", record)
        else:
            self._append_own(actor, record, f"login {actor.protocol}")

    def refused(self, actor: Actor, operation: str, reason: str) -> None:
        """Record an operation that the user may not carry out; records of the same user, operation and reason are
        summed."""
        if not self.enabled:
            return
        record = self._record("access-refused", actor)
        record["operation"] = operation
        record["reason"] = shown_text(reason)
        self._add(f"refused\0{actor.user}", f"\0{operation}\0{reason}", record)

    def passing(self, actor: Actor, operation: str, subject: str) -> None:
        """Record a declaration or deletion of an object that ends with its client; records of one user are summed."""
        if not self.enabled:
            return
        record = self._record("change", actor)
        record["operation"] = operation
        record["subject"] = subject[:TEXT_MAX]
        record["reason"] = "temporary"
        self._add(f"passing\0{actor.user}", f"\0{actor.vhost}\0{operation}", record)

    # Calls of the driver and the event loop

    def tick(self) -> None:
        """Write the sums that are due, about once a second."""
        now = self._broker.now
        for key in list(self._sums):
            event_sum = self._sums[key]
            if now - event_sum.written_at < APART_S:
                continue
            if event_sum.count == 0:
                del self._sums[key]
                self._count_group(event_sum.group, -1)
                continue
            self._flush(event_sum)
            event_sum.written_at = now

    def finish(self) -> None:
        """Write all sums: the broker stops."""
        for event_sum in self._sums.values():
            if event_sum.count:
                self._flush(event_sum)
        self._sums.clear()
        self._groups.clear()

    def has_records(self) -> bool:
        """Return whether there are records to take."""
        return len(self._records) > 0 or self._lost > 0

    def take(self) -> list[Record]:
        """Take the records; the caller owns them."""
        records = self._records
        self._records = []
        if self._lost:
            lost = self._at("lost")
            lost["count"] = self._lost
            lost["cause"] = f"more than {RECORDS_KEPT} records, or {SUMS_KEPT} sums, at a time"
            records.append(lost)
            self._lost = 0
        return records

    def _flush(self, event_sum: Sum) -> None:
        self._append({**event_sum.record, "count": event_sum.count})
        event_sum.count = 0

    def _append_own(self, actor: Actor, record: Record, kind: str) -> None:
        """Append a record of a user; records of one kind beyond the allowance are summed, without the states of
        objects."""
        if self.allowance.spend(actor.user, len(json.dumps(record)), self._broker.now):
            self._append(record)
            return
        record.pop("before", None)
        record.pop("after", None)
        self._add_own(actor, record, kind)

    def _add_own(self, actor: Actor, record: Record, kind: str) -> None:
        """Sum a record of a user, without the states of objects: the record is beyond the user's allowance."""
        if "subject" in record:
            record["subject"] = str(record["subject"])[:NAME_MAX]
        record["reason"] = "summed"
        self._add(f"own\0{actor.user}", f"\0{kind}", record)

    def _add(self, group: str, kind: str, record: Record) -> None:
        self._work.done += SUM_WORK
        key = group + kind
        event_sum = self._sums.get(key)
        if event_sum is None and self._groups.get(group, 0) >= KINDS_KEPT:
            key = group
            event_sum = self._sums.get(key)
        if event_sum is None:
            if len(self._sums) >= SUMS_KEPT:
                self._lost += 1
                return
            self._sums[key] = Sum(record, group, self._broker.now)
            self._count_group(group, 1)
            self._append(record)
            return
        event_sum.record = record  # A sum shows its last record.
        event_sum.count += 1

    def _count_group(self, group: str, by: int) -> None:
        count = self._groups.get(group, 0) + by
        if count > 0:
            self._groups[group] = count
        else:
            self._groups.pop(group, None)

    def _append(self, record: Record) -> None:
        self._work.done += RECORD_WORK
        if len(self._records) < RECORDS_KEPT:
            self._records.append(record)
        else:
            self._lost += 1

    def _record(self, event: str, actor: Actor) -> Record:
        return {**self._at(event), **actor.fields()}

    def _at(self, event: str) -> Record:
        now = self._broker.now
        return {"event": event, "wall": round(now + self._broker.wall_offset, 6), "mono": round(now, 6)}


def shown(value: object) -> str:
    """Return a value as JSON without secrets, of at most `TEXT_MAX` characters; a text is not quoted."""
    hidden = without_secrets(value)
    if isinstance(hidden, str):
        return hidden[:TEXT_MAX]
    return json.dumps(hidden, ensure_ascii=False, default=_shown_other)[:TEXT_MAX]


def shown_text(text: str) -> str:
    """Return a text without passwords and secret parameters of URLs, of at most `TEXT_MAX` characters."""
    hidden = _URL_SECRET.sub(rf"\1:{SECRET}@", text[: 2 * TEXT_MAX])  # A truncated password has no end.
    return _QUERY_SECRET.sub(rf"\1{SECRET}", hidden)[:TEXT_MAX]


def without_secrets(value: object) -> object:
    """Return a value in which passwords, hashes, tokens and the secrets of URLs are replaced."""
    if isinstance(value, str):
        return shown_text(value)
    if isinstance(value, dict):
        return {
            str(name): SECRET if _is_secret(str(name), item) else without_secrets(item) for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(item) for item in value]
    return value


def _is_secret(name: str, value: object) -> bool:
    return isinstance(value, (str, bytes)) and name not in _PLAIN_NAMES and _SECRET_NAME.search(name) is not None


def _shown_other(value: object) -> str:
    """Return a value of a field table, of a type that JSON lacks, as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
