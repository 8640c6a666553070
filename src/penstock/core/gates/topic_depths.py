"""Depths of topics, and the count of messages already in queues when an address or a topic gets a bound.

Each routing key has a depth of its own, like each address that a wildcard matches in Artemis. The depth is created when
a route is resolved, and counts in place of the depth of the exchange. So a message costs no additional work. A client
may invent routing keys: at the bound of the pool, empty depths are dropped, and further keys of an exchange with the
same bound share one depth until it is empty.

A key must never have two depths: each would admit the whole bound. A depth may be dropped while a route has its gates,
so the route looks up the gates again after each drop (`TopicGates`).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.session import Session
from penstock.core.gates.address_depth import AddressDepth, AddressShare
from penstock.core.message import Message, TrackedMessage
from penstock.core.publish.context import PublishContext
from penstock.core.queue.context import LateCount
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.route import AddressGates
from penstock.core.routing.topology import Topology
from penstock.core.settings.table import SettingsTable
from penstock.flow.gate import NO_GATES, Gate
from penstock.flow.level import Thresholds
from penstock.flow.pool import Pool, PoolHolder
from penstock.flow.turns import Turns
from penstock.flow.work import Steps, WorkMeter

OTHERS: Final = "#"
"""The name of the depth that further keys of an exchange share."""
FOUND_MAX: Final = 10_000
"""Routing keys that a count remembers; beyond the bound each key is looked up again."""
SWEPT_AFTER: Final = 1_000
"""Routing keys beyond the limit between two searches for empty depths."""
LOOK_WORK: Final = 15
"""Units of work to resolve the settings of a key."""


class TopicGates(AddressGates):
    """The gates of one routing key of an exchange, for routes."""

    def __init__(self, topics: TopicDepths, vhost: Topology, exchange: Exchange, key: str) -> None:
        self._topics = topics
        self._vhost = vhost
        self._exchange = exchange
        self._key = key
        self._drops: i64 = -1
        """Number of drops when the gates were found."""
        self._gates: list[Gate] = NO_GATES

    @override
    def present(self) -> list[Gate]:
        if self._drops != self._topics.drops:
            depth = self._topics.depth(self._vhost, self._exchange, self._key)
            # The search for the depth may drop others, so the number is read afterwards.
            self._drops = self._topics.drops
            others = [gate for gate in self._exchange.gates if not isinstance(gate.owner, AddressDepth)]
            self._gates = self._exchange.gates if depth is None else [*others, depth.gate]
        return self._gates


class ExchangeTopics:
    """The depths of one exchange's topics."""

    __slots__ = ("by_key", "others")

    def __init__(self) -> None:
        self.by_key: dict[str, AddressDepth] = {}
        self.others: list[AddressDepth] = []
        """Depths that further keys share: one depth for each bound."""

    def shared(self, thresholds: Thresholds) -> AddressDepth | None:
        """Return the depth that further keys with this bound share; None without one."""
        for depth in self.others:
            if depth.thresholds.equals(thresholds):
                return depth
        return None


class TopicDepths:
    """The depths of topics of all virtual hosts."""

    def __init__(self, table: SettingsTable, turns: Turns, pool: Pool) -> None:
        self._table = table
        self._turns = turns
        self._pool = pool
        self._depths: dict[tuple[str, str], ExchangeTopics] = {}
        """Depths by virtual host and exchange."""
        self._calls: dict[str, int] = {}
        """Number of refused routing keys of each virtual host since its last new depth."""
        self._keeps_empty: bool = False
        """True while no depth is dropped: at recovery, between the decoding of messages and their restoration."""
        self.drops: i64 = 0
        """Number of times that depths were dropped."""

    def __len__(self) -> int:
        return int(self._pool.taken)

    def keep_empty(self, keeps: bool) -> None:
        """Drop no depths while `keeps` is true."""
        self._keeps_empty = keeps

    def exchanges(self) -> list[tuple[str, str]]:
        """Return virtual host and name of the exchanges whose routing keys have depths."""
        return list(self._depths)

    def depths_of(self, vhost: str, exchange: str) -> list[AddressDepth]:
        """Return the depths of an exchange's routing keys."""
        topics = self._depths.get((vhost, exchange))
        return [] if topics is None else [*topics.by_key.values(), *topics.others]

    def has_bounds(self) -> bool:
        """Return whether any routing key may have a bound."""
        return self._table.has_topics()

    def gates(self, vhost: Topology, exchange: Exchange, key: str) -> AddressGates | None:
        """Return the gates of a publish to an exchange: with the depth of the topic in place of the depth of the
        exchange.

        None if no routing key has a bound. Raises PreconditionFailed (406) as `limits` does.
        """
        if not self._table.has_topics():
            return None
        gates = TopicGates(self, vhost, exchange, key)
        gates.present()
        return gates

    def depth(self, vhost: Topology, exchange: Exchange, key: str) -> AddressDepth | None:
        """Return the depth of a topic; None if the topic has no bound. Raises PreconditionFailed (406) as `limits`
        does.
        """
        address = (vhost.name, exchange.name)
        topics = self._depths.get(address)
        if topics is not None:
            depth = topics.by_key.get(key)
            if depth is not None:
                return depth
        thresholds = self._table.topic_limits(vhost.name, exchange.name, key).thresholds
        if thresholds is None:
            return None
        if topics is None:
            topics = ExchangeTopics()
            self._depths[address] = topics
        holder = PoolHolder("", vhost.name)
        if not self._pool.fits(holder, 1):
            self._drop_empty(vhost.name)
        shared = topics.shared(thresholds)
        if shared is not None and shared.is_idle() and self._pool.fits(holder, 1) and not self._keeps_empty:
            topics.others.remove(shared)
            self._end(shared, vhost.name)
            shared = None
        if shared is not None:  # Messages of this key may count in the shared depth.
            return shared
        if not self._pool.fits(holder, 1):
            depth = AddressDepth(f"{exchange.name}/{OTHERS}", thresholds, self._turns)
            topics.others.append(depth)
        else:
            depth = AddressDepth(f"{exchange.name}/{key}", thresholds, self._turns)
            topics.by_key[key] = depth
        self._pool.add(holder, 1)
        return depth

    def renew(self, vhost: Topology, exchange: Exchange, work: WorkMeter, now: float) -> Steps[None]:
        """Apply changed settings to the topics of an exchange.

        Messages of keys without a bound, and of keys that shared a depth and may have different bounds now, are counted
        again (`AddressCount`).
        """
        topics = self._depths.get((vhost.name, exchange.name))
        if topics is None:
            return
        for shared in topics.others:
            self._retire(shared, vhost.name, now)
        topics.others = []
        for key, depth in list(topics.by_key.items()):
            if work.spend(LOOK_WORK):
                yield
            thresholds = self._table.topic_limits(vhost.name, exchange.name, key).thresholds
            if topics.by_key.get(key) is not depth:
                continue
            if thresholds is None:
                del topics.by_key[key]
                self._retire(depth, vhost.name, now)
            else:
                depth.set_thresholds(thresholds, now)

    def forget(self, vhost: Topology, name: str, now: float) -> None:
        """Open the gates of a deleted exchange's topics."""
        topics = self._depths.pop((vhost.name, name), None)
        if topics is not None:
            for depth in [*topics.by_key.values(), *topics.others]:
                self._retire(depth, vhost.name, now)

    def _drop_empty(self, vhost: str) -> None:
        """Drop the empty depths of a virtual host, once in `SWEPT_AFTER` calls."""
        calls = self._calls.get(vhost, 0)
        if self._keeps_empty:
            return
        self._calls[vhost] = (calls + 1) % SWEPT_AFTER
        if calls > 0:
            return
        for address, topics in self._depths.items():
            for key, depth in list(topics.by_key.items()) if address[0] == vhost else []:
                if depth.is_idle():
                    del topics.by_key[key]
                    self._end(depth, vhost)

    def _retire(self, depth: AddressDepth, vhost: str, now: float) -> None:
        depth.retire(now)
        self._end(depth, vhost)

    def _end(self, depth: AddressDepth, vhost: str) -> None:
        """Remove a depth; routes find the present depth of their key."""
        depth.end()
        self._pool.give(PoolHolder("", vhost), 1)
        self.drops += 1


class KnownTopics:
    """The depths of one virtual host's topics, by exchange and routing key, each looked up only once."""

    def __init__(self, topics: TopicDepths, vhost: Topology) -> None:
        self._topics = topics
        self._vhost = vhost
        self._found: dict[tuple[str, str], AddressDepth | None] = {}
        self._drops: i64 = topics.drops
        """Number of drops when the depths were found."""

    def depth(self, exchange: str, key: str) -> AddressDepth | None:
        """Return the depth of a topic; None if the topic has no bound."""
        if self._drops != self._topics.drops:
            self._found.clear()
            self._drops = self._topics.drops
        address = (exchange, key)
        if address not in self._found:
            if len(self._found) >= FOUND_MAX:
                self._found.clear()
            source = self._vhost.exchanges.get(exchange)
            if source is None or exchange == "" or not self._topics.has_bounds():
                self._found[address] = None
            else:
                self._found[address] = self._topics.depth(self._vhost, source, key)
        return self._found[address]


SEEN_MAX: Final = 200_000
"""Messages whose copies are recognized in other queues: some 80 bytes each while the count lasts."""
LISTED_A_UNIT: Final = 32
"""Messages listed with one unit of work."""
COUNTED_A_UNIT: Final = 4
"""Messages counted with one unit of work."""
VISIT_WORK: Final = 2
"""Units of work of a queue, or of a batch of deliveries."""


class AddressCount(LateCount):
    """The count in one virtual host."""

    def __init__(
        self,
        broker: PublishContext,
        depths: dict[str, AddressDepth],
        topics: KnownTopics | None = None,
        recognizes: int = SEEN_MAX,
    ) -> None:
        self._broker = broker
        self._depths = depths
        """Depths of the addresses with a bound, by exchange."""
        self._topics = topics
        """Depths of routing keys with a bound; None without any."""
        self._recognizes = recognizes
        self._seen: dict[int, AddressShare] | None = {}
        """Shares by the identity of the content; None after the count."""
        self._unconcerned: dict[Queue, tuple[int, bool]] = {}
        """Queues in which no message counts yet: newest sequence, and `tracks_removals` before the visit."""

    def run(self, queues: list[Queue]) -> Steps[None]:
        """Count the messages in these queues, and the deliveries that open sessions have not settled."""
        for queue in queues:
            yield from self._visit_queue(queue)
        for session in list(self._broker.sessions):
            yield from self._visit_session(session)
        for queue, (newest, tracked) in self._unconcerned.items():
            if queue.unacked_messages + queue.delayed_messages == 0:
                queue.membership.late_count = None
                queue.tracks_removals = tracked or queue.tail != newest or queue.grouping is not None
        self._unconcerned = {}
        self._seen = None

    @override
    def count(self, queue: Queue, message: Message, now: float) -> None:
        share = message.share
        if share is not None:
            if not share.depth.retired:
                return
            share.leave(now)
            message.share = None
        address = message.envelope
        depth = None if self._topics is None else self._topics.depth(address.exchange, address.routing_key)
        if depth is None:
            depth = self._depths.get(address.exchange)
        if depth is None:
            return
        if isinstance(message, TrackedMessage) and message.is_tombstone:
            return
        share = None if self._seen is None else self._seen.get(id(message.content))
        if share is None or share.depth is not depth or share.copies == 0:  # The identity may be reused.
            share = AddressShare(depth, message.charge)
            if self._seen is not None and len(self._seen) < self._recognizes:
                self._seen[id(message.content)] = share
        message.share = share
        share.enter(now)
        self._unconcerned.pop(queue, None)

    def _visit_queue(self, queue: Queue) -> Steps[None]:
        self._unconcerned[queue] = (int(queue.tail), queue.tracks_removals)
        queue.membership.late_count = self
        queue.tracks_removals = True
        work = self._broker.work
        left = queue.ready_queue.messages()
        work.done += VISIT_WORK + len(left) // LISTED_A_UNIT
        while left:
            if work.spend(1):
                yield
            for message in left[-COUNTED_A_UNIT:]:
                self.count(queue, message, self._broker.now)
            del left[-COUNTED_A_UNIT:]

    def _visit_session(self, session: Session) -> Steps[None]:
        work = self._broker.work
        for batch in session.unsettled.batches():
            if work.spend(VISIT_WORK + len(batch.messages) // COUNTED_A_UNIT):
                yield
            queue = batch.consumer.queue
            for message in batch.messages:
                if message is not None and queue.membership.late_count is self:
                    self.count(queue, message, self._broker.now)
