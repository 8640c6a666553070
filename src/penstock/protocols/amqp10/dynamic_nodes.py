r"""Dynamic nodes: queues and exchanges that an attach creates, and their lifetime policies (sections 3.5.3 and 3.5.10).

| policy | the node is deleted |
|---|---|
| delete-on-close, and none | when the link that created it has ended |
| delete-on-no-links | when that link and all others have ended |
| delete-on-no-messages | when that link has ended and the queue is empty |
| delete-on-no-links-or-messages | when that link and all others have ended and the queue is empty |

A queue of the first policy is exclusive: only its connection may consume from it, as JMS wants it of a temporary queue.
The others outlive their link. What they wait for is looked at once a second. They are not durable. A topic is an
exchange of type topic; an exchange has no messages.

Subscriptions: queues bound to an exchange, for receivers on a topic (AMQP JMS mapping 1.0, sections 4 and 5).

| terminus | queue | ends with |
|---|---|---|
| expiry-policy `never`, or durable | named after container and link; durable | the close of its last link |
| capability `shared` | the same for all links of the name before `\|` | its last link |
| capability `global` | the same, without the container in its name | its last link |
| all others | exclusive to the connection | its link |

A durable subscription stays when its link is detached, or its connection lost. A link with a null source and the name
of a durable subscription finds it again, and ends it when it is closed, as Qpid JMS does to unsubscribe.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.access.rules import QUEUE
from penstock.content.properties import is_name
from penstock.core.routing.exchange import SELECTOR
from penstock.errors import InvalidField, NotFound, ResourceError
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.amqp10.link import LinkNode
from penstock.protocols.common import authorization
from penstock.protocols.common.authorization import check_declare_exchange, check_declare_queue
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_composite
from penstock.wire.amqp10.neutral import exchange_address, queue_address
from penstock.wire.amqp10.values import Array, Symbol, Typed

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.queue.queue import Queue
    from penstock.core.routing.exchange import Exchange
    from penstock.core.vhost import VirtualHost
    from penstock.protocols.amqp10.addresses import Node
    from penstock.protocols.amqp10.attach import SourceFilters
    from penstock.protocols.amqp10.session import AmqpSession

PREFIX: Final = "amq.dyn"
TOPIC_PREFIX: Final = "dyn"
"""Beginnings of the names of dynamic queues and exchanges; exchanges of users do not begin with `amq.`."""
TOPICS: Final = ("topic", "temporary-topic")
"""Capabilities that ask for a topic (AMQP JMS mapping 1.0, section 3.3)."""
LIFETIME: Final = Symbol("lifetime-policy")
DISTRIBUTION_MODES: Final = Symbol("supported-dist-modes")
IGNORED: Final = ("lifetime-policy", "supported-dist-modes")
"""Node properties that are no arguments of a queue."""
NODES_MAX: Final = 10_000
"""Most dynamic nodes of a broker that outlive their links."""
LOOKED_AT: Final = 500
"""Most of them that are looked at in one step."""
REVIEW_S: Final = 1.0


class DynamicNode:
    """A queue or exchange that an attach has created."""

    def __init__(self, vhost: VirtualHost, queue: Queue | None, exchange: Exchange | None, policy: int) -> None:
        self.vhost: Final = vhost
        self.queue: Final = queue
        self.exchange: Final = exchange
        self.policy: Final = policy
        """Descriptor of the lifetime policy."""
        self.senders: int = 0
        """Number of links that send to it."""

    @property
    def address(self) -> str:
        """Address of the node, for the peer."""
        if self.queue is not None:
            return queue_address(self.queue.name)
        assert self.exchange is not None
        return exchange_address(self.exchange.name)

    def is_gone(self) -> bool:
        """Return whether it was deleted."""
        if self.queue is not None:
            return self.queue.deleted
        return self.exchange is None or self.exchange.deleted

    def is_due(self) -> bool:
        """Return whether it is to be deleted, after the link that created it has ended."""
        if self.policy == spec.DELETE_ON_CLOSE:
            return True
        linked = self.senders > 0
        messages = 0
        if self.queue is not None:
            linked = linked or bool(self.queue.consumers)
            messages = int(self.queue.messages)
        elif self.exchange is not None:
            linked = linked or bool(self.exchange.bindings)
        if self.policy == spec.DELETE_ON_NO_LINKS:
            return not linked
        if self.policy == spec.DELETE_ON_NO_MESSAGES:
            return messages == 0
        return not linked and messages == 0

    def delete(self, broker: Broker) -> None:
        """Delete it."""
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
        self._lasting: dict[tuple[str, str], DynamicNode] = {}
        """Nodes of all policies but delete-on-close, by virtual host and address."""
        self._orphans: deque[DynamicNode] = deque()
        """Those whose link has ended, the next one to look at first."""

    def create(self, session: AmqpSession, terminus: Composite) -> DynamicNode:
        """Create a node for a dynamic terminus. Raises BrokerError."""
        properties = terminus.mapping("dynamic_node_properties")
        policy = _policy(properties.get(LIFETIME))
        _check_modes(properties.get(DISTRIBUTION_MODES))
        if policy != spec.DELETE_ON_CLOSE and len(self._lasting) >= NODES_MAX:
            raise ResourceError(f"there are {NODES_MAX} dynamic nodes that outlive their links, the most")
        make_name = session.connection.services.make_name
        vhost, access = session.vhost, session.connection.access
        queue: Queue | None = None
        exchange: Exchange | None = None
        if any(capability in TOPICS for capability in terminus.texts("capabilities")):
            name = make_name(TOPIC_PREFIX)
            check_declare_exchange(access, vhost, name, {})
            exchange = vhost.declare_exchange(name, "topic", {}, False, False, False)
        else:
            connection = session.connection
            owner = connection if policy == spec.DELETE_ON_CLOSE else None
            name = make_name(PREFIX)
            arguments = _arguments(properties)
            check_declare_queue(access, vhost, name, arguments)
            queue = vhost.declare_queue(name, arguments, False, False, owner, connection)
            if owner is not None:
                connection.exclusive.add(queue)
        node = DynamicNode(vhost, queue, exchange, policy)
        if policy != spec.DELETE_ON_CLOSE:
            self._lasting[vhost.name, node.address] = node
        return node

    def find(self, vhost: VirtualHost, address: str) -> DynamicNode | None:
        """Return the lasting node with an address; None if there is none."""
        return self._lasting.get((vhost.name, address))

    def on_creator_ended(self, node: DynamicNode) -> None:
        """Delete a node whose link has ended, now or when its policy says so."""
        if node.is_gone() or node.is_due():
            self._delete(node)
            return
        self._orphans.append(node)
        if len(self._orphans) == 1:
            self.broker.timers.add(self, self.broker.now + REVIEW_S)

    @override
    def on_deadline(self, now: float) -> float:
        for _ in range(min(len(self._orphans), LOOKED_AT)):
            node = self._orphans.popleft()
            if node.is_gone() or node.is_due():
                self._delete(node)
            else:
                self._orphans.append(node)
        return now + REVIEW_S if self._orphans else NEVER

    def _delete(self, node: DynamicNode) -> None:
        self._lasting.pop((node.vhost.name, node.address), None)
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
    """Check the distribution modes of a node, which all nodes here have. Raises InvalidField."""
    if value is None or isinstance(value, Symbol) or (isinstance(value, Array) and value.kind == "symbol"):
        return
    raise InvalidField("node property supported-dist-modes: its value is neither a symbol nor an array of symbols")


def _arguments(properties: dict[object, object]) -> dict[str, object]:
    """Return the arguments of a queue in node properties: all that are not the specification's."""
    arguments: dict[str, object] = {}
    for key, value in properties.items():
        if isinstance(key, Symbol) and key.text not in IGNORED:
            arguments[key.text] = value.value if isinstance(value, Typed) else _plain(value)
    return arguments


def _plain(value: object) -> object:
    return value.text if isinstance(value, Symbol) else value


SUBSCRIPTION_PREFIX: Final = "amq.subscription"
SHARED: Final = "shared"
GLOBAL: Final = "global"
"""Capabilities of a source (AMQP JMS mapping 1.0, section 5.2)."""
EXPIRES_NEVER: Final = "never"
"""Expiry policy of a terminus that stays (section 3.5.6)."""


class Subscription(LinkNode):
    """The queue of a subscription, for one of its links."""

    def __init__(self, session: AmqpSession, queue: Queue, lasting: bool) -> None:
        self._broker = session.broker
        self.queue: Queue = queue
        self._lasting = lasting
        self.created: LinkNode | None = None
        """The dynamic topic that its link has created with it; None for another."""

    @override
    def on_link_ended(self, closed: bool) -> None:
        queue = self.queue
        if not queue.deleted and not queue.consumers and (closed or not self._lasting):
            self._broker.delete_queue(queue)
        if self.created is not None:
            self.created.on_link_ended(closed)


def is_lasting(terminus: Composite) -> bool:
    """Return whether a terminus outlives its connection."""
    return terminus.text("expiry_policy") == EXPIRES_NEVER or terminus.number("durable", 0) > 0


def subscribe(
    session: AmqpSession, terminus: Composite, link_name: str, node: Node, filters: SourceFilters
) -> Subscription:
    """Return the subscription of a receiver on an exchange; it is created at need. Raises BrokerError."""
    vhost = session.vhost
    exchange = vhost.exchange(node.exchange)
    capabilities = terminus.texts("capabilities")
    lasting, shared = is_lasting(terminus), SHARED in capabilities
    key = _binding_key(exchange, node, filters)
    arguments: dict[str, object] = {SELECTOR: filters.selector} if filters.selector else {}
    connection = session.connection
    if not lasting and not shared:
        name = connection.services.make_name(SUBSCRIPTION_PREFIX)
        _check_access(session, name, exchange, key)
        queue = vhost.declare_queue(name, {}, False, False, connection, connection)
        connection.exclusive.add(queue)
    else:
        name = subscription_name(session, link_name, lasting, GLOBAL in capabilities)
        _check_access(session, name, exchange, key)
        before = vhost.queues.get(name)
        if before is not None and not before.consumers and exchange.find(before, None, key, arguments) is None:
            session.broker.delete_queue(before)  # Another topic is another subscription (JMS 2.0, section 8.3.3).
        queue = vhost.declare_queue(name, {}, lasting, False, None, connection)
    vhost.bind(exchange.name, queue, None, key, arguments)
    return Subscription(session, queue, lasting)


def _check_access(session: AmqpSession, name: str, exchange: Exchange, key: str) -> None:
    """Check a subscription: its queue is declared, bound and consumed from. Raises AccessRefused."""
    access = session.connection.access
    authorization.check_declare_queue(access, session.vhost, name, {})
    authorization.check_binding(access, session.vhost, exchange.name, QUEUE, name, key)
    authorization.check_read_queue(access, name)


def find_subscription(session: AmqpSession, link_name: str, capabilities: list[str]) -> Subscription:
    """Return the durable subscription of a link's name. Raises NotFound."""
    for is_global in (GLOBAL in capabilities, True):
        name = subscription_name(session, link_name, True, is_global)
        queue = session.vhost.queues.get(name)
        if queue is not None:
            return Subscription(session, queue, True)
    raise NotFound(f"no durable subscription '{link_name}' of container '{session.engine.container}'")


def subscription_name(session: AmqpSession, link_name: str, lasting: bool, is_global: bool) -> str:
    """Return the name of a subscription's queue. Raises InvalidField if it is too long for one."""
    base = link_name.partition("|")[0]  # Qpid JMS adds `|` and a number for further links of a shared subscription.
    container = "" if is_global else f".{session.engine.container}"
    name = f"{SUBSCRIPTION_PREFIX}{'' if lasting else '.volatile'}{container}.{base}"
    if not is_name(name):
        raise InvalidField(f"subscription '{base}': the name of its queue, '{name}', has more than 255 octets")
    return name


def _binding_key(exchange: Exchange, node: Node, filters: SourceFilters) -> str:
    """Return the routing key of a subscription: of the address, of a filter, or all messages of a topic exchange."""
    if not node.by_subject:
        return node.key
    if filters.binding_key is not None:
        return filters.binding_key
    return "#" if exchange.kind == "topic" else ""
