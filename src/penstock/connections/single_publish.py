"""Publish of a single message without a channel (HTTP): it passes the same gates and gets one answer.

The message is published as in confirm mode. The answer is the confirm: accepted into its queues, and withheld while a
later gate is closed; or refused by an overflow policy or at the hold deadline.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.access.rules import ConnectionAccess
from penstock.connections.authorization import check_route
from penstock.connections.connection_limits import ConnectionLimits
from penstock.content.properties import BCC, Properties
from penstock.core.broker import Broker
from penstock.core.publish import admission
from penstock.core.publish.connection_gates import ConnectionGates, take_counts
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.routing.route import Route, route_for, route_with_copies
from penstock.core.routing.topology import resolve_message
from penstock.core.vhost import REPLY_TO, VirtualHost
from penstock.errors import AccessRefused, BrokerError, ContentTooLarge, PreconditionFailed
from penstock.flow.gate import Refusal
from penstock.flow.level import OVERHEAD
from penstock.flow.series import Tally
from penstock.flow.wait import Wait
from penstock.settings.pools import HTTP_HELD

ORIGINS_MOST: Final = 1_000
"""Users whose gates and rates are cached for their next publish; beyond, the longest unused are dropped."""
HTTP_ORIGIN: Final = "http"
"""Name of the origins."""
PENDING: Final = ""
"""Value of `refusal` for an accepted message, or while the outcome is unknown."""


class SinglePublishes:
    """All single publishes of a broker: they share one hold budget, and publishes of a user share one rate."""

    def __init__(self, broker: Broker, limits: ConnectionLimits) -> None:
        self.broker = broker
        self.limits = limits
        self.hold_budget = HoldBudget(HTTP_HELD.limit)
        self.pool = broker.pools.of(HTTP_HELD)
        """Bytes (charges) of held publishes."""
        self._origins: dict[str, ConnectionGates] = {}
        """Origins by user, the least recently used first."""

    def origin(self, user: str) -> ConnectionGates:
        """Return the origin of a user's publishes, created at first use."""
        gates = self._origins.pop(user, None)
        if gates is None:
            self._forget_unused()
            gates = ConnectionGates(user, HTTP_ORIGIN)
            self.broker.gates.add_connection(gates)
        self._origins[user] = gates
        return gates

    def _forget_unused(self) -> None:
        """Make room for one more origin, if an origin has no publish in progress."""
        if len(self._origins) < ORIGINS_MOST:
            return
        for user, origin in self._origins.items():
            if not origin.producers:
                del self._origins[user]
                self.broker.gates.remove_connection(origin)
                return


class SinglePublish(ProducerListener):
    """One publish in progress, with its producer; `known` ends when its outcome is known."""

    def __init__(self, publishes: SinglePublishes, access: ConnectionAccess, peer: str) -> None:
        super().__init__()
        self._publishes = publishes
        self._access = access
        self._holder = access.holder()
        self._held: i64 = 0
        """Bytes of the publish in the pool."""
        user = access.user
        self.user = user
        self.producer = Producer(
            publishes.broker, f"http({user}@{peer})", publishes.hold_budget, publishes.origin(user), self
        )
        self.producer.confirming = True
        self.target: str = ""
        """Exchange and routing key as text."""
        self.routed: bool = True
        """True if the message reached a queue."""
        self.refusal: str = PENDING
        """Reason for which the message is in no queue and never will be."""
        self.retriable: bool = False
        """True if a retry may succeed: the gate was closed for too long."""
        self.done: bool = False
        self._sinks = [publishes.broker.gates.counts_of_user(user)]
        """Tallies of the user and the virtual host."""
        self.known: Wait = Wait()
        """Wait for the outcome: for the hold deadline, and as long again for the disk."""

    def send(self, vhost: VirtualHost, exchange: str, key: str, properties: Properties, body: bytes) -> None:
        """Publish; call it once.

        Raises NotFound (404), AccessRefused (403), ContentTooLarge (311), PreconditionFailed (406).
        """
        self._sinks.append(vhost.closed_counts)
        most = self._publishes.limits.message_bytes_max
        if len(body) > most:
            raise ContentTooLarge(f"a message of {len(body)} bytes is larger than the limit of {most} bytes")
        if properties.user_id is not None and properties.user_id != self.user:
            raise PreconditionFailed(
                f"user_id property set to '{properties.user_id}' but authenticated user was '{self.user}'"
            )
        if properties.reply_to == REPLY_TO:
            raise PreconditionFailed("fast reply consumer does not exist")
        message_format = self._publishes.broker.formats.default
        content = message_format.encode(properties, body)
        headers = properties.headers or {}
        route = vhost.route(exchange, key, True)
        check_route(self._access, vhost, route)
        resolve_message(vhost, route, headers, content, message_format)
        route = route_for(route, properties)
        copied = route_with_copies(route, headers)
        if copied is not None:
            route = copied
            check_route(self._access, vhost, route)
            resolve_message(vhost, route, headers, content, message_format)
        if route.control:
            raise AccessRefused("control operations cannot be published over HTTP: they need AMQP, with a reply_to")
        charge = message_format.charge(content) + OVERHEAD + route.envelope.charge()
        if BCC in headers:
            properties.headers = {name: value for name, value in headers.items() if name != BCC}
            content = message_format.encode(properties, body)
        self.target = admission.describe_target(route)
        self.known.timeout_s = 2 * admission.hold_deadline_s(route.queues)
        self.producer.publish(route, content, charge)
        if self.producer.outbox:
            pool = self._publishes.pool
            if pool.take(self._holder, charge):
                self._held = charge
            else:
                self.refusal = pool.refusal(self._holder, charge)
                self.retriable = True
                self._finish()

    def give_up(self) -> None:
        """Drop the publish: it was answered, or the client has disconnected."""
        self.done = True
        self._give_back()
        self._leave_counts()
        self.producer.abort()

    def _give_back(self) -> None:
        self._publishes.pool.give(self._holder, self._held)
        self._held = 0

    def _leave_counts(self) -> None:
        counts = Tally()
        take_counts(self.producer, counts)
        for sink in self._sinks:
            sink.add(counts)

    # Outcome

    def on_confirms(self) -> None:
        """Record the confirm or the refusal."""
        for outcome in self.producer.confirms.take():
            refusal = outcome.refusal
            if refusal is not None:
                self.retriable = refusal.retriable
                self.refusal = self._answer(refusal)
            self._finish()

    def _answer(self, refusal: Refusal) -> str:
        """Return the text of a refusal: a gate that was closed for too long is named with the blocked target."""
        if refusal.retriable:
            return f"publish to {self.target} {refusal.describe()}"
        return refusal.describe()

    def on_returned(self, route: Route, content: bytes, refused: BrokerError | None) -> None:
        """Record that the message reached no queue.

        The answer names the reason of a refusal; the sender still has the message.
        """
        if refused is None:
            self.routed = False

    def on_closed(self, error: BrokerError) -> None:
        """Record an error: the message can never be accepted."""
        self.refusal = str(error)
        self._finish()

    def _finish(self) -> None:
        if not self.done:
            self._give_back()
            self.done = True
            self.known.end()
