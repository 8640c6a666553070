"""A single message from somebody who has no channel (HTTP): it passes the same gates as any publish, and is answered.

It is published as in confirm mode. The answer is what its confirmation would have been: that it is in its queues,
withheld while a gate is closed behind it; or that it was refused, by an overflow policy or at its hold deadline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.message import OVERHEAD
from penstock.core.publish import admission
from penstock.core.publish.held import Held
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, BrokerError, ContentTooLarge, PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.protocols.amqp091.cc_bcc import BCC, route_with_copies, without_blind_copies
from penstock.protocols.amqp091.channel import headers_of
from penstock.protocols.amqp091.content_frames import header_payload, make_content
from penstock.protocols.amqp091.property_checks import REPLY_TO
from penstock.protocols.amqp091.publish_properties import route_variant
from penstock.wire.amqp091.codec import CodecError, Properties
from penstock.wire.amqp091.content_header import FIXED_OCTETS

if TYPE_CHECKING:
    from penstock.driver.driver import BrokerDriver

PENDING: Final = ""
"""`refusal` of a message that is in its queues, or of which nothing is known yet."""


class SinglePublish(Producer):
    """One message on its way; `driver.publications` gets it when it is known what has become of it."""

    def __init__(self, driver: BrokerDriver, user: str, peer: str) -> None:
        super().__init__(
            driver.broker, f"http({user}@{peer})", driver.published, driver.origin_without_connection(user)
        )
        self.driver = driver
        self.confirming = True
        self.routed: bool = True
        """Whether it reached a queue."""
        self.refusal: str = PENDING
        """Why it is in no queue and never will be."""
        self.retriable: bool = False
        """Whether it may go in later: the gate was closed for too long."""
        self.done: bool = False
        self.patience_s: float = NEVER
        """Seconds that its sender waits for an answer: what it may be held, and as long again for the disk."""

    def send(self, vhost: VirtualHost, exchange: str, key: str, properties: Properties, body: bytes) -> None:
        """Publish; call it once.

        Raises NotFound (404), AccessRefused (403), ContentTooLarge (311), PreconditionFailed (406).
        """
        most = self.driver.connection_limits.message_bytes_max
        if len(body) > most:
            raise ContentTooLarge(f"a message of {len(body)} bytes is larger than the {most} bytes that one may have")
        assert self.origin is not None
        if properties.user_id is not None and properties.user_id != self.origin.user:
            raise PreconditionFailed(
                f"user_id property set to '{properties.user_id}' but authenticated user was '{self.origin.user}'"
            )
        if properties.reply_to == REPLY_TO:
            raise PreconditionFailed("fast reply consumer does not exist")
        try:
            content = make_content(properties, body)
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None
        headers = headers_of(content)
        route = vhost.route(exchange, key, True)
        vhost.resolve(route, headers)
        route = route_variant(route, content, 0)
        copied = route_with_copies(route, headers)
        if copied is not None:
            route = copied
            vhost.resolve(route, headers)
        if route.control:
            raise AccessRefused("operations of the broker are asked for by AMQP, with somewhere to reply to")
        charge = len(header_payload(content)) - FIXED_OCTETS + len(body) + OVERHEAD + route.envelope.charge()
        if BCC in headers:
            content = without_blind_copies(content)
        self.patience_s = 2 * admission.hold_deadline_s(route.queues)
        self.publish(route, content, charge)

    def give_up(self) -> None:
        """Leave no trace: it has been answered, or nobody waits for the answer any more."""
        self.done = True
        self.abort()

    # What becomes of it

    def on_outcome(self) -> None:
        """Its confirmation, or its refusal, is known."""
        for outcome in self.confirms.take():
            if not outcome.confirmed and not self.refusal:
                self.refusal = "the message was refused"
            self._finish()

    def on_error(self, error: BrokerError) -> None:
        """It can never go in."""
        self.refusal = str(error)
        self._finish()

    def _finish(self) -> None:
        if not self.done:
            self.done = True
            self.driver.publications.append(self)

    def give_back(self, route: Route, content: bytes, why: str) -> None:
        """See `Producer.give_back`: its answer says why, and whoever sent it has it still."""

    def _refused(self, queue: Queue, route: Route, content: bytes, charge: i64) -> None:
        self.refusal = f"queue '{queue.name}' was deleted" if queue.deleted else str(admission.refusal_error(queue))
        super()._refused(queue, route, content, charge)

    def _refuse_new(self, route: Route, why: str, content: bytes, charge: i64) -> None:
        reason = admission.refusal_reason(route.queues, self.gate)
        self.refusal = f"publish to {admission.describe_target(route)} refused: {why}; {reason}"
        self.retriable = True
        super()._refuse_new(route, why, content, charge)

    def _refuse_held(self, due: list[Held], now: float) -> None:
        self.refusal = due[0].deadline_message(self.own, now)
        self.retriable = True
        super()._refuse_held(due, now)
