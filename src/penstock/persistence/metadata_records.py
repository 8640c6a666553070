"""Metadata records of durable definitions: their kinds, keys and data."""

from __future__ import annotations

from typing import Final

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
from penstock.core.settings.changes import PolicyKey
from penstock.core.settings.parameters import Parameter
from penstock.core.settings.policies import OPERATOR, Policy
from penstock.core.settings.table import SettingsEntry
from penstock.core.vhost import VirtualHost
from penstock.persistence.access_metadata import access_fields, access_name
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
    kind, key = name_of(subject)
    return MetadataRecord(kind, key, None if change.deleted else pack(_fields_of(subject)))


def name_of(subject: object) -> tuple[str, str]:
    """Return kind and key of a definition."""
    if isinstance(subject, Queue):
        return QUEUE, key_of(subject.vhost, subject.name)
    if isinstance(subject, Exchange):
        return EXCHANGE, key_of(subject.vhost, subject.name)
    if isinstance(subject, Binding):
        return BINDING, _binding_key(subject)
    if isinstance(subject, CursorState):
        return CURSOR, key_of(subject.vhost, subject.name)
    if isinstance(subject, MarkRecord):
        partition = "batch" if subject.partition == WHOLE_BATCH else str(int(subject.partition))
        return MARK, key_of(subject.vhost, subject.query, subject.target, partition)
    if isinstance(subject, LaneRecord):
        return LANE, key_of(subject.vhost, subject.producer, subject.lane)
    if isinstance(subject, SettingsEntry):
        return SETTINGS, key_of(subject.scope, subject.pattern)
    if isinstance(subject, OperatorGate):
        return BLOCK, key_of(subject.scope, subject.vhost, subject.name)
    if isinstance(subject, Policy | PolicyKey):
        return POLICY, key_of(subject.vhost, OPERATOR if subject.operator else "", subject.name)
    if isinstance(subject, Parameter):
        return PARAMETER, key_of(subject.component, subject.vhost, subject.name)
    if isinstance(subject, VirtualHost):
        return VHOST, key_of(subject.name)
    if isinstance(subject, (User, PermissionRecord, TopicPermissionRecord, VhostLimits, ScramSecret)):
        return access_name(subject)
    assert isinstance(subject, Journal)
    return NUMBERS, "queues"


def _fields_of(subject: object) -> dict[str, object]:
    if isinstance(subject, Queue):
        return {
            "vhost": subject.vhost,
            "name": subject.name,
            "number": number_of(subject),
            "auto_delete": subject.auto_delete,
            "arguments": table_as_json(subject.arguments),
        }
    if isinstance(subject, Exchange):
        return {
            "vhost": subject.vhost,
            "name": subject.name,
            "type": subject.kind,
            "auto_delete": subject.auto_delete,
            "internal": subject.internal,
            "arguments": table_as_json(subject.arguments),
        }
    if isinstance(subject, Binding):
        return _binding(subject)
    if isinstance(subject, CursorState):
        return _cursor(subject)
    if isinstance(subject, MarkRecord):
        return _mark(subject)
    if isinstance(subject, LaneRecord):
        return _lane(subject)
    if isinstance(subject, SettingsEntry):
        overrides = subject.commands(True)
        return {
            "scope": subject.scope,
            "pattern": subject.pattern,
            "settings": _settings(subject.commands(False)),
            **({"override": _settings(overrides)} if overrides else {}),
        }
    if isinstance(subject, OperatorGate):
        return {"scope": subject.scope, "vhost": subject.vhost, "name": subject.name, "reason": subject.reason}
    if isinstance(subject, Policy):
        fields = table_as_json(subject.fields())
        return {"vhost": subject.vhost, "name": subject.name, "operator": subject.operator, "policy": fields}
    if isinstance(subject, Parameter):
        value = {"value": as_json(subject.value)}
        return {"component": subject.component, "vhost": subject.vhost, "name": subject.name, "content": value}
    if isinstance(subject, VirtualHost):
        return {"name": subject.name, "metadata": table_as_json(subject.metadata)}
    if isinstance(subject, (User, PermissionRecord, TopicPermissionRecord, VhostLimits, ScramSecret)):
        return access_fields(subject)
    assert isinstance(subject, Journal)
    return {"next": numbers_end(int(subject.next_queue))}


def _settings(words: dict[str, SettingValue]) -> dict[str, object]:
    return {word.alias: as_json(word.raw) for word in words.values()}


def _binding(binding: Binding) -> dict[str, object]:
    fields: dict[str, object] = {"vhost": binding.source.vhost, "source": binding.source.name}
    if binding.queue is not None:
        fields["queue"] = binding.queue.name
        fields["number"] = number_of(binding.queue)
    elif binding.exchange is not None:
        fields["exchange"] = binding.exchange.name
    fields["key"] = binding.key
    fields["arguments"] = table_as_json(binding.arguments)
    return fields


def _binding_key(binding: Binding) -> str:
    source = binding.source
    marked = digest(pack(table_as_json(binding.arguments))) if binding.arguments else ""
    if binding.queue is not None:
        return key_of(source.vhost, source.name, TO_QUEUE, binding.queue.name, binding.key, marked)
    assert binding.exchange is not None
    return key_of(source.vhost, source.name, TO_EXCHANGE, binding.exchange.name, binding.key, marked)


def _cursor(cursor: CursorState) -> dict[str, object]:
    """Encode a cursor. A deleted or transient queue has number 0 and is restored as deleted."""
    positions: list[object] = []
    for name, position in cursor.positions.items():
        number = 0 if position.queue.deleted else number_of(position.queue)
        positions.append([name, number, int(position.initial), int(position.settled), int(position.planned)])
    fields: dict[str, object] = {
        "vhost": cursor.vhost,
        "name": cursor.name,
        "token": cursor.token,
        "positions": positions,
    }
    left: list[object] = [name for name, position in cursor.positions.items() if position.left]
    generations: dict[str, object] = {
        name: position.generation for name, position in cursor.positions.items() if position.generation
    }
    gaps: dict[str, object] = {name: position.shared.gap_numbers() for name, position in cursor.positions.items()}
    if any(gaps.values()):
        fields["gaps"] = {name: numbers for name, numbers in gaps.items() if numbers}
    if left:
        fields["left"] = left
    if cursor.lost:
        fields["lost"] = cursor.lost
        fields["generations"] = generations
    return fields


def _mark(record: MarkRecord) -> dict[str, object]:
    """Encode a mark. One of a whole batch has no rows, and the number of partitions plus 1: 0 is unknown."""
    fields: dict[str, object] = {
        "vhost": record.vhost,
        "query": record.query,
        "target": record.target,
        "batch": int(record.batch),
        "run": record.run,
        "write": record.write,
    }
    if record.user:
        fields["user"] = record.user
    if record.partition == WHOLE_BATCH:
        fields["partitions"] = int(record.partitions) + 1
        fields["promoted"] = record.promoted
        return fields
    fields["partition"] = int(record.partition)
    fields["rows"] = int(record.rows)
    fields["checked"] = int(record.checked)
    fields["digest"] = record.digest
    return fields


def _lane(record: LaneRecord) -> dict[str, object]:
    refused: list[object] = list(record.refused)
    return {
        "vhost": record.vhost,
        "producer": record.producer,
        "lane": record.lane,
        "user": record.user,
        "named": record.named,
        "epoch": int(record.epoch),
        "taken": int(record.taken),
        "refused": refused,
    }


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
