"""Recorder of the flow log: makes records as dictionaries, from the same effects as the log lines.

Theory of operation. Gate transitions and blocks have one record each while they are rare or long (gate_lines.py). All
other spells are summed, as are events that may occur with every message (refusals, losses, expired confirms): one
record a second for each producer, gate and cause, with its count. Depths and counts are sampled once a second
(flow_log_samples.py). So the number of records per second is bounded by the producers and queues, not by the messages.
Events use the shares of users and virtual hosts (flow_log_shares.py); samples do not. docs/flow-log.md documents the
schema, `penstock.logs.flowlog` defines it, and the writer of the records adds its version.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from penstock.connections.control_request import ControlRequest
from penstock.connections.slowed_connections import KIND, Wait
from penstock.core.broker import Broker
from penstock.core.effects import (
    Blocked,
    CloseSession,
    ConfirmedLate,
    Effect,
    EffectHandlers,
    GateChanged,
    Paging,
    PublishRefused,
    Stopped,
    Unblocked,
)
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue, queue_of
from penstock.describe.gate import text_of
from penstock.describe.table import amounts
from penstock.errors import PreconditionFailed
from penstock.flow.gate import Gate, GateTransition
from penstock.flow.work import Steps
from penstock.logs.ids import BLOCKED_BRIEFLY, CLOSED_BRIEFLY
from penstock.management.flow_log_samples import Record, Sampler, record_at, record_of_gate
from penstock.management.flow_log_shares import Author, FlowLogShares
from penstock.management.gate_lines import BLOCKS_AT_ONCE, CLOSINGS_AT_ONCE, Spell, Spells, SpellSum
from penstock.management.node import Node

RECORDS_KEPT: Final = 10_000
"""Most records that wait for the event loop; further ones are counted."""
RECENT: Final = 2_000
"""Last records, which `watch` reads; about 1 MiB."""
WATCH_PAGE: Final = 500
"""Most records in an answer to `watch`."""
LOOKED_AT_A_UNIT: Final = 10
"""Records that `watch` looks at per unit of work."""


def user_of(producer: WaitingPublisher | None) -> str:
    """Return the user of a publisher; empty for a publisher without a connection."""
    return "" if producer is None or producer.writes is None else producer.writes.user


def author_of(gate: Gate, producer: WaitingPublisher | None = None) -> Author:
    """Return the owner of the share that an event at a gate uses: the publisher's user, else the virtual host."""
    return Author(user_of(producer), text_of(gate).vhost(gate) or "")


class Recorder:
    """Recorder of one broker's flow log."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.wall_offset: float = 0.0
        """Offset from monotonic seconds to seconds since the epoch; kept up to date by the event loop."""
        self._records: list[Record] = []
        self._lost: int = 0
        self.recent: deque[Record] = deque(maxlen=RECENT)
        """Last records that were taken."""
        self.taken: int = 0
        """Number of all records that were taken."""
        self._sums: dict[str, Record] = {}
        """Sums for the next second, by producer, gate and cause."""
        self._closings = Spells(CLOSINGS_AT_ONCE, self._admits)
        self._blocks = Spells(BLOCKS_AT_ONCE, self._admits)
        self.shares = FlowLogShares()
        self._sampler = Sampler(broker)
        self._handlers = self._effect_handlers()

    def _effect_handlers(self) -> EffectHandlers:
        handlers = EffectHandlers()
        handlers.add(GateChanged, self._on_gate_changed)
        handlers.add(Blocked, self._on_blocked)
        handlers.add(Unblocked, self._on_unblocked)
        handlers.add(Stopped, self._on_stopped)
        handlers.add(Paging, self._on_paging)
        handlers.add(PublishRefused, self._on_publish_refused)
        handlers.add(ConfirmedLate, self._on_confirmed_late)
        handlers.add(CloseSession, self._on_close_session)
        return handlers

    # Effects

    def record(self, effect: Effect) -> None:
        """Record an effect."""
        self._handlers.dispatch(effect)

    def _on_gate_changed(self, effect: GateChanged) -> None:
        if self._closings.cross(effect.transition):
            self._crossed(effect.transition)

    def _crossed(self, crossing: GateTransition) -> None:
        event, number = (
            "gate-closed" if crossing.closed else "gate-opened",
            text_of(crossing.gate).log_line(crossing)[0],
        )
        record = self._of_gate(event, number, crossing.gate, crossing.now)
        record.update(amounts(crossing.messages, crossing.bytes))
        self._append_spell(author_of(crossing.gate), record, crossing.closed)

    def _on_blocked(self, effect: Blocked) -> None:
        if not effect.gate.frequent:
            key = (id(effect.producer), id(effect.gate))
            if self._blocks.begin(key, Spell(effect.gate, effect.now, effect.producer)):
                self._block(effect.producer, effect.gate, effect.now, True)

    def _on_unblocked(self, effect: Unblocked) -> None:
        if not effect.gate.frequent and self._blocks.end((id(effect.producer), id(effect.gate)), effect.now):
            self._block(effect.producer, effect.gate, effect.now, False)

    def _on_stopped(self, effect: Stopped) -> None:
        record = self._of_producer("stopped", "PST-1014", effect.producer, effect.gate, effect.now)
        self._append_single(author_of(effect.gate, effect.producer), record)

    def _on_publish_refused(self, effect: PublishRefused) -> None:
        self._add("refused", effect.producer, effect.gate, effect.cause, int(effect.messages), int(effect.bytes))
        queue = queue_of(effect.gate)
        if queue is not None:
            self._sampler.count_refused(queue, effect.messages, effect.bytes)

    def _on_confirmed_late(self, effect: ConfirmedLate) -> None:
        self._add("confirmed-late", effect.producer, effect.gate, "deadline", effect.messages, 0)

    def _on_close_session(self, effect: CloseSession) -> None:
        record = self._at("channel-closed", self.broker.now)
        record.update({"producer": effect.producer.name, "cause": str(effect.error)})
        self._append_single(Author(user_of(effect.producer), ""), record)

    def _block(self, producer: WaitingPublisher, gate: Gate, now: float, begins: bool) -> None:
        event, number = ("blocked", "CHN-1005") if begins else ("unblocked", "CHN-1006")
        record = self._of_producer(event, number, producer, gate, now)
        self._append_spell(author_of(gate, producer), record, begins)

    def _of_producer(self, event: str, number: str, producer: WaitingPublisher, gate: Gate, now: float) -> Record:
        record = self._of_gate(event, number, gate, now)
        record["producer"] = producer.name
        if isinstance(producer, Producer) and producer.credit is not None:
            record.update(producer.credit.counts.as_dict(producer.credit.credit))
        return record

    def _on_paging(self, effect: Paging) -> None:
        event, number = ("paging-started", "PST-1010") if effect.started else ("paging-stopped", "PST-1011")
        record = self._of_gate(event, number, effect.queue.gate, effect.now)
        record.update(amounts(effect.messages, effect.bytes))
        if effect.started:
            self._append_single(author_of(effect.queue.gate), record)
        else:
            self._append_shared(author_of(effect.queue.gate), record)

    def lost(self, queue: Queue) -> None:
        """Record messages that a queue's overflow policy dropped, or lost dead letters."""
        if queue.counters.rare.unreported_dropped:
            cause = (queue.dropping() or queue.overflow).name
            self._dropped(queue, "QUE-1005", cause, int(queue.counters.rare.unreported_dropped))
        if queue.counters.rare.unreported_dead_letters:
            self._dropped(queue, "PST-1009", "dead-letter", int(queue.counters.rare.unreported_dead_letters))

    def _dropped(self, queue: Queue, number: str, cause: str, count: int) -> None:
        fields = {"cause": cause, "count": count, **amounts(queue.depth_messages(), queue.depth_bytes())}
        record = self._of_gate("dropped", number, queue.gate, self.broker.now)
        self._append_shared(author_of(queue.gate), {**record, **fields})

    def setting(self, name: str, change: str, user: str) -> None:
        """Record a change of settings at run time: its name, the old and new value as text, and its user."""
        record = {**self._at("setting", self.broker.now), "setting": name, "cause": change}
        self._append_single(Author(user, ""), record)

    def query(self, query: str, cursor: CursorState, fields: Record) -> None:
        """Record the progress of a query at a cursor of its own: the last progress of a second."""
        key, now = f"query {query} {id(cursor)}", self.broker.now
        record: Record = {**self._at("query", now), "query": query, **fields}
        author = Author(cursor.user, str(fields.get("vhost", "")))
        if key in self._sums or self.shares.spend(author, record, now):
            self._sums[key] = record
        else:
            self.shares.sum_of(author, now).count += 1

    def slowed(self, began: list[Wait], ceased: list[Wait]) -> None:
        """Record connections that became slowed by their own work, or stopped being slowed."""
        for event, number, waits in (("blocked", "PST-1016", began), ("unblocked", "PST-1017", ceased)):
            for wait in waits:
                name, author = wait.connection.name(), Author(wait.connection.user, "")
                record = self._at(event, self.broker.now)
                record.update({"id": number, "kind": KIND, "gate": name, "producer": name})
                if event == "blocked":
                    self._append_single(author, record)
                else:
                    self._append_shared(author, record)

    def tell_lasting(self, now: float) -> None:
        """Record closings and blocks that were not recorded at their beginning, and have lasted."""
        for each in self._closings.lasting(now):
            if each.closing is not None:
                self._crossed(each.closing)
        for each in self._blocks.lasting(now):
            if each.producer is not None:
                self._block(each.producer, each.gate, each.since, True)

    def _brief(self, event: str, number: str, spells: SpellSum) -> None:
        first, now = spells.first, self.broker.now
        record = self._of_gate(event, number, first.gate, first.since)
        if spells.producer is not None:
            record["producer"] = spells.producer.name
        if spells.first.closing is not None:
            record.update(amounts(spells.messages, spells.bytes))
        record.update({"count": spells.count, "brief_s": round(spells.total_s, 6)})
        author = author_of(first.gate, spells.producer)
        if self.shares.spend(author, record, now):
            self._append(record)
        else:
            beyond = self.shares.sum_of(author, now)
            beyond.count += spells.count
            beyond.brief_s += spells.total_s

    # Once a second

    def begin(self) -> None:
        """Begin to sample, after recovery: recovered messages do not count as arrivals."""
        self._sampler.begin()

    def tick(self) -> None:
        """Write the sums and the samples."""
        for each in self._closings.tick():
            self._brief("brief-closings", CLOSED_BRIEFLY, each)
        for each in self._blocks.tick():
            self._brief("brief-blocks", BLOCKED_BRIEFLY, each)
        sums = self._sums
        self._sums = {}
        for record in sums.values():
            self._append(record)
        for author, beyond in self.shares.take().items():
            self._append({**self._at("summed", beyond.began), **beyond.fields(author)})
        for record in self._sampler.tick(self.wall_offset):
            self._append(record)

    # Calls of the event loop

    def has_records(self) -> bool:
        """Return whether there are records to take."""
        return len(self._records) > 0 or self._lost > 0

    def take(self) -> list[Record]:
        """Take the records; the caller owns the list."""
        records = self._records
        if records:
            self._records = []
        if self._lost:
            records.append(self._of_lost(self._lost, f"more than {RECORDS_KEPT} records in one turn"))
            self._lost = 0
        self.recent.extend(records)
        self.taken += len(records)
        return records

    def since(self, after: int) -> tuple[list[Record], int]:
        """Return at most `WATCH_PAGE` records after number `after`, and the number of the last record examined.

        Records that are no longer in memory are reported as one record `lost`.
        """
        first = self.taken - len(self.recent)
        start = min(max(after, first), self.taken)
        records = list(islice(self.recent, start - first, start - first + WATCH_PAGE))
        end = start + len(records)
        if start > after:
            records.insert(0, self._of_lost(start - after, f"more than {RECENT} records were not asked for in time"))
        return records, end

    def _at(self, event: str, now: float) -> Record:
        return record_at(event, now, self.wall_offset)

    def _of_lost(self, count: int, cause: str) -> Record:
        return {**self._at("lost", self.broker.now), "count": count, "cause": cause}

    def _of_gate(self, event: str, number: str, gate: Gate, now: float) -> Record:
        """Return the first fields of a record of an event at a gate with a log id."""
        record = record_of_gate(event, gate, now, self.wall_offset)
        record["id"] = number
        return record

    def _admits(self, spell: Spell) -> bool:
        """Return whether a closing or block may be recorded by itself."""
        return self.shares.admits(author_of(spell.gate, spell.producer), self.broker.now)

    def _append_spell(self, author: Author, record: Record, begins: bool) -> None:
        """Append the record of an admitted beginning, or of its end; the beginning is charged for both."""
        if begins:
            self.shares.spend(author, record, self.broker.now, 2)
        self._append(record)

    def _append_single(self, author: Author, record: Record) -> None:
        """Append the record of a single event, or count it if half of its author's share is used."""
        if self.shares.admits(author, self.broker.now):
            self._append_shared(author, record)
        else:
            self.shares.sum_of(author, self.broker.now).count += 1

    def _append_shared(self, author: Author, record: Record) -> None:
        """Append a record, or count it if its author's share is used."""
        if self.shares.spend(author, record, self.broker.now):
            self._append(record)
        else:
            self.shares.sum_of(author, self.broker.now).count += 1

    def _add(self, event: str, producer: WaitingPublisher, gate: Gate, cause: str, messages: int, bytes: int) -> None:
        key = f"{event} {cause} {id(gate)} {producer.name}"
        record = self._sums.get(key)
        if record is None:
            author, now = author_of(gate, producer), self.broker.now
            if not self.shares.is_used_up(author, now):  # Only then is the record built: a fan-out causes thousands.
                record = record_of_gate(event, gate, now, self.wall_offset)
                record.update({"producer": producer.name, "cause": cause, "count": 0, "count_bytes": 0})
            if record is None or not self.shares.spend(author, record, now):
                beyond = self.shares.sum_of(author, now)
                beyond.count += 1
                if event == "refused":
                    beyond.refused_messages += messages
                    beyond.refused_bytes += bytes
                return
            self._sums[key] = record
        for name, more in (("count", messages), ("count_bytes", bytes)):
            before = record[name]
            assert isinstance(before, int)
            record[name] = before + more

    def _append(self, record: Record) -> None:
        if len(self._records) < RECORDS_KEPT:
            self._records.append(record)
        else:
            self._lost += 1


def answer_watch(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer {after, queue}: records of the flow log after a number, and the number for the next request.

    Without `after` the number is the present one. Raises PreconditionFailed (406) without a flow log.
    """
    recorder = node.recorder
    if recorder is None:
        raise PreconditionFailed("there is no flow log to watch: the broker runs with --flow-log off, or without data")
    records, end = recorder.since(request.amount("after", recorder.taken))
    if node.broker.work.spend(len(records) // LOOKED_AT_A_UNIT):
        yield
    if request.fields.get("queue") is not None:
        name, vhost = request.text("queue"), request.vhost.name
        records = [
            each
            for each in records
            if each["event"] in ("lost", "summed") or (each.get("queue") == name and each.get("vhost") == vhost)
        ]
    return {"items": records, "next": end}
