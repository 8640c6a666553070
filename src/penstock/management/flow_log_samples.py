"""Samples of the flow log: the traffic of each queue every second, and of producers and consumers every ten seconds.

Theory of operation. The core only counts. A sample of a queue has the differences since the queue's previous sample, so
a record has the number of seconds that it covers. An unchanged queue has no record. A round over all producers and
consumers begins every `ROUND_S` seconds. A round is done in slices, and ends with records of the busiest producers and
consumers. So the number of records and the work of a tick (`LOOKED_AT` of each kind) are bounded.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.broker import Broker
from penstock.core.consume.consumer import Consumer
from penstock.core.publish.dead_letters import DeadLetterPublisher
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.counters import LastLook, Sender
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.describe.table import amounts
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER
from penstock.management.gate_lines import gate_fields

LOOKED_AT: Final = 5_000
"""Queues, and producers, examined each second; where there are more, each is examined every few seconds."""
ROUND_S: Final = 10.0
"""Seconds between two rounds over all producers and consumers, and at least as long as a round takes."""
BUSIEST: Final = 100
"""Busiest producers, and busiest consumers, that have records of their own; the others are one record."""
TARGETS_MOST: Final = 10_000
TARGETS_EACH: Final = 16
"""Producers whose queues are remembered for a round, and queues of each."""
RECORDED_AGAIN_S: Final = 600.0
"""Seconds after which the thresholds of a queue with traffic are recorded again: old files are deleted."""

Record = dict[str, object]


def record_at(event: str, now: float, wall_offset: float) -> Record:
    """Return the first fields of a record: its event and both times, from monotonic seconds."""
    return {"event": event, "wall": round(now + wall_offset, 6), "mono": round(now, 6)}


def record_of_gate(event: str, gate: Gate, now: float, wall_offset: float) -> Record:
    """Return the first fields of a record about a gate."""
    return {**record_at(event, now, wall_offset), **gate_fields(gate)}


class Busy:
    """A producer or consumer, with the messages moved in a round."""

    def __init__(self, name: str, messages: i64, bytes: i64, queue: Queue | None, query: str, prefetch: i64) -> None:
        self.name = name
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.queue = queue
        """Queue of a consumer; None for a producer, which may have several."""
        self.query = query
        self.prefetch: i64 = prefetch


def _take(look: LastLook, queue: Queue, now: float) -> None:
    """Copy the state of a queue into a sample."""
    counters = queue.counters
    look.at = now
    look.messages = queue.depth_messages()
    look.bytes = queue.depth_bytes()
    look.open = queue.gate.open
    look.tail = queue.tail
    look.removed_bytes = counters.removed_bytes
    look.settlements = counters.settlements
    look.delivered = counters.delivered
    look.delivered_bytes = counters.delivered_bytes
    look.refused = 0
    look.refused_bytes = 0


class Sampler:
    """The sampler of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._records: list[Record] = []
        self._wall_offset: float = 0.0
        self._ticked_at: float = broker.now
        self._to_look_at: list[Queue] = []
        self._round_at: float = broker.now + ROUND_S
        self._round_began: float = broker.now
        self._in_round: bool = False
        self._senders_left: int = LOOKED_AT
        """Blocked producers that may be examined in this second."""
        self._senders: list[WaitingPublisher] = []
        self._sources: list[Queue] = []
        """Publishers and queues that the round has yet to examine."""
        self._busy_producers: list[Busy] = []
        self._busy_consumers: list[Busy] = []
        self._others: int = 0
        self._rest = Busy("", 0, 0, None, "", 0)
        """Producers that are not among the busiest of the round: their number, and the messages that they moved."""
        self._targets: dict[str, dict[Queue, int]] = {}
        """Sampled messages of each producer by queue, in this round."""
        self._cursors: dict[str, int] = {}
        """Settled sequences of the cursors at the last round."""
        self.begin()

    def begin(self) -> None:
        """Set the baseline: messages already in the queues do not count as arrivals."""
        now = self.broker.now
        self._ticked_at = now
        self._round_began = now
        self._round_at = now + ROUND_S
        for vhost in self.broker.vhosts.values():
            for queue in vhost.queues.values():
                queue.counters.begin_sampling(self._state_of(queue))

    def _state_of(self, queue: Queue) -> LastLook:
        look = LastLook(self.broker.now)
        _take(look, queue, self.broker.now)
        look.open = True  # So that a closed gate is recorded.
        return look

    def count_refused(self, queue: Queue, messages: i64, bytes: i64) -> None:
        """Count publishes to a queue that were refused."""
        look = queue.counters.last_look
        if look is None:
            look = LastLook(self._ticked_at)
            queue.counters.last_look = look
        look.refused += messages
        look.refused_bytes += bytes

    def tick(self, wall_offset: float) -> list[Record]:
        """Return the samples of this second; `wall_offset` converts monotonic seconds to seconds since 1970."""
        self._wall_offset = wall_offset
        self._senders_left = LOOKED_AT
        if not self._to_look_at:
            for vhost in self.broker.vhosts.values():
                self._to_look_at.extend(vhost.queues.values())
        look = self._to_look_at[:LOOKED_AT]
        del self._to_look_at[:LOOKED_AT]
        for queue in look:
            if not queue.deleted:
                self._look(queue)
        self._continue_round()
        self._ticked_at = self.broker.now
        records = self._records
        self._records = []
        return records

    # Queues

    def _look(self, queue: Queue) -> None:
        now, counters = self.broker.now, queue.counters
        last = counters.last_look
        if last is None:
            if queue.tail == 0 and queue.gate.open:
                return  # The queue is unchanged: an idle queue has no sampled state.
            last = LastLook(self._ticked_at)  # The queue was declared since the last sample.
            counters.last_look = last
        messages, size = queue.depth_messages(), queue.depth_bytes()
        came = queue.tail - last.tail
        moved = came > 0 or counters.delivered != last.delivered or counters.removed_bytes != last.removed_bytes
        same_depth = messages == last.messages and size == last.bytes and queue.gate.open == last.open
        if moved or not same_depth or last.refused > 0 or queue.gate.blocked:
            if (
                last.recorded_at < 0.0
                or now - last.recorded_at >= RECORDED_AGAIN_S
                or queue.thresholds is not last.thresholds
            ):
                self._record_thresholds(queue, last)
            self._record_depth(queue, last)
        arrivals = last.arrivals
        if arrivals is None:
            counters.begin_sampling(last)
        else:
            counters.next_sample = queue.tail + arrivals.fit(came)
            if arrivals.senders:
                self._remember(queue, arrivals.take_senders())
        _take(last, queue, now)

    def _record_depth(self, queue: Queue, last: LastLook) -> None:
        gate, counters, now = queue.gate, queue.counters, self.broker.now
        record = record_of_gate("depth", gate, now, self._wall_offset)
        record.update(amounts(queue.depth_messages(), queue.depth_bytes()))
        if queue.pager is not None and not queue.pager.retains:
            record.update({"paged_messages": int(queue.pager.messages), "paged_bytes": int(queue.pager.bytes)})
        record.update({"unacknowledged": int(queue.unacked_messages), "open": gate.open, "blocked": len(gate.blocked)})
        if gate.blocked:
            self._record_blocked(gate, record)
        record.update({"waiting": gate.in_line(), "consumers": len(queue.consumers)})
        # Departures are arrivals less the growth of the depth.
        came, left_bytes = queue.tail - last.tail, counters.removed_bytes - last.removed_bytes
        record["seconds"] = round(now - last.at, 6)
        record["in_messages"] = int(came)
        record["in_bytes"] = int(queue.depth_bytes() - last.bytes + left_bytes)
        record["out_messages"] = int(counters.delivered - last.delivered)
        record["out_bytes"] = int(counters.delivered_bytes - last.delivered_bytes)
        record["settled_messages"] = int(came - (queue.depth_messages() - last.messages))
        record["settled_bytes"] = int(left_bytes)
        record["settlements"] = int(counters.settlements - last.settlements)
        if last.refused > 0:
            record.update({"refused_messages": int(last.refused), "refused_bytes": int(last.refused_bytes)})
        sizes = None if last.arrivals is None else last.arrivals.take_sizes()
        if sizes:
            record["sizes"] = sizes
        self._records.append(record)

    def _record_blocked(self, gate: Gate, record: Record) -> None:
        """Record the outstanding publishes of blocked producers, unless these are too many for this second.

        The record has the most unconfirmed publishes of one producer, without publishes on credit, and the held
        publishes of all.
        """
        if len(gate.blocked) > self._senders_left:
            return
        self._senders_left -= len(gate.blocked)
        most: i64 = 0
        budgets: dict[int, HoldBudget] = {}
        for waiter in gate.blocked.values():
            if isinstance(waiter, Producer):
                budgets[id(waiter.hold_budget)] = waiter.hold_budget
                if waiter.confirming and waiter.credit is None:
                    most = max(most, waiter.confirms.published - waiter.confirms.sent_upto)
        record["held_messages"] = sum([int(budget.messages) for budget in budgets.values()])
        if most > 0:
            record["unconfirmed"] = int(most)

    def _record_thresholds(self, queue: Queue, last: LastLook) -> None:
        record = record_of_gate("queue", queue.gate, self.broker.now, self._wall_offset)
        thresholds = queue.thresholds
        levels = (("capacity", thresholds.capacity), ("stop", thresholds.stop), ("resume", thresholds.resume))
        for name, level in levels:
            for unit, limit in level.as_dict().items():
                if limit is not None:
                    record[f"{name}_{unit}"] = limit
        if queue.settings.hold_deadline_s != NEVER:
            record["hold_deadline"] = queue.settings.hold_deadline_s
        record["overflow"] = queue.overflow.name
        if queue.length is not None:
            for unit, limit in queue.length.most.as_dict().items():
                if limit is not None:
                    record[f"length_{unit}"] = limit
            record["length_overflow"] = queue.length.policy.name
        self._records.append(record)
        last.recorded_at = self.broker.now
        last.thresholds = thresholds

    def _remember(self, queue: Queue, senders: dict[Sender, int]) -> None:
        for (name, _), messages in senders.items():
            targets = self._targets.get(name)
            if targets is None:
                if len(self._targets) >= TARGETS_MOST:
                    continue
                targets = {}
                self._targets[name] = targets
            if queue in targets or len(targets) < TARGETS_EACH:
                targets[queue] = targets.get(queue, 0) + messages

    # Producers and consumers

    def _continue_round(self) -> None:
        if not self._in_round:
            if self.broker.now < self._round_at:
                return
            self._begin_round()
        senders = self._senders[:LOOKED_AT]
        del self._senders[:LOOKED_AT]
        for sender in senders:
            self._examine(sender)
        self._keep_busiest()
        sources = self._sources[:LOOKED_AT]
        del self._sources[:LOOKED_AT]
        for queue in sources:
            if not queue.deleted:
                self._examine_source(queue)
        self._busy_consumers.sort(key=lambda busy: -int(busy.messages))
        del self._busy_consumers[BUSIEST:]
        if not self._senders and not self._sources:
            self._end_round()

    def _begin_round(self) -> None:
        self._in_round = True
        self._round_at = self.broker.now + ROUND_S
        for origin in self.broker.gates.connections:
            self._senders.extend(origin.producers)
        for vhost in self.broker.vhosts.values():
            for queue in vhost.queues.values():
                letters = queue.dead_letters
                if isinstance(letters, DeadLetterPublisher):
                    self._senders.append(letters)
                if queue.consumers or queue.cursors:
                    self._sources.append(queue)

    def _examine(self, sender: WaitingPublisher) -> None:
        messages = sender.accepted_messages - sender.sampled_messages
        if messages == 0:
            return
        query = sender.query.name if isinstance(sender, Producer) else ""
        source = sender.queue if isinstance(sender, DeadLetterPublisher) else None
        size = sender.accepted_bytes - sender.sampled_bytes
        self._busy_producers.append(Busy(sender.name, messages, size, source, query, 0))
        sender.sampled_messages = sender.accepted_messages
        sender.sampled_bytes = sender.accepted_bytes

    def _keep_busiest(self) -> None:
        busiest = self._busy_producers
        busiest.sort(key=lambda busy: -int(busy.messages))
        for busy in busiest[BUSIEST:]:
            self._others += 1
            self._rest.messages += busy.messages
            self._rest.bytes += busy.bytes
        del busiest[BUSIEST:]

    def _examine_source(self, queue: Queue) -> None:
        for consumer in queue.consumers:
            if isinstance(consumer, Consumer) and consumer.delivered > consumer.sampled_delivered:
                moved = consumer.delivered - consumer.sampled_delivered
                consumer.sampled_delivered = consumer.delivered
                name = consumer.session.name
                self._busy_consumers.append(Busy(name, moved, 0, queue, "", consumer.prefetch))
        for cursor in queue.cursors:
            if cursor.lease is None:  # A lease does not settle messages.
                self._examine_cursor(queue, cursor)

    def _examine_cursor(self, queue: Queue, cursor: CursorState) -> None:
        key = f"{queue.vhost} {queue.name} {cursor.name}"
        settled = int(cursor.positions[queue.name].settled)
        before = self._cursors.get(key)
        if before is None and len(self._cursors) >= TARGETS_MOST:
            self._cursors.clear()  # Removed cursors are dropped; the remaining cursors begin again.
        self._cursors[key] = settled
        if before is not None and settled > before:
            query = "" if cursor.room is None else cursor.room.query.name
            self._busy_consumers.append(Busy(f"cursor({cursor.name})", settled - before, 0, queue, query, 0))

    def _end_round(self) -> None:
        self._in_round = False
        now = self.broker.now
        seconds = round(now - self._round_began, 6)
        self._round_began = now
        for busy in self._busy_producers:
            self._record_producer(busy, seconds)
        if self._others > 0:
            moved = {"in_messages": int(self._rest.messages), "in_bytes": int(self._rest.bytes), "seconds": seconds}
            head = record_at("producer", now, self._wall_offset)
            self._records.append({**head, "count": self._others, **moved})
        for busy in self._busy_consumers:
            if busy.queue is not None:
                record = record_of_gate("consumer", busy.queue.gate, now, self._wall_offset)
                record.update({"consumer": busy.name, "out_messages": int(busy.messages), "seconds": seconds})
                if busy.prefetch > 0:
                    record["prefetch"] = int(busy.prefetch)
                if busy.query:
                    record["query"] = busy.query
                self._records.append(record)
        self._busy_producers = []
        self._busy_consumers = []
        self._targets = {}
        self._others = 0
        self._rest = Busy("", 0, 0, None, "", 0)

    def _record_producer(self, busy: Busy, seconds: float) -> None:
        """Record a producer once for each of its target queues, in the proportion of the samples."""
        now = self.broker.now
        targets = self._targets.get(busy.name)
        parts: list[tuple[Queue | None, int]] = [(None, 1)]
        if targets is not None:
            parts = [(queue, weight) for queue, weight in targets.items()]
        total = sum([weight for _, weight in parts])
        for target, weight in parts:
            record = record_at("producer", now, self._wall_offset)
            if target is not None:
                record = record_of_gate("producer", target.gate, now, self._wall_offset)
            messages, size = int(busy.messages) * weight // total, int(busy.bytes) * weight // total
            record.update({"producer": busy.name, "in_messages": messages, "in_bytes": size, "seconds": seconds})
            if busy.queue is not None:
                record["source"] = busy.queue.name
            if busy.query:
                record["query"] = busy.query
            self._records.append(record)
