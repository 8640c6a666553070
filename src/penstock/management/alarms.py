"""Alarms: conditions of a broker that need a person, each raised and cleared once.

Theory of operation. Checks (alarm_checks.py) go round in slices, and find the conditions that hold. A condition that
was found raises its alarm at once. An alarm is cleared at the end of a round that has not found its condition, and only
if the condition has been gone for the setting `alarm-clear`. So a gate that opens and closes every second is one alarm.
The log, lists, metrics and the web hook read the same alarms. Alarms are in memory only: a restart finds them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mypy_extensions import i64, mypyc_attr

from penstock.connections.log_line import LogLine
from penstock.core.broker import Broker
from penstock.describe.gate import text_of
from penstock.describe.queue_state import STOP, WARN
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER
from penstock.logs.ids import ALARM_CLEARED, ALARM_RAISED
from penstock.management.numbers import Numbers
from penstock.management.outlook import UNKNOWN, Outlook

CRITICAL: Final = "critical"
"""Severity of a condition that stops publishers of the whole broker."""
WARNING: Final = "warning"
RAISED: Final = "raised"
CLEARED: Final = "cleared"
"""Changes of an alarm."""
FATES: Final[tuple[str, ...]] = ("sent", "merged", "dropped")
"""Fates of changes at a receiver: merged into a later change of the same alarm, or dropped for lack of room."""
ALARMS_MOST: Final = 1000
"""Most raised alarms; further ones are counted."""
REFUSING_MOST: Final = 1000
"""Most gates whose refusals at the hold deadline are counted; those of further gates raise no alarm."""
OPERATOR: Final = "the operator, "
"""Beginning of the subject of an operator's gate (`describe/gate.py`)."""
FORECAST_DISK: Final = "disk"
FORECAST_QUOTA: Final = "quota"
FORECAST_MEMORY: Final = "memory"
"""Forecasts that each round of checks makes."""
RECENT_S: Final = 60.0
"""Seconds for which a refused publish, or a delay of the event loop, counts."""


class AlarmKind(NamedTuple):
    """Kind of alarms."""

    name: str
    severity: str
    meaning: str
    """Condition, for the documentation."""
    action: str
    """Advice, unless a check has a better one."""


STORE: Final[AlarmKind] = AlarmKind(
    "store", CRITICAL, "the store cannot be written: publishers of persistent messages wait",
    "look at the disk or the database of the store",
)  # fmt: skip
DISK_FULL: Final[AlarmKind] = AlarmKind(
    "disk-full", CRITICAL, "a gate of the disk is closed: a quota or the free space is used up",
    "consume messages, free space on the disk, or raise the limit",
)  # fmt: skip
DISK_LOW: Final[AlarmKind] = AlarmKind(
    "disk-low", WARNING,
    "a gate of the disk closes soon: below `alarm-disk-low`, above underfull, or within 10 minutes at its rate",
    "free space on the disk, or raise the limit",
)  # fmt: skip
MEMORY: Final[AlarmKind] = AlarmKind(
    "memory", CRITICAL, "the gate of the node's memory is closed",
    "`penstock queues list --sort -bytes` shows the largest queues; consume faster, or raise memory-capacity",
)  # fmt: skip
MEMORY_LOW: Final[AlarmKind] = AlarmKind(
    "memory-low", WARNING, "the gate of the node's memory closes within 10 minutes, if its rate stays as it is",
    "`penstock queues list --sort -bytes` shows the largest queues; consume faster, or raise memory-capacity",
)  # fmt: skip
CERTIFICATE: Final[AlarmKind] = AlarmKind(
    "certificate", WARNING, "a certificate of TLS ends within `alarm-certificate`, or has ended",
    "renew the certificate, then `penstock tls reload`",
)  # fmt: skip
CURSOR: Final[AlarmKind] = AlarmKind(
    "cursor", WARNING, "a cursor is beyond a limit `cursor-max-lag-...` of its queue",
    "start the reader of the cursor, or delete the cursor: `penstock cursors delete NAME`",
)  # fmt: skip
GATE: Final[AlarmKind] = AlarmKind(
    "gate", WARNING,
    "a gate has been closed for `alarm-gate-closed`: of a queue, address, virtual host or the operator",
    "`penstock why` names the consumers that are missing or slow",
)  # fmt: skip
OLDEST: Final[AlarmKind] = AlarmKind(
    "oldest", WARNING, "the oldest ready message of a queue is older than `alarm-oldest`",
    "`penstock why QUEUE`; start consumers, or more of them",
)  # fmt: skip
HELD: Final[AlarmKind] = AlarmKind(
    "held", WARNING, "publishes waited their hold deadline and were refused, in the last minute",
    "`penstock why` names the gate; consume faster, or raise the capacity",
)  # fmt: skip
LOOP: Final[AlarmKind] = AlarmKind(
    "loop", WARNING, "the event loop was late by `alarm-loop`, in the last minute or two: every client waited",
    "look for a slow disk, too few cores, or a suspended machine; the log has PST-2010 and PST-2011",
)  # fmt: skip
BRIDGE: Final[AlarmKind] = AlarmKind(
    "bridge", WARNING, "a bridge has been away for a minute, or its target has refused messages for as long",
    "`penstock bridges show NAME` tells which end, and why",
)  # fmt: skip
KINDS: Final[tuple[AlarmKind, ...]] = (
    STORE, DISK_FULL, MEMORY, DISK_LOW, MEMORY_LOW, CERTIFICATE, GATE, OLDEST, HELD, CURSOR, BRIDGE, LOOP,
)  # fmt: skip
"""All kinds of alarms, the most urgent first."""

Key = tuple[str, str, str]
"""Kind, virtual host and subject of an alarm."""


class Alarm:
    """Alarm that is raised."""

    def __init__(self, kind: AlarmKind, vhost: str, subject: str, number: int, now: float) -> None:
        self.kind = kind
        self.vhost = vhost
        """Virtual host of the subject; empty for the node."""
        self.subject = subject
        """Object that the alarm is about, for sentences, such as queue orders."""
        self.number = number
        self.since: float = now
        """Time at which the alarm was raised, in monotonic seconds."""
        self.found_at: float = now
        """Time at which the condition was found last."""
        self.round: i64 = 0
        """Number of the round that found the condition last."""
        self.text: str = ""
        """Condition in one sentence, as found last."""
        self.action: str = kind.action
        self.outlook: Outlook = UNKNOWN
        """When it hurts and what it is about, as found last."""

    def tone(self) -> str:
        """Return `stop` while publishers of the broker, or those of an operator's gate, wait; otherwise `warn`."""
        by_operator = self.kind is GATE and self.subject.startswith(OPERATOR)
        return STOP if self.kind.severity == CRITICAL or by_operator else WARN


class Refusals:
    """Publishes that one gate refused at their hold deadline, lately."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.count: i64 = 0
        self.last: float = 0.0


class AlarmChange:
    """Change of an alarm, for listeners: `RAISED` or `CLEARED`."""

    def __init__(self, change: str, key: Key, alarm: Row, at: float) -> None:
        self.change = change
        self.key = key
        self.alarm = alarm
        """Row of the alarm at the change."""
        self.at: float = at
        """Seconds since the epoch."""


def order_of(row: Row) -> tuple[bool, str, str, str, str]:
    """Return the key by which rows of alarms are sorted: critical ones first, then by the time of raising."""
    since = f"{row['since']:>20}"
    return row["severity"] != CRITICAL, since, str(row["vhost"] or ""), str(row["kind"]), str(row["subject"])


@mypyc_attr(allow_interpreted_subclasses=True)
class AlarmListener:
    """Receiver of changes outside the broker; this class implements a broker without one."""

    def changed(self, change: AlarmChange) -> None:
        """Take a change of an alarm. Must not wait."""

    def view(self) -> Row | None:
        """Return the state of the receiver; None without one."""
        return None

    def fates(self) -> dict[str, int]:
        """Return the numbers of changes by what became of them: the words in `FATES`."""
        return dict.fromkeys(FATES, 0)

    def test(self, then: Callable[[Row], None]) -> None:
        """Send a test, and call `then` with its result in a later turn. Raises PreconditionFailed (406)."""
        raise PreconditionFailed("this broker has no web hook for alarms: set url in [alarm-hook] of its settings file")


class Alarms:
    """Raised alarms of one broker."""

    def __init__(self, broker: Broker, log: Callable[[LogLine], None]) -> None:
        self.broker = broker
        self._log = log
        self.listener = AlarmListener()
        self._raised: dict[Key, Alarm] = {}
        """Raised alarms in the order in which they were raised."""
        self.omitted: int = 0
        """Conditions of the last round that raised no alarm, because `ALARMS_MOST` were raised."""
        self._omitting: int = 0
        self._round: i64 = 0
        self.numbers = Numbers()
        self.refusing: dict[tuple[str, str], Refusals] = {}
        """Gates with refusals at the hold deadline, by virtual host and name."""
        self.forecasts: dict[str, float | None] = {}
        """Seconds until a limit is reached, as found by the last round; None where nobody knows."""
        self._late_s: float = 0.0
        self._late_at: float = -NEVER
        """Longest delay of the event loop that was no turn, within `RECENT_S`, and its time."""

    # Reports of events

    def refused(self, gate: Gate, publishes: i64) -> None:
        """Record publishes that were refused because their hold deadline passed at a gate."""
        words = text_of(gate)
        key = (words.vhost(gate) or "", words.name(gate))
        refusals = self.refusing.get(key)
        if refusals is None:
            if len(self.refusing) >= REFUSING_MOST:
                return
            refusals = Refusals(gate)
            self.refusing[key] = refusals
        refusals.count += publishes
        refusals.last = self.broker.now

    def late(self, seconds: float) -> None:
        """Record the delay of a tick of the event loop."""
        now = self.broker.now
        if seconds > self._late_s or now - self._late_at > RECENT_S:
            self._late_s = seconds
            self._late_at = now

    def late_s(self) -> float:
        """Return the longest delay within `RECENT_S`."""
        return self._late_s if self.broker.now - self._late_at <= RECENT_S else 0.0

    # Rounds

    def begin_round(self) -> None:
        """Begin a round of checks."""
        self._round += 1
        self._omitting = 0

    def wants(self, kind: AlarmKind, vhost: str, subject: str) -> bool:
        """Return whether a condition can have an alarm; otherwise count the condition."""
        if len(self._raised) < ALARMS_MOST or (kind.name, vhost, subject) in self._raised:
            return True
        self._omitting += 1
        return False

    def find(
        self,
        kind: AlarmKind,
        vhost: str,
        subject: str,
        text: str,
        action: str = "",
        outlook: Outlook = UNKNOWN,
    ) -> None:
        """Record a condition that holds: raise its alarm, unless the alarm is raised already."""
        key = (kind.name, vhost, subject)
        alarm = self._raised.get(key)
        is_new = alarm is None
        if alarm is None:
            if not self.wants(kind, vhost, subject):
                return
            alarm = Alarm(kind, vhost, subject, self.numbers.next(), self.broker.now)
            self._raised[key] = alarm
        alarm.round = self._round
        alarm.found_at = self.broker.now
        alarm.text = text
        alarm.outlook = outlook
        if action:
            alarm.action = action
        if is_new:
            self._report(RAISED, key, alarm)

    def end_round(self, clear_s: float) -> None:
        """Clear the alarms whose condition the round has not found, and that is gone for some seconds."""
        now = self.broker.now
        for key, alarm in list(self._raised.items()):
            if alarm.round != self._round and now - alarm.found_at >= clear_s:
                del self._raised[key]
                self._report(CLEARED, key, alarm)
        self.omitted = self._omitting

    # Views

    def counts(self) -> dict[str, int]:
        """Return the number of raised alarms by kind; each kind has a number."""
        counts = {kind.name: 0 for kind in KINDS}
        for alarm in self._raised.values():
            counts[alarm.kind.name] += 1
        return counts

    def rows(self) -> list[Row]:
        """Return the raised alarms as plain data, in their order for people."""
        return sorted([self.row(alarm) for alarm in self._raised.values()], key=order_of)

    def row(self, alarm: Alarm) -> Row:
        """Return an alarm as plain data."""
        return {
            "id": alarm.number,
            "kind": alarm.kind.name,
            "severity": alarm.kind.severity,
            "vhost": alarm.vhost or None,
            "subject": alarm.subject,
            "since": round((alarm.since + self.broker.wall_offset) * 1000),
            "for_s": round(self.broker.now - alarm.since, 3),
            "text": alarm.text,
            "action": alarm.action,
            "tone": alarm.tone(),
            "noun": alarm.outlook.noun,
            "name": alarm.outlook.name or None,
            "hurts_in_s": None if alarm.outlook.hurts_in_s is None else round(alarm.outlook.hurts_in_s, 1),
            "left": alarm.outlook.left,
            "unit": alarm.outlook.unit or None,
        }

    def _report(self, change: str, key: Key, alarm: Alarm) -> None:
        """Log a change, and pass it to the listener."""
        fields: dict[str, object] = {
            "id": ALARM_RAISED if change == RAISED else ALARM_CLEARED,
            "alarm": alarm.kind.name,
            "severity": alarm.kind.severity,
            "vhost": alarm.vhost or None,
            "subject": alarm.subject,
        }
        if change == RAISED:
            text = f"alarm {alarm.kind.name} raised: {alarm.text}; {alarm.action}"
        else:
            where = f" of vhost {alarm.vhost}" if alarm.vhost else ""
            text = (
                f"alarm {alarm.kind.name} cleared: {alarm.subject}{where}, after {self.broker.now - alarm.since:.0f} s"
            )
        self._log(LogLine(text, fields))
        self.listener.changed(AlarmChange(change, key, self.row(alarm), self.broker.now + self.broker.wall_offset))
