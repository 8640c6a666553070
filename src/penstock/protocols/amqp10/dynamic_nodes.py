"""Dynamic nodes: queues and exchanges that an attach creates, and their lifetime policies (sections 3.5.3 and 3.5.10).

| policy | the node is deleted |
|---|---|
| delete-on-close, and none | when the link that created it has ended |
| delete-on-no-links | when that link and all others have ended |
| delete-on-no-messages | when that link has ended and the queue is empty |
| delete-on-no-links-or-messages | when that link and all others have ended and the queue is empty |

A queue of the first policy is exclusive: only its connection may consume from it, like a temporary queue of JMS. Nodes
of the other policies outlive their link. Their conditions are checked once a second. Dynamic nodes are not durable. A
topic is an exchange of type topic; an exchange has no messages.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.connections.client_session import ClientSession
from penstock.connections.topology import asker_of, declare_exchange, declare_queue
from penstock.core.broker import Broker
from penstock.core.consume.rotation import browsers_of
from penstock.core.publish.held import held_for
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE, QUEUE, Exchange
from penstock.core.vhost import VirtualHost
from penstock.errors import InvalidField, ResourceError
from penstock.flow.pool import PoolHolder
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.work import WorkMeter
from penstock.settings.pools import DYNAMIC_NODES
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_composite
from penstock.wire.amqp10.neutral_addresses import exchange_address, queue_address
from penstock.wire.amqp10.values import Array, Symbol, Typed

PREFIX: Final = "amq.dyn"
TOPIC_PREFIX: Final = "dyn"
"""Prefixes of the names of dynamic queues and exchanges; exchanges of users do not begin with `amq.`."""
TOPICS: Final = ("topic", "temporary-topic")
"""Capabilities that ask for a topic (AMQP JMS mapping 1.0, section 3.3)."""
LIFETIME: Final = Symbol("lifetime-policy")
DISTRIBUTION_MODES: Final = Symbol("supported-dist-modes")
IGNORED: Final = ("lifetime-policy", "supported-dist-modes")
"""Node properties that are no arguments of a queue."""
LOOKED_AT: Final = 500
"""Most orphaned nodes that are checked in one step."""
REVIEW_S: Final = 1.0


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkNode:
    """Node of a link outside of its session: a dynamic node, or a subscription."""

    def on_link_ended(self, closed: bool) -> None:
        """Handle the end of the link; `closed`: the link was closed for good, not lost with its connection."""
        raise NotImplementedError


class DynamicNode:
    """A queue or exchange that an attach has created."""

    def __init__(
        self, vhost: VirtualHost, queue: Queue | None, exchange: Exchange | None, policy: int, holder: PoolHolder
    ) -> None:
        self.vhost: Final = vhost
        self.queue: Final = queue
        self.exchange: Final = exchange
        self.policy: Final = policy
        """Descriptor of the lifetime policy."""
        self.senders: int = 0
        """Number of links that send to the node."""
        self.holder = holder
        """User who created the node, counted in the pool if the node may outlive its link."""

    @property
    def address(self) -> str:
        """Address of the node, for the peer."""
        if self.queue is not None:
            return queue_address(self.queue.name)
        assert self.exchange is not None
        return exchange_address(self.exchange.name)

    @property
    def place(self) -> tuple[str, str]:
        """Kind and name of the queue or exchange, as `Node.place`."""
        if self.queue is not None:
            return (QUEUE, self.queue.name)
        assert self.exchange is not None
        return (EXCHANGE, self.exchange.name)

    def is_gone(self) -> bool:
        """Return whether the queue or exchange was deleted."""
        if self.queue is not None:
            return self.queue.deleted
        return self.exchange is None or self.exchange.deleted

    def is_due(self, work: WorkMeter) -> bool:
        """Return whether the node is to be deleted, after its creating link has ended.

        Held publishes count as messages.
        """
        if self.policy == spec.DELETE_ON_CLOSE:
            return True
        linked = self.senders > 0
        messages = 0
        if self.queue is not None:
            linked = linked or bool(self.queue.consumers) or bool(browsers_of(self.queue))
            messages = int(self.queue.depth_messages() + held_for(self.queue, work))
        elif self.exchange is not None:
            linked = linked or bool(self.exchange.bindings)
        if self.policy == spec.DELETE_ON_NO_LINKS:
            return not linked
        if self.policy == spec.DELETE_ON_NO_MESSAGES:
            return messages == 0
        return not linked and messages == 0

    def delete(self, broker: Broker) -> None:
        """Delete the queue or exchange."""
        if self.is_gone():
            return
        if self.queue is not None:
            broker.delete_queue(self.queue)
        elif self.exchange is not None:
            self.vhost.delete_exchange(self.exchange.name, False)


class DynamicNodes(TimerHandler):
    """The dynamic nodes of one broker that may outlive their links."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self._pool = broker.pools.of(DYNAMIC_NODES)
        self._lasting: dict[tuple[str, tuple[str, str]], DynamicNode] = {}
        """Nodes of all policies except delete-on-close, by virtual host and place."""
        self._orphans: deque[DynamicNode] = deque()
        """Nodes whose creating link has ended, the next one to check first."""

    def create(self, session: ClientSession, terminus: Composite) -> DynamicNode:
        """Create a node for a dynamic terminus. Raises BrokerError."""
        properties = terminus.mapping("dynamic_node_properties")
        policy = _policy(properties.get(LIFETIME))
        _check_modes(properties.get(DISTRIBUTION_MODES))
        make_name = session.connection.services.make_name
        vhost, access = session.vhost, session.connection.access
        holder = access.holder()
        if policy != spec.DELETE_ON_CLOSE and not self._pool.fits(holder, 1):
            raise ResourceError(self._pool.refusal(holder, 1))
        queue: Queue | None = None
        exchange: Exchange | None = None
        if any(capability in TOPICS for capability in terminus.texts("capabilities")):
            name = make_name(TOPIC_PREFIX)
            exchange = declare_exchange(asker_of(session.connection), vhost, name, "topic", {})
        else:
            exclusive, arguments = policy == spec.DELETE_ON_CLOSE, _arguments(properties)
            asker = asker_of(session.connection)
            queue = declare_queue(asker, vhost, make_name(PREFIX), arguments, exclusive=exclusive)
        node = DynamicNode(vhost, queue, exchange, policy, holder)
        if policy != spec.DELETE_ON_CLOSE:
            self._lasting[vhost.name, node.place] = node
            self._pool.add(holder, 1)
        return node

    def find(self, vhost: VirtualHost, place: tuple[str, str]) -> DynamicNode | None:
        """Return the lasting node at a place (`Node.place`), under any address; None if there is none."""
        return self._lasting.get((vhost.name, place))

    def on_creator_ended(self, node: DynamicNode) -> None:
        """Delete a node whose creating link has ended, now or when its policy allows."""
        if node.is_gone() or node.is_due(self.broker.work):
            self._delete(node)
            return
        self._orphans.append(node)
        if len(self._orphans) == 1:
            self.broker.timers.add(self, self.broker.now + REVIEW_S)

    @override
    def on_deadline(self, now: float) -> float:
        for _ in range(min(len(self._orphans), LOOKED_AT)):
            node = self._orphans.popleft()
            if node.is_gone() or node.is_due(self.broker.work):
                self._delete(node)
            else:
                self._orphans.append(node)
        return now + REVIEW_S if self._orphans else NEVER

    def _delete(self, node: DynamicNode) -> None:
        if self._lasting.pop((node.vhost.name, node.place), None) is not None:
            self._pool.give(node.holder, 1)
        node.delete(self.broker)


class CreatedNode(LinkNode):
    """A dynamic node, for the link that created it."""

    def __init__(self, nodes: DynamicNodes, node: DynamicNode) -> None:
        self._nodes = nodes
        self._node = node

    @override
    def on_link_ended(self, closed: bool) -> None:
        self._nodes.on_creator_ended(self._node)


class SenderOfNode(LinkNode):
    """A lasting dynamic node, for a link that sends to it."""

    def __init__(self, node: DynamicNode) -> None:
        self._node = node
        node.senders += 1

    @override
    def on_link_ended(self, closed: bool) -> None:
        self._node.senders -= 1


def _policy(value: object) -> int:
    """Return the descriptor of a lifetime policy; delete-on-close if there is none. Raises InvalidField."""
    if value is None:
        return spec.DELETE_ON_CLOSE
    composite = as_composite(value)
    if composite is None or "lifetime_policy" not in composite.spec.provides:
        raise InvalidField("node property lifetime-policy: its value is none of the policies of section 3.5.10")
    return composite.code


def _check_modes(value: object) -> None:
    """Check the distribution modes of a node; every node here supports all modes. Raises InvalidField."""
    if value is None or isinstance(value, Symbol) or (isinstance(value, Array) and value.kind == "symbol"):
        return
    raise InvalidField("node property supported-dist-modes: its value is neither a symbol nor an array of symbols")


def _arguments(properties: dict[object, object]) -> dict[str, object]:
    """Return the queue arguments in node properties: all properties that the specification does not define."""
    arguments: dict[str, object] = {}
    for key, value in properties.items():
        if isinstance(key, Symbol) and key.text not in IGNORED:
            arguments[key.text] = value.value if isinstance(value, Typed) else _plain(value)
    return arguments


def _plain(value: object) -> object:
    return value.text if isinstance(value, Symbol) else value
