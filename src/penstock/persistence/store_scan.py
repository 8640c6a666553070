"""Store scanner: counts the contents of a store without a broker, one row in memory at a time."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.broker import Broker
from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import resolve
from penstock.core.queue.storage import QueueStorage
from penstock.core.queue.types import Features
from penstock.core.settings.limits import Defaults
from penstock.errors import StoreError
from penstock.persistence.metadata_records import BINDING, CURSOR, QUEUE, Fields, key_of, pack, unpack
from penstock.persistence.rows import RowContext
from penstock.persistence.settlements import MessageAudit, RowSettlements, decode_settlement
from penstock.store.records import (
    BodyPiece,
    Damage,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    Record,
    SettlementRecord,
)
from penstock.store.tables import METADATA_RECORDS, ROWS, SETTLEMENTS


class StoreScanner(RowContext):
    """One pass through a store: metadata and positions, settlements, then rows with their data."""

    def __init__(self) -> None:
        super().__init__(0.0, False, False)
        self.account = MessageAudit()
        self.positions: list[QueuePosition] = []
        self.damaged: list[Damage] = []
        """Records that are intact for the store and cannot be decoded."""
        self._broker = Broker(Defaults())
        self._journal = Journal(self._broker.durable_changes, self._broker.gates.disk)
        self._queues: dict[int, Queue] = {}
        self._hints: dict[int, tuple[str, str]] = {}
        """Virtual hosts and names of queues, from the bindings and cursors that name them."""
        self._declared: set[tuple[str, str]] = set()
        self._fates: dict[int, RowSettlements] = {}

    def take(self, record: Record) -> None:
        """Process the next record."""
        try:
            if isinstance(record, MetadataRecord):
                self._metadata(record)
            elif isinstance(record, QueuePosition):
                self.positions.append(record)
                self.account.expect(record.queue, record.messages)
            elif isinstance(record, SettlementRecord):
                decode_settlement(record.number, record.data, self._fates)
            elif isinstance(record, BodyPiece):
                self.large.ledger.count(record.body, record.size)
            elif isinstance(record, MessageRow):
                self._row(record)
        except StoreError as error:
            self.damaged.append(_damage_of(record, str(error)))

    def queue(self, number: i64) -> Queue | None:
        """Return a placeholder for a queue; None if no record mentions it."""
        key = int(number)
        if key not in self.account.names and key not in self.account.expected:
            return None
        queue = self._queues.get(key)
        if queue is None:
            broker = self._broker
            queue = Queue("", str(key), resolve("", {}, Defaults()), broker.turns, broker.losses, Features())
            queue.set_storage(QueueStorage(self._journal, queue, number))
            self._queues[key] = queue
        return queue

    def declarations(self) -> list[MetadataRecord]:
        """Return declarations for queues with messages whose own declaration is lost; these count as declared now.

        A queue gets the name in a binding or a cursor, otherwise a name with its number in vhost '/', and no arguments.
        """
        records: list[MetadataRecord] = []
        for number, messages in sorted(self.account.found.items()):
            if number in self.account.names or messages == 0:
                continue
            vhost, name = self._hints.get(number, ("/", f"saved-{number}"))
            while (vhost, name) in self._declared:
                name += "-saved"
            self._declared.add((vhost, name))
            self.account.name(number, vhost, name)
            fields: dict[str, object] = {"vhost": vhost, "name": name, "number": number, "auto_delete": False}
            fields["arguments"] = {}
            records.append(MetadataRecord(QUEUE, key_of(vhost, name), pack(fields)))
        return records

    def _metadata(self, record: MetadataRecord) -> None:
        if record.data is None:
            return
        fields = unpack(record.data)
        if record.kind == QUEUE:
            vhost, name = fields.text("vhost"), fields.text("name")
            self.account.name(fields.number("number"), vhost, name)
            self._declared.add((vhost, name))
        elif record.kind == BINDING and fields.has("queue"):
            self._hints[fields.number("number")] = (fields.text("vhost"), fields.text("queue"))
        elif record.kind == CURSOR:
            self._cursor(fields)

    def _cursor(self, fields: Fields) -> None:
        vhost = fields.text("vhost")
        for name, (number, _, _, _) in fields.positions("positions"):
            self._hints.setdefault(number, (vhost, name))

    def _row(self, row: MessageRow) -> None:
        group = JournalGroup(row.number)
        self.orphans = 0
        self.read(group, row.data)
        self.account.strays += self.orphans
        fate = self._fates.pop(row.number, None)
        if fate is not None:
            fate.apply(group)
        for run in group.runs:
            left = [message for message in run.messages if message.group is not None]
            self.account.find(int(run.storage.number), len(left))
        group.release()


def _damage_of(record: Record, why: str) -> Damage:
    if isinstance(record, MessageRow):
        return Damage(f"row {record.number}", why, record.queue, record.messages, ROWS.name)
    if isinstance(record, SettlementRecord):
        return Damage(f"note {record.number}", why, table=SETTLEMENTS.name)
    if isinstance(record, MetadataRecord):
        return Damage(f"{record.kind} '{record.key}'", why, table=METADATA_RECORDS.name)
    return Damage("a record", why)
