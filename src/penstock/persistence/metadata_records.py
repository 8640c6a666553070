"""Metadata records of durable definitions: their kinds, keys and data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.access.user import PermissionRecord, ScramSecret, TopicPermissionRecord, User, VhostLimits
from penstock.core.gates.operator import OperatorGate
from penstock.core.journal.group import MetadataChange
from penstock.core.journal.journal import Journal, numbers_end
from penstock.core.journal.marks import WHOLE_BATCH, MarkRecord
from penstock.core.publish.producer_lanes import LaneRecord
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import EXCHANGE as TO_EXCHANGE
from penstock.core.routing.binding import QUEUE as TO_QUEUE
from penstock.core.routing.binding import Binding
from penstock.core.routing.durability import number_of
from penstock.core.routing.exchange import Exchange
from penstock.core.settings.parameters import Parameter
from penstock.core.settings.policies import OPERATOR, Policy
from penstock.core.settings.table import SettingsEntry
from penstock.core.vhost import VirtualHost
from penstock.persistence.access_metadata import (
    PERMISSION,
    SCRAM_SECRET,
    TOPIC_PERMISSION,
    USER,
    VHOST_LIMITS,
    permission_fields,
    user_fields,
)
from penstock.persistence.metadata_codec import Fields, as_json, pack, table_as_json
from penstock.persistence.metadata_keys import digest, key_of
from penstock.settings.value import SettingValue
from penstock.store.records import MetadataRecord

NUMBERS: Final = "numbers"
"""Record of the lowest queue number that was never assigned or reserved."""
VHOST: Final = "vhost"
"""Virtual host that was created at run time; others are in the settings file."""
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
"""A runtime parameter, or a global one."""
MARK: Final = "mark"
"""Progress of a query that publishes: of one partition of its batch, or of the whole batch."""

LANE: Final = "lane"
"""Mark of a producer's lane: the number up to which its publishes are decided."""


def encode_metadata(change: MetadataChange) -> MetadataRecord:
    """Encode a change for the store: the definition as it is now, or its deletion."""
    subject = change.subject
    if isinstance(subject, MetadataRecord):  # It exists in the store only and has no meaning any more.
        return MetadataRecord(subject.kind, subject.key, None)
    kind = kind_of(subject)
    return MetadataRecord(kind.name, kind.key(subject), None if change.deleted else pack(kind.fields(subject)))


class Kind:
    """Kind of records: which objects have them, their key and their fields."""

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
        """Attributes that make the key, or the function that returns it."""
        self._fields: list[tuple[str, str]] = []
        """Names of fields with the attributes that they are; in `fields` NAME=ATTRIBUTE where these differ."""
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
        found: dict[str, object] = {}
        for name, attribute in self._fields:
            value = getattr(subject, attribute)
            found[name] = table_as_json(value) if isinstance(value, dict) else value
        return found if self._more is None else {**found, **self._more(subject)}


def kind_of(subject: object) -> Kind:
    """Return the kind of a definition's records."""
    found = _FOUND.get(type(subject))
    if found is None:
        for found in KINDS:
            if isinstance(subject, found.objects):
                break
        assert found is not None
        _FOUND[type(subject)] = found
    return found


def _setting_fields(entry: SettingsEntry) -> dict[str, object]:
    overrides = entry.commands(True)
    return {
        "settings": _settings(entry.commands(False)),
        **({"override": _settings(overrides)} if overrides else {}),
    }


def _policy_key(policy: Policy) -> str:
    return key_of(policy.vhost, OPERATOR if policy.operator else "", policy.name)


def _settings(words: dict[str, SettingValue]) -> dict[str, object]:
    return {word.alias: as_json(word.raw) for word in words.values()}


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
    if cursor.lost:
        fields["lost"] = cursor.lost
        fields["generations"] = {name: position.generation for name, position in there if position.generation}
    return fields


def _mark_key(record: MarkRecord) -> str:
    partition = "batch" if record.partition == WHOLE_BATCH else str(int(record.partition))
    return key_of(record.vhost, record.query, record.target, partition)


def _mark(record: MarkRecord) -> dict[str, object]:
    """Return what a mark marks. One of a whole batch has no rows, and its partitions plus 1: 0 is unknown."""
    fields: dict[str, object] = {"user": record.user} if record.user else {}
    if record.partition == WHOLE_BATCH:
        return {**fields, "partitions": int(record.partitions) + 1, "promoted": record.promoted}
    rows: dict[str, object] = {"rows": int(record.rows), "checked": int(record.checked), "digest": record.digest}
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
        return record
    record.rows = fields.number("rows")
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
    Kind(LANE, LaneRecord, "vhost producer lane", "vhost producer lane user named epoch taken refused"),
    Kind(SETTINGS, SettingsEntry, "scope pattern", "scope pattern", _setting_fields),
    Kind(BLOCK, OperatorGate, "scope vhost name", "scope vhost name reason"),
    Kind(POLICY, Policy, _policy_key, "vhost name operator", lambda policy: {"policy": table_as_json(policy.fields())}),
    Kind(PARAMETER, Parameter, "component vhost name", "component vhost name",
         lambda parameter: {"content": {"value": as_json(parameter.value)}}),
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
"""All kinds. Stores have their names, keys and fields: none of them changes."""
_FOUND: Final[dict[type, Kind]] = {}
"""Kinds by the types of objects that were met."""
