"""Depths of topics, and the count of messages already in queues when an address or a topic gets a bound.

Each routing key has a depth of its own, as each address that a wildcard matches has in Artemis. It is made when a route
is resolved, and counts in place of that of its exchange. So a message costs no further work. A client may invent
routing keys: at `TOPICS_MAX` those are dropped that are empty, and further keys of an exchange share one depth.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.core.consume.session import Session
from penstock.core.gates.address_depth import NO_BOUND, AddressDepth, AddressShare
from penstock.core.message import Message, TrackedMessage
from penstock.core.publish.context import PublishContext
from penstock.core.queue.context import LateCount
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.topology import Topology
from penstock.core.settings.table import SettingsTable
from penstock.flow.gate import Gate
from penstock.flow.turns import Turns
from penstock.flow.work import Steps, WorkMeter

TOPICS_MAX: Final = 10_000
"""Routing keys with a depth, some 1,500 octets each."""
OTHERS: Final = "#"
"""The key of the depth that further keys of an exchange share."""
SWEPT_AFTER: Final = 1_000
"""Routing keys beyond the limit from one look for empty depths to the next."""
LOOK_WORK: Final = 15
"""Units of work to resolve the settings of a key."""


class TopicDepths:
    """The depths of topics of all virtual hosts."""

    def __init__(self, table: SettingsTable, turns: Turns, most: int = TOPICS_MAX) -> None:
        self._table = table
        self._turns = turns
        self._most = most
        self._depths: dict[tuple[str, str], dict[str, AddressDepth]] = {}
        """By virtual host and exchange, then by routing key."""
        self._count: int = 0
        self._calls: int = 0
        """Number of routing keys that were one too many."""

    def __len__(self) -> int:
        return self._count

    def has_bounds(self) -> bool:
        """Return whether any routing key may have a bound."""
        return self._table.has_topics()

    def gates(self, vhost: Topology, exchange: Exchange, key: str, now: float) -> list[Gate]:
        """Return the gates of a publish to an exchange: the depth of the topic in place of that of the exchange."""
        depth = self.depth(vhost, exchange, key, now) if self._table.has_topics() else None
        if depth is None:
            return exchange.gates
        return [*[gate for gate in exchange.gates if not isinstance(gate.owner, AddressDepth)], depth.gate]

    def depth(self, vhost: Topology, exchange: Exchange, key: str, now: float) -> AddressDepth | None:
        """Return the depth of a topic; None if it has no bound. Raises PreconditionFailed (406) as `limits` does."""
        depths = self._depths.get((vhost.name, exchange.name), {})
        depth = depths.get(key)
        if depth is not None:
            return depth
        thresholds = self._table.topic_limits(exchange.name, key).thresholds
        if thresholds is None:
            return None
        if self._count >= self._most:
            self._drop_empty(vhost, exchange)
        if self._count >= self._most:
            key = OTHERS
            depth = depths.get(key)
        if depth is None:
            depth = AddressDepth(f"{exchange.name}/{key}", thresholds, self._turns)
            self._depths.setdefault((vhost.name, exchange.name), {})[key] = depth
            self._count += 1
        return depth

    def renew(self, vhost: Topology, exchange: Exchange, work: WorkMeter, now: float) -> Steps[None]:
        """Apply changed settings to the topics of an exchange."""
        depths = self._depths.get((vhost.name, exchange.name), {})
        for key, depth in list(depths.items()):
            if work.spend(LOOK_WORK):
                yield
            thresholds = self._table.topic_limits(exchange.name, key).thresholds
            depth.set_thresholds(NO_BOUND if thresholds is None else thresholds, now)
            if thresholds is None and depths.pop(key, None) is not None:
                self._count -= 1

    def forget(self, vhost: Topology, name: str, now: float) -> None:
        """Open the gates of a deleted exchange's topics."""
        for depth in self._depths.pop((vhost.name, name), {}).values():
            depth.set_thresholds(NO_BOUND, now)
            self._count -= 1

    def _drop_empty(self, vhost: Topology, exchange: Exchange) -> None:
        """Drop the depths of an exchange in which nothing counts, once in `SWEPT_AFTER` calls."""
        self._calls += 1
        if self._calls % SWEPT_AFTER != 1:
            return
        depths = self._depths.get((vhost.name, exchange.name), {})
        for key, depth in list(depths.items()):
            if depth.is_idle():
                del depths[key]
                self._count -= 1
        exchange.version += 1  # Routes that were resolved before may have a depth that was dropped.
        vhost.epoch += 1


class KnownTopics:
    """The depths of one virtual host's topics, by exchange and routing key, each looked up once."""

    def __init__(self, topics: TopicDepths, vhost: Topology) -> None:
        self._topics = topics
        self._vhost = vhost
        self._found: dict[tuple[str, str], AddressDepth | None] = {}

    def depth(self, exchange: str, key: str, now: float) -> AddressDepth | None:
        """Return the depth of a topic; None if it has no bound."""
        address = (exchange, key)
        if address not in self._found:
            if len(self._found) >= TOPICS_MAX:
                self._found.clear()
            source = self._vhost.exchanges.get(exchange)
            if source is None or exchange == "" or not self._topics.has_bounds():
                self._found[address] = None
            else:
                self._found[address] = self._topics.depth(self._vhost, source, key, now)
        return self._found[address]


SEEN_MAX: Final = 200_000
"""Messages whose copies are recognized in other queues: some 80 octets each while the count lasts."""
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
        """Queues in which nothing counts yet: their newest sequence and `tracks_removals` before the visit."""

    def run(self, queues: list[Queue]) -> Steps[None]:
        """Count the messages in these queues, and the deliveries that open sessions have not settled."""
        for queue in queues:
            yield from self._visit_queue(queue)
        for session in list(self._broker.sessions):
            yield from self._visit_session(session)
        for queue, (newest, tracked) in self._unconcerned.items():
            if queue.unacked_messages == 0:
                queue.membership.late_count = None
                queue.tracks_removals = tracked or queue.tail != newest
        self._unconcerned = {}
        self._seen = None

    @override
    def count(self, queue: Queue, message: Message, now: float) -> None:
        if message.share is not None:
            return
        address = message.envelope
        depth = None if self._topics is None else self._topics.depth(address.exchange, address.routing_key, now)
        if depth is None:
            depth = self._depths.get(address.exchange)
        if depth is None:
            return
        if isinstance(message, TrackedMessage) and message.is_tombstone:
            return
        share = None if self._seen is None else self._seen.get(id(message.content))
        if share is None or share.depth is not depth or share.copies == 0:  # The identity may be another content's now.
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
