"""Metadata records of durable definitions: their kinds, keys, data and encoding."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import PLAIN, PasswordHash, file_password, read_hash
from penstock.access.permission import PERMISSION_KINDS, READ, WRITE, Permission, TopicPermission
from penstock.access.user import STORE, PermissionRecord, ScramSecret, TopicPermissionRecord, User, VhostLimits
from penstock.core.gates.operator import OperatorGate
from penstock.core.journal.group import WHOLE_BATCH, MarkRecord, MetadataChange
from penstock.core.journal.journal import Journal, numbers_end
from penstock.core.publish.producer_lanes import LaneRecord
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.core.routing.declarations import number_of
from penstock.core.routing.exchange import EXCHANGE as TO_EXCHANGE
from penstock.core.routing.exchange import QUEUE as TO_QUEUE
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.settings.policies import OPERATOR, Policy
from penstock.core.settings.table import Parameter, SettingsEntry
from penstock.core.vhost import VirtualHost
from penstock.errors import StoreError
from penstock.settings.table import SettingValue
from penstock.store.records import MetadataRecord

OCTETS_MAX: Final = 1024
"""Longest key in bytes; a longer key is cut and completed by a digest. PostgreSQL's indexes allow 2,704 bytes."""
CUT: Final = 200
"""Characters of a long key that stay readable."""
_UNESCAPED: Final = re.compile(r"%([0-9A-F]{2})")
_ESCAPED: Final = re.compile(r"[%/\x00-\x1f\x7f\ud800-\udfff]")


def key_of(*names: str) -> str:
    """Return the key of these names, joined by slashes; slashes in names are escaped as in a URL."""
    key = "/".join([_ESCAPED.sub(_escape, name) for name in names])
    octets = key.encode()
    if len(octets) <= OCTETS_MAX:
        return key
    return f"{key[:CUT]}%#{digest(octets)}"  # No name contains this escape, so the key is unique.


def names_of(key: str) -> list[str]:
    """Return the names of a key. Raises StoreError for a key that was cut."""
    if "%#" in key:
        raise StoreError(f"the key '{key}' was cut, and does not have its names")
    return [_UNESCAPED.sub(lambda match: chr(int(match[1], 16)), name) for name in key.split("/")]


def digest(octets: bytes) -> str:
    """Return a digest of these bytes in 32 hexadecimal digits."""
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


class Fields:
    """Fields of a decoded record. All readers raise StoreError with the field's name."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return a string."""
        text: str = self._of(str, name, "field '{}' is not text")
        return text

    def number(self, name: str) -> int:
        """Return a non-negative integer."""
        return _number(name, self._fields.get(name))

    def flag(self, name: str) -> bool:
        """Return true or false."""
        flag: bool = self._of(bool, name, "its '{}' is neither true nor false")
        return flag

    def table(self, name: str) -> dict[str, object]:
        """Return a table of arguments, or of settings."""
        value: dict[str, object] = self._of(dict, name, "field '{}' is not a table")
        try:
            return {key: from_json(each) for key, each in value.items()} if value else {}
        except RecursionError:
            raise StoreError(f"its '{name}' is nested too deeply") from None

    def has(self, name: str) -> bool:
        """Return whether the field exists."""
        return name in self._fields

    def names(self, name: str) -> list[str]:
        """Return a list of names; empty if the field is missing, as in records of earlier versions."""
        value = self._fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise StoreError(f"its '{name}' is not a list of names")
        return value

    def numbers(self, name: str) -> list[int]:
        """Return a list of non-negative integers."""
        value: list[object] = self._of(list, name, "its '{}' is not a list of numbers")
        return [_number(name, number) for number in value]

    def counts(self, name: str) -> dict[str, int]:
        """Return numbers by name; empty if the field is missing, as in records of earlier versions."""
        value: dict[str, object] = self._of(dict, name, "its '{}' is not a table of numbers", {})
        return {key: _number(name, number) for key, number in value.items()}

    def lists(self, name: str) -> dict[str, list[int]]:
        """Return lists of numbers by name; empty if the field is missing."""
        value: dict[str, object] = self._of(dict, name, "its '{}' is not a table of lists", {})
        lists: dict[str, list[int]] = {}
        for key, numbers in value.items():
            if not isinstance(numbers, list):
                raise StoreError(f"its '{name}' is not a table of lists")
            lists[key] = [_number(name, number) for number in numbers]
        return lists

    def positions(self, name: str) -> list[tuple[str, list[int]]]:
        """Return queue names, each with four numbers."""
        value: list[object] = self._of(list, name, "its '{}' is not a list")
        positions: list[tuple[str, list[int]]] = []
        for each in value:
            if not isinstance(each, list) or len(each) != 5 or not isinstance(each[0], str):
                raise StoreError(f"its '{name}' is not a list of names with four numbers each")
            positions.append((each[0], [_number(name, number) for number in each[1:]]))
        return positions

    def _of(self, kind: type, name: str, rule: str, otherwise: object = None) -> Any:
        value = self._fields.get(name, otherwise)
        if not isinstance(value, kind):
            raise StoreError(rule.format(name))
        return value


def pack(fields: dict[str, object]) -> bytes:
    """Encode the fields of a record, whose tables are JSON already."""
    return b"%c%b" % (VERSION, _ENCODER.encode(fields).encode())


def unpack(data: bytes) -> Fields:
    """Decode the fields of a record. Raises StoreError for invalid data and for a newer version."""
    if not data:
        raise StoreError("the record is empty")
    if data[0] != VERSION:
        raise StoreError(f"it has format {data[0]}; this version reads {VERSION}")
    try:
        fields = json.loads(data[1:].decode())  # Given bytes, json would guess the encoding.
    except (ValueError, RecursionError):
        raise StoreError("it is cut short or damaged") from None
    if not isinstance(fields, dict):
        raise StoreError("it is damaged: it has no fields")
    return Fields(fields)


def table_as_json(table: dict[str, object]) -> dict[str, object]:
    """Return a table in its JSON form."""
    return {name: as_json(value) for name, value in table.items()} if table else table


def as_json(value: object) -> object:
    """Return a table value in its JSON form."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"d": struct.pack(">d", value).hex()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {"F": table_as_json(value)}
    if isinstance(value, bytes):
        return {"x": value.hex()}
    if isinstance(value, datetime):
        return {"T": (value - _EPOCH) // _MICROSECOND}
    if isinstance(value, Decimal):
        return {"D": str(value)}
    raise TypeError(f"{type(value)} is no type of a value in a field table")


def from_json(value: object) -> object:
    """Decode a value; the inverse of `as_json`. Raises StoreError."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    for kind, content in value.items():
        try:
            return _typed(kind, content)
        except (ValueError, OverflowError, InvalidOperation, struct.error):
            break
    raise StoreError("a value in it is damaged")


def _typed(kind: str, content: object) -> object:
    if kind == "F" and isinstance(content, dict):
        return {name: from_json(each) for name, each in content.items()}
    if kind == "T" and isinstance(content, int):
        return _EPOCH + content * _MICROSECOND
    if not isinstance(content, str):
        raise ValueError
    if kind == "x":
        return bytes.fromhex(content)
    if kind == "D":
        return Decimal(content)
    if kind == "d":
        number: float = struct.unpack(">d", bytes.fromhex(content))[0]
        return number
    raise ValueError


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise StoreError(f"field '{name}' is not a non-negative integer of 63 bits")
    return value


USER: Final = "user"
"""A user with its tags and limits; its password is a hash, except for guest with the default password."""
PERMISSION: Final = "permission"
TOPIC_PERMISSION: Final = "topic-permission"
VHOST_LIMITS: Final = "vhost-limits"
SCRAM_SECRET: Final = "scram-secret"


def user_fields(user: User) -> dict[str, object]:
    """Return the optional fields of a user: its password, keys and limits."""
    fields: dict[str, object] = {}
    hashed = user.password_hash
    if hashed is not None:
        fields["algorithm"] = hashed.algorithm
        fields["hash"] = hashed.digest.decode() if hashed.algorithm == PLAIN else hashed.text()
    if user.scram is not None:
        salt, stored, server, iterations = user.scram
        fields["scram"] = [salt.hex(), stored.hex(), server.hex(), str(iterations)]
    if user.former:
        fields["former"] = user.former
    if user.limits:
        fields["limits"] = dict(user.limits)
    return fields


def permission_fields(record: PermissionRecord | TopicPermissionRecord) -> dict[str, object]:
    """Return the expressions of a permission."""
    permission, kinds = record.permission, PERMISSION_KINDS if isinstance(record, PermissionRecord) else (WRITE, READ)
    return {kind: permission.expression(kind) for kind in kinds}


def restore_user(table: AccessTable, fields: Fields) -> None:
    """Add a user to the table. Raises StoreError."""
    table.restore_user(read_user(fields))


def read_user(fields: Fields) -> User:
    """Decode a user. Raises StoreError."""
    user = User(fields.text("name"), _password(fields), fields.names("tags"), STORE)
    user.everywhere = fields.flag("everywhere")
    parts = fields.names("scram")
    if parts:
        try:
            user.scram = bytes.fromhex(parts[0]), bytes.fromhex(parts[1]), bytes.fromhex(parts[2]), int(parts[3])
        except (ValueError, IndexError):
            raise StoreError("its 'scram' is damaged") from None
    user.former = fields.text("former") if fields.has("former") else ""
    user.limits = fields.counts("limits")
    return user


def _password(fields: Fields) -> PasswordHash | None:
    if not fields.has("hash"):
        return None
    text, algorithm = fields.text("hash"), fields.text("algorithm")
    return file_password(text) if algorithm == PLAIN else read_hash(text, algorithm)


def restore_permission(table: AccessTable, fields: Fields) -> None:
    """Set a permission in the table. Raises StoreError, NotFound."""
    table.restore_permission(read_permission(fields))


def read_permission(fields: Fields) -> PermissionRecord:
    """Decode a permission. Raises StoreError."""
    permission = Permission(fields.text("configure"), fields.text("write"), fields.text("read"))
    return PermissionRecord(fields.text("user"), fields.text("vhost"), permission)


def restore_topic_permission(table: AccessTable, fields: Fields) -> None:
    """Set a topic permission in the table. Raises StoreError, NotFound."""
    table.restore_permission(read_topic_permission(fields))


def read_topic_permission(fields: Fields) -> TopicPermissionRecord:
    """Decode a topic permission. Raises StoreError."""
    permission = TopicPermission(fields.text("write"), fields.text("read"))
    return TopicPermissionRecord(fields.text("user"), fields.text("vhost"), fields.text("exchange"), permission)


def restore_scram_secret(table: AccessTable, fields: Fields) -> None:
    """Set the secret of the salts for SCRAM. Raises StoreError."""
    try:
        table.scram_secret.octets = bytes.fromhex(fields.text("secret"))
    except ValueError:
        raise StoreError("its 'secret' is damaged") from None


def restore_vhost_limits(table: AccessTable, fields: Fields) -> None:
    """Set the limits of a virtual host in the table. Raises StoreError, BrokerError."""
    table.set_vhost_limits(fields.text("vhost"), fields.counts("limits"))


NUMBERS: Final = "numbers"
"""Record of the lowest queue number that was never assigned or reserved."""
VHOST: Final = "vhost"
"""Virtual host that was created at run time; other hosts are in the settings file."""
SETTINGS: Final = "settings"
"""Settings of one pattern that were set by command."""
BLOCK: Final = "block"
"""Gates that the operator has closed."""
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"
BINDING: Final = "binding"
CURSOR: Final = "cursor"
POLICY: Final = "policy"
"""A policy, or an operator policy."""
PARAMETER: Final = "parameter"
"""A runtime parameter, or a global parameter."""
MARK: Final = "mark"
"""Progress of a publishing query: of one partition of its batch, or of the whole batch."""

LANE: Final = "lane"
"""Mark of a producer's lane: the number up to which its publishes are decided."""


def encode_metadata(change: MetadataChange) -> MetadataRecord:
    """Encode a change for the store: the present definition, or its deletion."""
    subject = change.subject
    if isinstance(subject, MetadataRecord):  # The object exists only in the store and has no meaning any more.
        return MetadataRecord(subject.kind, subject.key, None)
    kind = kind_of(subject)
    return MetadataRecord(kind.name, kind.key(subject), None if change.deleted else pack(kind.fields(subject)))


class Kind:
    """Kind of records: its objects, their key and their fields."""

    def __init__(
        self,
        name: str,
        objects: type,
        key: str | Callable[[Any], str],
        fields: str = "",
        more: Callable[[Any], dict[str, object]] | None = None,
    ) -> None:
        self.name = name
        self.objects = objects
        self._key = key
        """Attributes that form the key, or the function that returns the key."""
        self._fields: list[tuple[str, str]] = []
        """Names of fields with their attributes; in `fields`, NAME=ATTRIBUTE where the two differ."""
        for field in fields.split():
            named, _, attribute = field.partition("=")
            self._fields.append((named, attribute or named))
        self._more = more
        """Further fields."""

    def key(self, subject: object) -> str:
        """Return the key of an object."""
        if isinstance(self._key, str):
            return key_of(*[getattr(subject, name) for name in self._key.split()])
        return self._key(subject)

    def fields(self, subject: object) -> dict[str, object]:
        """Return the fields of an object."""
        fields: dict[str, object] = {}
        for name, attribute in self._fields:
            value = getattr(subject, attribute)
            fields[name] = table_as_json(value) if isinstance(value, dict) else value
        return fields if self._more is None else {**fields, **self._more(subject)}


def kind_of(subject: object) -> Kind:
    """Return the kind of a definition's records."""
    kind = _FOUND.get(type(subject))
    if kind is None:
        for kind in KINDS:
            if isinstance(subject, kind.objects):
                break
        assert kind is not None
        _FOUND[type(subject)] = kind
    return kind


def _setting_fields(entry: SettingsEntry) -> dict[str, object]:
    overrides = entry.commands(True)
    return {
        "settings": _settings(entry.commands(False)),
        **({"override": _settings(overrides)} if overrides else {}),
    }


def _policy_key(policy: Policy) -> str:
    return key_of(policy.vhost, OPERATOR if policy.operator else "", policy.name)


def _settings(values: dict[str, SettingValue]) -> dict[str, object]:
    return {value.alias: as_json(value.raw) for value in values.values()}


def _binding(binding: Binding) -> dict[str, object]:
    fields: dict[str, object] = {"vhost": binding.source.vhost, "source": binding.source.name}
    if binding.queue is not None:
        fields["queue"] = binding.queue.name
        fields["number"] = number_of(binding.queue)
    elif binding.exchange is not None:
        fields["exchange"] = binding.exchange.name
    return fields


def _binding_key(binding: Binding) -> str:
    source = binding.source
    marked = digest(pack(table_as_json(binding.arguments))) if binding.arguments else ""
    if binding.queue is not None:
        return key_of(source.vhost, source.name, TO_QUEUE, binding.queue.name, binding.key, marked)
    assert binding.exchange is not None
    return key_of(source.vhost, source.name, TO_EXCHANGE, binding.exchange.name, binding.key, marked)


def _cursor(cursor: CursorState) -> dict[str, object]:
    """Return the positions of a cursor. A deleted or transient queue has number 0 and is restored as deleted."""
    there = cursor.positions.items()
    positions: list[object] = []
    for name, position in there:
        number = 0 if position.queue.deleted else number_of(position.queue)
        positions.append([name, number, int(position.initial), int(position.settled), int(position.planned)])
    fields: dict[str, object] = {"positions": positions}
    gaps = {name: position.shared.gap_numbers() for name, position in there}
    if any(gaps.values()):
        fields["gaps"] = {name: numbers for name, numbers in gaps.items() if numbers}
    left = [name for name, position in there if position.left]
    if left:
        fields["left"] = left
    if cursor.user:
        fields["user"] = cursor.user
    if cursor.id:
        fields["id"] = cursor.id
    if cursor.lost:
        fields["lost"] = cursor.lost
        fields["generations"] = {name: position.generation for name, position in there if position.generation}
    return fields


def _parameter(parameter: Parameter) -> dict[str, object]:
    """Return the value of a parameter, and the user of a bridge that runs."""
    fields: dict[str, object] = {"content": {"value": as_json(parameter.value)}}
    return {**fields, "run_as": parameter.run_as} if parameter.run_as else fields


def _mark_key(record: MarkRecord) -> str:
    partition = "batch" if record.partition == WHOLE_BATCH else str(int(record.partition))
    return key_of(record.vhost, record.query, record.target, partition)


def _mark(record: MarkRecord) -> dict[str, object]:
    """Return the fields of a mark.

    The mark of a whole batch has no rows; its number of partitions is stored plus 1, because 0 means unknown.
    """
    fields: dict[str, object] = {"user": record.user} if record.user else {}
    if record.partition == WHOLE_BATCH:
        if record.spread:
            fields["spread"] = record.spread
        return {**fields, "partitions": int(record.partitions) + 1, "promoted": record.promoted}
    rows: dict[str, object] = {"rows": int(record.rows), "checked": int(record.checked), "digest": record.digest}
    if record.reached:
        rows["reached"] = int(record.reached)
    return {**fields, "partition": int(record.partition), **rows}


def read_lane(fields: Fields) -> LaneRecord:
    """Decode the mark of a lane. Raises StoreError."""
    record = LaneRecord(fields.text("vhost"), fields.text("producer"), fields.text("lane"), fields.text("user"))
    record.named = fields.flag("named")
    record.epoch = fields.number("epoch")
    record.taken = fields.number("taken")
    record.refused = fields.numbers("refused")
    return record


def read_mark(fields: Fields) -> MarkRecord:
    """Decode a mark. Raises StoreError."""
    partition = fields.number("partition") if fields.has("partition") else WHOLE_BATCH
    record = MarkRecord(fields.text("vhost"), fields.text("query"), fields.text("target"), partition)
    record.batch = fields.number("batch")
    record.run = fields.text("run")
    record.write = fields.text("write")
    record.user = fields.text("user") if fields.has("user") else ""
    if partition == WHOLE_BATCH:
        record.partitions = fields.number("partitions") - 1
        record.promoted = fields.flag("promoted")
        record.spread = fields.text("spread") if fields.has("spread") else ""
        return record
    record.rows = fields.number("rows")
    record.reached = fields.number("reached") if fields.has("reached") else 0
    record.checked = fields.number("checked")
    record.digest = fields.text("digest")
    return record


# fmt: off
KINDS: Final[tuple[Kind, ...]] = (
    Kind(QUEUE, Queue, "vhost name", "vhost name auto_delete arguments", lambda queue: {"number": number_of(queue)}),
    Kind(EXCHANGE, Exchange, "vhost name", "vhost name type=kind auto_delete internal arguments"),
    Kind(BINDING, Binding, _binding_key, "key arguments", _binding),
    Kind(CURSOR, CursorState, "vhost name", "vhost name token", _cursor),
    Kind(MARK, MarkRecord, _mark_key, "vhost query target batch run write", _mark),
    Kind(LANE, LaneRecord, "vhost producer lane user", "vhost producer lane user named epoch taken refused"),
    Kind(SETTINGS, SettingsEntry, "scope pattern", "scope pattern", _setting_fields),
    Kind(BLOCK, OperatorGate, "scope vhost name", "scope vhost name reason"),
    Kind(POLICY, Policy, _policy_key, "vhost name operator", lambda policy: {"policy": table_as_json(policy.fields())}),
    Kind(PARAMETER, Parameter, "component vhost name", "component vhost name", _parameter),
    Kind(VHOST, VirtualHost, "name", "name metadata"),
    Kind(USER, User, "name", "name tags everywhere", user_fields),
    Kind(PERMISSION, PermissionRecord, "user vhost", "user vhost", permission_fields),
    Kind(TOPIC_PERMISSION, TopicPermissionRecord, "user vhost exchange", "user vhost exchange", permission_fields),
    Kind(VHOST_LIMITS, VhostLimits, "vhost", "vhost limits"),
    Kind(SCRAM_SECRET, ScramSecret, lambda secret: "salts", "", lambda secret: {"secret": secret.octets.hex()}),
    Kind(NUMBERS, Journal, lambda journal: "queues", "",
         lambda journal: {"next": numbers_end(int(journal.next_queue))}),
)
# fmt: on
"""All kinds. Names, keys and fields are in stores, and so must not change, with one exception.

Keys of lanes had no user in earlier versions; such records are rewritten at the start (restore.py).
"""
_FOUND: Final[dict[type, Kind]] = {}
"""Kinds by the types of objects seen so far."""
