"""Restoring definitions at start: virtual hosts, settings, exchanges, queues, bindings and cursors.

Definitions are declared again in the order of their dependencies, whatever the order of the records. A definition that
cannot be restored does not prevent others: the failure is reported in a sentence, and the definition stays in the
store. Queues are restored in any case.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import i64

from penstock.core.broker import Broker
from penstock.core.journal.journal import numbers_end
from penstock.core.publish.producer_lanes import LaneRecord
from penstock.core.queue.cursor_state import Position
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings, resolve
from penstock.core.queue.storage import QueueStorage
from penstock.core.queue.stream_queue import make_queue
from penstock.core.queue.stream_settings import resolve_type
from penstock.core.queue.types import PLAIN, Features, QueueType, read_features
from penstock.core.routing.declarations import number_of
from penstock.core.routing.exchange import Exchange, alternate_of
from penstock.core.routing.exchange_types import make_exchange
from penstock.core.settings import changes
from penstock.core.settings.limits import Defaults, Limits
from penstock.core.settings.policy_reader import read_policy
from penstock.core.settings.table import Parameter, SettingsTable
from penstock.core.vhost import PREDECLARED, VirtualHost
from penstock.errors import BrokerError, StoreError
from penstock.flow.work import Steps, finish
from penstock.persistence import metadata_records as access
from penstock.persistence import metadata_records as kinds
from penstock.persistence.metadata_records import Fields, key_of, unpack
from penstock.settings.read import read_arguments, read_pattern, read_settings
from penstock.settings.table import SettingValue
from penstock.store.records import MetadataRecord
from penstock.texts import joined


class VhostRestorer:
    """Restorer of definitions in virtual hosts.

    All methods raise StoreError for unreadable records and BrokerError for definitions that cannot be restored. Other
    reports are appended to a list of sentences.
    """

    def __init__(self, broker: Broker, remarks: list[str]) -> None:
        self.broker = broker
        self.remarks = remarks

    def exchange(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore an exchange; invalid limits are dropped."""
        name, arguments = fields.text("name"), fields.table("arguments")
        if name in vhost.exchanges:
            raise StoreError(f"there is an exchange '{name}' in vhost '{vhost.name}' already")
        exchange = make_exchange(fields.text("type"), vhost.name, name)
        exchange.set_arguments(arguments)
        alternate_of(name, vhost.name, arguments)
        exchange.durable = True
        exchange.auto_delete = fields.flag("auto_delete")
        exchange.internal = fields.flag("internal")
        try:
            vhost.add_exchange(exchange)
        except BrokerError as error:
            self.remarks.append(
                joined(str(error), f"exchange '{name}' in vhost '{vhost.name}' came back without limits")
            )

    def queue(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore a queue; invalid settings are replaced, and its messages stay.

        The time without use (`expires`) starts again, because the queue could not be used meanwhile. Auto-delete waits
        for the next consumer to leave.
        """
        name, arguments, number = fields.text("name"), fields.table("arguments"), fields.number("number")
        auto_delete = fields.flag("auto_delete")
        if number == 0:
            raise StoreError("its number is 0")
        if name in vhost.queues:
            raise StoreError(f"there is a queue '{name}' in vhost '{vhost.name}' already")
        features, other = features_of(name, arguments)
        settings, problem = settings_of(self.broker.table, vhost.name, name, arguments, features.type)
        for remarks in (problem, other):
            if remarks:
                self.remarks.append(f"vhost '{vhost.name}', {remarks}")
        queue = make_queue(vhost.name, name, settings, self.broker.turns, self.broker.losses, features)
        queue.arguments = arguments
        queue.durable = True
        queue.auto_delete = auto_delete
        journal = self.broker.journal
        if journal is not None:
            queue.set_storage(QueueStorage(journal, queue, number))
            if number >= journal.next_queue:  # The record of the next number was lost.
                journal.next_queue = numbers_end(number + 1)
        vhost.add_queue(queue)
        self.broker.touch_queue(queue)

    def binding(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore a binding, if its queue still has the same number."""
        queue: Queue | None = None
        target: Exchange | None = None
        if fields.has("queue"):
            name, number = fields.text("queue"), fields.number("number")
            queue = vhost.queue(name)
            if number_of(queue) != number:
                there = number_of(queue)
                raise StoreError(f"it leads to queue '{name}' number {number}, and that queue is number {there}")
        else:
            target = vhost.exchange(fields.text("exchange"))
        vhost.bind(fields.text("source"), queue, target, fields.text("key"), fields.table("arguments"), True)

    def cursor(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore a cursor's positions and token."""
        left, generations = fields.names("left"), fields.counts("generations")
        gaps = fields.lists("gaps")
        positions: list[Position] = []
        for name, (number, initial, settled, planned) in fields.positions("positions"):
            queue = vhost.queues.get(name)
            if queue is None or number == 0 or number_of(queue) != number:
                queue = self._deleted(vhost, name)
            position = Position(queue, initial)
            position.settled = settled
            position.planned = planned
            position.left = name in left
            position.generation = generations.get(name, 0)
            position.shared.restore_gaps(planned, gaps.get(name, []))
            positions.append(position)
        lost = fields.number("lost") if fields.has("lost") else 0
        user = fields.text("user") if fields.has("user") else ""
        token = fields.number("token")
        identifier = fields.text("id") if fields.has("id") else ""
        self.broker.ranges.restore_cursor(vhost, fields.text("name"), user, token, lost, positions, identifier)

    def _deleted(self, vhost: VirtualHost, name: str) -> Queue:
        """Return a placeholder for a queue that was transient or deleted."""
        queue = Queue(
            vhost.name, name, resolve(name, {}, Defaults()), self.broker.turns, self.broker.losses, Features()
        )
        queue.deleted = True
        return queue


def settings_of(
    table: SettingsTable, vhost: str, queue: str, arguments: dict[str, object], type: QueueType
) -> tuple[Settings, str]:
    """Return the settings of a queue, and a sentence if they differ from before, else "".

    The settings differ if a pattern or a new version has made the combination invalid. Then only the queue's own
    arguments apply, or, if these are invalid by themselves, the broker's values.
    """
    given: dict[str, SettingValue] = {}
    try:
        given = read_arguments(queue, arguments)
        return table.queue(vhost, queue, given, type.apply_to), ""
    except BrokerError as error:
        problem = str(error)
    defaults = table.defaults()
    try:
        settings = resolve_type(queue, given, defaults, type.apply_to)
    except BrokerError:
        given = {}
        settings = resolve_type(queue, given, defaults, type.apply_to)
    settings.given = given
    how = "its own arguments alone" if given else "the broker's own values"
    return settings, f"{problem}; queue '{queue}' came back with {how}"


def features_of(queue: str, arguments: dict[str, object]) -> tuple[Features, str]:
    """Return the features of a queue from its arguments, and a sentence as `settings_of` does."""
    try:
        return read_features(queue, arguments), ""
    except BrokerError as error:
        return PLAIN, joined(str(error), f"queue '{queue}' came back as an ordinary one")


PREDECLARED_NAMES: Final = frozenset([name for name, _ in PREDECLARED])
RECORDS_A_STEP: Final = 200
"""Most records restored per step."""


def restore_steps(broker: Broker, records: Iterable[MetadataRecord]) -> Steps[list[str]]:
    """Declare all records again, without journal entries. A step covers up to `RECORDS_A_STEP` records.

    The settings file is in effect already, and its virtual hosts exist. Positions and messages follow later. Return a
    sentence for the log about each definition that differs from before.
    """
    journal = broker.journal
    work = MetadataRestorer(broker)
    if journal is not None:
        journal.recovering = True
    try:
        yield from work.run(records)
    finally:
        if journal is not None:
            journal.recovering = False
    if work.left_behind:
        removed = "1 binding is" if len(work.left_behind) == 1 else f"{len(work.left_behind):,} bindings are"
        work.remarks.append(f"{removed} removed, whose exchange or queue is not in the store: it was deleted")
        if journal is not None:
            for record in work.left_behind:
                journal.forget(record)
    if journal is not None:
        for index, (former, mark) in enumerate(work.renamed):
            if index % RECORDS_A_STEP == 0:
                yield
            lane = broker.producer_lanes.of(mark.vhost, mark.user, mark.producer, mark.lane)
            if lane is not None:
                journal.change(lane.record())
            journal.forget(former)
    return work.remarks


class LeftBehind(StoreError):
    """Error for a binding whose exchange or queue was deleted, so that the binding must be deleted too."""


class MetadataRestorer:
    """Restorer of all definitions of one store."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.remarks: list[str] = []
        """A sentence for each definition that differs from before."""
        self.left_behind: list[MetadataRecord] = []
        """Bindings of deleted exchanges and queues; a later declaration of the same name must not revive them."""
        self.renamed: list[tuple[MetadataRecord, LaneRecord]] = []
        """Records of lanes whose key has no user, as earlier versions wrote them; with their contents."""
        self._record = MetadataRecord("", "", None)
        """Record that is being restored."""
        self._recorded: dict[str, set[str]] = {}
        """Keys of the exchanges and queues in the store, restorable or not."""
        self._entries: list[changes.EntryBefore] = []
        self._hosted = VhostRestorer(broker, self.remarks)

    def run(self, records: Iterable[MetadataRecord]) -> Steps[None]:
        """Declare all definitions."""
        table = self.broker.access
        steps: dict[str, Callable[[Fields], None]] = {
            kinds.NUMBERS: self._numbers,
            kinds.VHOST: self._vhost,
            access.SCRAM_SECRET: lambda fields: access.restore_scram_secret(table, fields),
            access.USER: lambda fields: access.restore_user(table, fields),
            access.PERMISSION: lambda fields: access.restore_permission(table, fields),
            access.TOPIC_PERMISSION: lambda fields: access.restore_topic_permission(table, fields),
            kinds.SETTINGS: self._settings,
            kinds.POLICY: self._policy,
            kinds.PARAMETER: self._parameter,
            kinds.BLOCK: self._block,
            kinds.EXCHANGE: lambda fields: self._hosted.exchange(self._host(fields), fields),
            kinds.QUEUE: lambda fields: self._hosted.queue(self._host(fields), fields),
            kinds.BINDING: self._binding,
            kinds.CURSOR: lambda fields: self._hosted.cursor(self._host(fields), fields),
            kinds.MARK: lambda fields: self.broker.ranges.restore_mark(kinds.read_mark(fields)),
            kinds.LANE: self._lane,
            access.VHOST_LIMITS: lambda fields: access.restore_vhost_limits(table, fields),
        }
        by_kind: dict[str, list[MetadataRecord]] = {kind: [] for kind in steps}
        for index, record in enumerate(records):
            if index % RECORDS_A_STEP == 0:
                yield
            if record.kind in by_kind:
                by_kind[record.kind].append(record)
            else:
                self.remarks.append(f"{record.kind} '{record.key}' in the store is of a kind that is not known here")
        for kind in (kinds.EXCHANGE, kinds.QUEUE):
            self._recorded[kind] = {record.key for record in by_kind[kind]}
        for kind, step in steps.items():
            for index, record in enumerate(by_kind[kind]):
                if index % RECORDS_A_STEP == 0:
                    yield
                self._one(step, record)
            if kind == kinds.SETTINGS:
                self._say_again()

    def _one(self, step: Callable[[Fields], None], record: MetadataRecord) -> None:
        if record.data is None:
            return
        self._record = record
        try:
            step(unpack(record.data))
        except LeftBehind:
            self.left_behind.append(record)
        except StoreError as error:
            self.remarks.append(f"{record.kind} '{record.key}' in the store cannot be read: {error}")
        except BrokerError as refused:
            self.remarks.append(f"{record.kind} '{record.key}' in the store was not restored: {refused}")

    def _numbers(self, fields: Fields) -> None:
        journal = self.broker.journal
        if journal is not None:
            journal.next_queue = max(int(journal.next_queue), fields.number("next"))

    def _binding(self, fields: Fields) -> None:
        """Restore a binding. Raises LeftBehind if either end is no longer in the store."""
        self._check_end(kinds.EXCHANGE, fields, "source")
        if fields.has("queue"):
            self._check_end(kinds.QUEUE, fields, "queue")
            vhost = self.broker.vhosts.get(fields.text("vhost"))
            queue = None if vhost is None else vhost.queues.get(fields.text("queue"))
            if queue is not None and 0 < fields.number("number") < number_of(queue):
                raise LeftBehind("it led to an older queue of this name")  # Queue numbers are never reused.
        else:
            self._check_end(kinds.EXCHANGE, fields, "exchange")
        self._hosted.binding(self._host(fields), fields)

    def _lane(self, fields: Fields) -> None:
        """Restore the mark of a lane."""
        mark = kinds.read_lane(fields)
        self.broker.producer_lanes.restore(mark)
        if self._record.key != key_of(mark.vhost, mark.producer, mark.lane, mark.user):
            self.renamed.append((self._record, mark))

    def _check_end(self, kind: str, fields: Fields, field: str) -> None:
        vhost, name = fields.text("vhost"), fields.text(field)
        if kind == kinds.EXCHANGE and name in PREDECLARED_NAMES:
            return
        if key_of(vhost, name) not in self._recorded[kind]:
            raise LeftBehind(f"{kind} '{name}' is not in the store")

    # Virtual hosts

    def _vhost(self, fields: Fields) -> None:
        name = fields.text("name")
        if name not in self.broker.vhosts:
            self._make(name)
        if fields.has("metadata"):
            self.broker.vhosts[name].metadata = fields.table("metadata")

    def _host(self, fields: Fields) -> VirtualHost:
        """Return the virtual host of a record; create it if no other record does."""
        name = fields.text("vhost")
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            self.remarks.append(
                f"vhost '{name}' is not in the settings file any more, and was restored because it has stored objects; "
                "delete it if that is not needed"
            )
            vhost = self._make(name)
        return vhost

    def _make(self, name: str) -> VirtualHost:
        try:
            return self.broker.add_vhost(name)
        except BrokerError as error:
            self.remarks.append(joined(str(error), f"vhost '{name}' came back without limits"))
            return self.broker.add_vhost(name, Limits())

    # Settings set by command, and closed gates

    def _settings(self, fields: Fields) -> None:
        scope = fields.text("scope")
        pattern = read_pattern(scope, fields.text("pattern"))
        values: dict[str, SettingValue] = {}
        for table in ("settings", "override"):
            for name, value in fields.table(table).items() if fields.has(table) else ():
                try:
                    values.update(read_settings(scope, pattern, {name: value}, table == "override"))
                except BrokerError as error:
                    self.remarks.append(joined(str(error), "it was set by command, and is not in effect"))
        if values:
            self._entries.append((scope, pattern, values))

    def _say_again(self) -> None:
        """Apply all settings at once, or else pattern by pattern; twice, because a setting may require another."""
        if not self._put(self._entries):
            return
        for entry in [each for each in self._entries if self._put([each])]:
            refused = self._put([entry])
            if refused:
                self.remarks.append(f"{refused}; what was set by command for {entry[0]} '{entry[1]}' is not in effect")

    def _put(self, entry: list[changes.EntryBefore]) -> str:
        """Apply settings, all or none; return the reason why they are invalid, or ""."""
        try:
            finish(changes.set_all_steps(self.broker, entry))
        except BrokerError as error:
            return str(error)
        return ""

    def _policy(self, fields: Fields) -> None:
        """Restore a policy; no queue exists yet."""
        vhost = self._host(fields)
        policy = read_policy(vhost.name, fields.text("name"), fields.table("policy"), fields.flag("operator"))
        finish(changes.change_policies_steps(self.broker, [changes.setting(policy)]))

    def _parameter(self, fields: Fields) -> None:
        """Restore a parameter; the record of a paused bridge, or of an earlier version, names no user."""
        value, run_as = fields.table("content").get("value"), fields.text("run_as") if fields.has("run_as") else ""
        parameter = Parameter(fields.text("component"), fields.text("vhost"), fields.text("name"), value, run_as)
        self.broker.table.parameters.put(parameter)

    def _block(self, fields: Fields) -> None:
        scope, vhost, name = fields.text("scope"), fields.text("vhost"), fields.text("name")
        self.broker.gates.block(scope, vhost, name, fields.text("reason"))


JUMP_S: Final = 0.1
"""Seconds of difference from which a clock counts as set."""
MOST: Final = 1000
"""Most offsets in memory; beyond, the second oldest is merged into the oldest."""


class WallTimes:
    """Offsets from the broker's clock to seconds since the epoch, by row number."""

    def __init__(self, offset: float) -> None:
        """Set the offset of the rows from before this start, as recovered, in seconds."""
        self._numbers: list[int] = [0]
        """Row numbers from which each offset applies."""
        self._offsets: list[float] = [offset]

    def write(self, number: i64, offset: float) -> None:
        """Record the offset of rows from this number on."""
        if abs(offset - self._offsets[len(self._offsets) - 1]) < JUMP_S:
            return
        self._numbers.append(int(number))
        self._offsets.append(offset)
        if len(self._numbers) > MOST:
            del self._numbers[1]
            del self._offsets[1]

    def of(self, number: i64) -> float:
        """Return the offset with which a row was written, in seconds, to within `JUMP_S`."""
        return self._offsets[bisect_right(self._numbers, int(number)) - 1]
