r"""Subscriptions: queues bound to an exchange, for receivers on a topic (AMQP JMS mapping 1.0, sections 4 and 5).

| terminus | queue | ends with |
|---|---|---|
| expiry-policy `never`, or durable | named after container and link; durable | the close of its last link |
| capability `shared` | the same for all links of the name before `\|` | its last link |
| capability `global` | the same, without the container in its name | its last link |
| all others | exclusive to the connection | its link |

A durable subscription stays when its link is detached, or its connection is lost. A link with a null source and the
name of a durable subscription finds the subscription again, and closing that link ends the subscription, as Qpid JMS
does to unsubscribe. Such a link is refused while the subscription has consumers (`amqp:illegal-state`), and steals no
link; meanwhile the subscription is exclusive. The broker refuses the attach instead of the close, because Qpid JMS
reads no error of a close.

The terms of a subscription are exchange, routing key, selector, no-local, and whether it is shared. While the
subscription has consumers, an attach by its name with other terms is refused (`amqp:illegal-state`); else the attach
replaces the subscription, as in JMS 2.0 (section 8.3). An unshared durable subscription has one consumer and never
becomes shared, nor does a shared one become unshared: the earlier subscription must be ended first.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.connections import authorization
from penstock.connections.client_session import ClientSession
from penstock.connections.topology import Asker, BindingTerms, bind, declare_queue
from penstock.content.properties import is_name
from penstock.core.consume.consumer import Consumer
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import NO_LOCAL as BOUND_NO_LOCAL
from penstock.core.routing.exchange import QUEUE, Exchange
from penstock.core.routing.exchange import SELECTOR as BOUND_SELECTOR
from penstock.errors import InvalidField, NotFound, SubscriptionInUse
from penstock.protocols.amqp10.addresses import Node
from penstock.protocols.amqp10.dynamic_nodes import LinkNode
from penstock.protocols.amqp10.source_filters import SourceFilters
from penstock.wire.amqp10.composite import Composite

SUBSCRIPTION_PREFIX: Final = "amq.subscription"
IS_SHARED: Final = "x-shared-subscription"
"""Argument of the queue of a shared durable subscription."""
SHARED: Final = "shared"
GLOBAL: Final = "global"
"""Capabilities of a source (AMQP JMS mapping 1.0, section 5.2)."""
EXPIRES_NEVER: Final = "never"
"""Expiry policy of a lasting terminus (section 3.5.6)."""


class Subscription(LinkNode):
    """The queue of a subscription, for one of its links."""

    def __init__(self, session: ClientSession, queue: Queue, lasting: bool) -> None:
        self._broker = session.broker
        self.queue: Queue = queue
        self._lasting = lasting
        self.created: LinkNode | None = None
        """Dynamic topic that the link has created with the subscription; None for other links."""

    def check_unused(self) -> None:
        """Raise SubscriptionInUse if the subscription has consumers: it cannot be ended then (JMS 2.0,
        `unsubscribe`)."""
        count = len(self.queue.consumers)
        if count:
            raise SubscriptionInUse(
                f"subscription '{self.queue.name}' has {count} consumer{'' if count == 1 else 's'}, so it cannot be "
                "ended; close every consumer of it, then unsubscribe again"
            )

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


class SubscriptionRequest:
    """Request of a receiver for a subscription to an exchange. Raises BrokerError."""

    def __init__(
        self,
        session: ClientSession,
        container: str,
        terminus: Composite,
        link_name: str,
        node: Node,
        filters: SourceFilters,
    ) -> None:
        capabilities = terminus.texts("capabilities")
        connection = session.connection
        self._session = session
        self._exchange = session.vhost.exchange(node.exchange)
        self._key = _binding_key(self._exchange, node, filters)
        self._lasting = is_lasting(terminus)
        self._shared = SHARED in capabilities
        self._named = self._lasting or self._shared
        self._name: str = (
            subscription_name(container, link_name, self._lasting, GLOBAL in capabilities)
            if self._named
            else connection.services.make_name(SUBSCRIPTION_PREFIX)
        )
        self._arguments: dict[str, object] = {BOUND_SELECTOR: filters.selector} if filters.selector else {}
        if filters.no_local:
            self._arguments[BOUND_NO_LOCAL] = container if self._named else connection.number

    def check(self, stolen: Consumer | None) -> None:
        """Check access, and the terms of an existing subscription; `stolen`: a consumer that the link replaces.

        Raises AccessRefused and SubscriptionInUse.
        """
        session = self._session
        _check_access(session, self._name, self._exchange, self._key)
        queue = session.vhost.queues.get(self._name) if self._named else None
        if queue is None:
            return
        if self._lasting and _is_shared(queue) != self._shared:
            raise SubscriptionInUse(
                f"subscription '{self._name}' is {'shared' if _is_shared(queue) else 'not shared'}, and this link asks "
                "for the other kind; end it first"
            )
        if not _has_others(queue, stolen):
            return
        if not self._shared:
            raise SubscriptionInUse(f"subscription '{self._name}' is not shared, and has a consumer")
        differing = self._differing(queue)
        if differing:
            raise SubscriptionInUse(
                f"subscription '{self._name}' has consumers, and another {differing} than this link asks for"
            )

    def _differing(self, queue: Queue) -> str:
        """Return the first term that differs from the existing subscription; empty if none differs."""
        bindings = self._session.vhost.bindings.to(QUEUE, queue.name)
        first = ""
        for binding in bindings:
            if binding.source is not self._exchange:
                differs = f"topic (exchange '{binding.source.name}')"
            elif binding.key != self._key:
                differs = f"topic (routing key '{binding.key}')"
            elif binding.arguments.get(BOUND_SELECTOR) != self._arguments.get(BOUND_SELECTOR):
                differs = f"selector ({binding.arguments.get(BOUND_SELECTOR, 'none')})"
            elif binding.arguments.get(BOUND_NO_LOCAL) != self._arguments.get(BOUND_NO_LOCAL):
                differs = f"no-local ({binding.arguments.get(BOUND_NO_LOCAL, 'none')})"
            else:
                return ""
            first = first or differs
        return first

    def subscribe(self) -> Subscription:
        """Return the checked subscription, created or replaced if needed. Raises BrokerError."""
        session, vhost, connection = self._session, self._session.vhost, self._session.connection
        asker = Asker(connection.broker, connection.services, None, connection)  # Permissions were checked.
        if not self._named:
            queue = declare_queue(asker, vhost, self._name, {}, exclusive=True)
        else:
            before = vhost.queues.get(self._name)
            if before is not None and not before.consumers and self._differing(before):
                session.broker.delete_queue(before)  # Other terms are another subscription (JMS 2.0, section 8.3.3).
            arguments: dict[str, object] = {IS_SHARED: True} if self._lasting and self._shared else {}
            queue = declare_queue(asker, vhost, self._name, arguments, self._lasting)
        bind(asker, vhost, BindingTerms(self._exchange.name, QUEUE, queue.name, self._key, self._arguments))
        return Subscription(session, queue, self._lasting)


def _is_shared(queue: Queue) -> bool:
    return queue.arguments.get(IS_SHARED) is True


def _has_others(queue: Queue, stolen: Consumer | None) -> bool:
    """Return whether a queue has consumers besides a consumer that is being replaced."""
    return any(consumer is not stolen for consumer in queue.consumers)


def _check_access(session: ClientSession, name: str, exchange: Exchange, key: str) -> None:
    """Check a subscription: its queue is declared, bound and consumed from. Raises AccessRefused."""
    access = session.connection.access
    authorization.check_declare_queue(access, session.vhost, name, {})
    authorization.check_binding(access, session.vhost, exchange.name, QUEUE, name, key)
    authorization.check_read_queue(access, name)


def find_subscription(session: ClientSession, container: str, link_name: str, capabilities: list[str]) -> Subscription:
    """Return the durable subscription of a link's name. Raises NotFound."""
    for is_global in (GLOBAL in capabilities, True):
        name = subscription_name(container, link_name, True, is_global)
        queue = session.vhost.queues.get(name)
        if queue is not None:
            return Subscription(session, queue, True)
    raise NotFound(f"no durable subscription '{link_name}' of container '{container}'")


def subscription_name(container: str, link_name: str, lasting: bool, is_global: bool) -> str:
    """Return the name of a subscription's queue. Raises InvalidField if the name is too long for a queue."""
    base = link_name.partition("|")[0]  # Qpid JMS adds `|` and a number for further links of a shared subscription.
    owner = "" if is_global else f".{container}"
    name = f"{SUBSCRIPTION_PREFIX}{'' if lasting else '.volatile'}{owner}.{base}"
    if not is_name(name):
        raise InvalidField(f"subscription '{base}': the name of its queue, '{name}', has more than 255 bytes")
    return name


def _binding_key(exchange: Exchange, node: Node, filters: SourceFilters) -> str:
    """Return the routing key of a subscription: from the address, from a filter, or for all messages of a topic
    exchange."""
    if not node.by_subject:
        return node.key
    if filters.binding_key is not None:
        return filters.binding_key
    return "#" if exchange.routing_kind() == "topic" else ""
