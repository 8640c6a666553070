"""Restoring definitions at start: virtual hosts, settings, exchanges, queues, bindings and cursors.

They are declared again in the order of their dependencies, whatever the order of the records. A definition that cannot
be restored does not prevent others: it is reported in a sentence and stays in the store. Queues are restored in any
case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.core.broker import Broker
from penstock.core.routing.durability import number_of
from penstock.core.settings import changes
from penstock.core.settings.limits import Limits
from penstock.core.settings.parameters import Parameter
from penstock.core.settings.policies import read_policy
from penstock.core.vhost import PREDECLARED, VirtualHost
from penstock.errors import BrokerError, StoreError
from penstock.flow.work import Steps, finish
from penstock.persistence import access_metadata as access
from penstock.persistence import metadata_records as kinds
from penstock.persistence.metadata_codec import Fields, unpack
from penstock.persistence.metadata_keys import key_of
from penstock.persistence.restore_vhost import VhostRestorer
from penstock.settings.read import read_pattern, read_settings
from penstock.settings.value import SettingValue
from penstock.store.records import MetadataRecord
from penstock.texts import joined

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
    return work.remarks


class LeftBehind(StoreError):
    """Error for a binding whose exchange or queue was deleted; the binding was to be deleted too."""


class MetadataRestorer:
    """Restorer of all definitions of one store."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.remarks: list[str] = []
        """A sentence for each definition that differs from before."""
        self.left_behind: list[MetadataRecord] = []
        """Bindings of deleted exchanges and queues; a later declaration of the same name must not revive them."""
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
            kinds.LANE: lambda fields: self.broker.producer_lanes.restore(kinds.read_lane(fields)),
            access.VHOST_LIMITS: lambda fields: access.restore_vhost_limits(table, fields),
        }
        found: dict[str, list[MetadataRecord]] = {kind: [] for kind in steps}
        for index, record in enumerate(records):
            if index % RECORDS_A_STEP == 0:
                yield
            if record.kind in found:
                found[record.kind].append(record)
            else:
                self.remarks.append(f"{record.kind} '{record.key}' in the store is of a kind that is not known here")
        for kind in (kinds.EXCHANGE, kinds.QUEUE):
            self._recorded[kind] = {record.key for record in found[kind]}
        for kind, step in steps.items():
            for index, record in enumerate(found[kind]):
                if index % RECORDS_A_STEP == 0:
                    yield
                self._one(step, record)
            if kind == kinds.SETTINGS:
                self._say_again()

    def _one(self, step: Callable[[Fields], None], record: MetadataRecord) -> None:
        if record.data is None:
            return
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
        """Restore a binding. Raises LeftBehind if one of its ends is not in the store any more."""
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
        words: dict[str, SettingValue] = {}
        for table in ("settings", "override"):
            for name, value in fields.table(table).items() if fields.has(table) else ():
                try:
                    words.update(read_settings(scope, pattern, {name: value}, table == "override"))
                except BrokerError as error:
                    self.remarks.append(joined(str(error), "it was set by command, and is not in effect"))
        if words:
            self._entries.append((scope, pattern, words))

    def _say_again(self) -> None:
        """Apply all settings at once, or else pattern by pattern; twice, because one may require another."""
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
        """Restore a policy; no queue is there yet."""
        vhost = self._host(fields)
        policy = read_policy(vhost.name, fields.text("name"), fields.table("policy"), fields.flag("operator"))
        finish(changes.change_policies_steps(self.broker, [changes.setting(policy)]))

    def _parameter(self, fields: Fields) -> None:
        content = fields.table("content")
        parameter = Parameter(fields.text("component"), fields.text("vhost"), fields.text("name"), content.get("value"))
        self.broker.table.parameters.put(parameter)

    def _block(self, fields: Fields) -> None:
        scope, vhost, name = fields.text("scope"), fields.text("vhost"), fields.text("name")
        self.broker.gates.block(scope, vhost, name, fields.text("reason"))
