"""Subscriptions: queues bound to an exchange, for receivers on a topic (AMQP JMS mapping 1.0, sections 4 and 5).

| terminus | queue | ends with |
|---|---|---|
| expiry-policy `never`, or durable | named after container and link; durable | the close of its last link |
| capability `shared` | the same for all links of the name before `\\|` | its last link |
| capability `global` | the same, without the container in its name | its last link |
| all others | exclusive to the connection | its link |

A durable subscription stays when its link is detached, or its connection lost. A link with a null source and the name
of a durable subscription finds it again, and ends it when it is closed, as Qpid JMS does to unsubscribe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.access.rules import QUEUE
from penstock.content.names import is_name
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import SELECTOR
from penstock.core.routing.exchange import Exchange
from penstock.errors import InvalidField, NotFound
from penstock.protocols.amqp10.addresses import Node
from penstock.protocols.amqp10.link_node import LinkNode
from penstock.protocols.amqp10.source_filters import SourceFilters
from penstock.protocols.common import authorization
from penstock.wire.amqp10.composite import Composite

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession

PREFIX: Final = "amq.subscription"
SHARED: Final = "shared"
GLOBAL: Final = "global"
"""Capabilities of a source (AMQP JMS mapping 1.0, section 5.2)."""
NEVER: Final = "never"
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
    """Tell whether a terminus outlives its connection."""
    return terminus.text("expiry_policy") == NEVER or terminus.number("durable", 0) > 0


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
        name = connection.services.make_name(PREFIX)
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


def find(session: AmqpSession, link_name: str, capabilities: list[str]) -> Subscription:
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
    name = f"{PREFIX}{'' if lasting else '.volatile'}{container}.{base}"
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
