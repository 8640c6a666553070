"""Messages: `Message` is one to be sent, `Delivery` one that has come."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from penstock.content.properties import Properties

if TYPE_CHECKING:
    from penstock.client.engine.receiver import ReceiverCore

Body = bytes | bytearray | memoryview


class Message:
    """Message to be sent: a body and properties (`Properties` by name), and where it goes if not where others go.

    `routing_key` replaces the publisher's; `exchange` too. `properties` are taken as they are then, and none beside it.
    `durable` None: as the publisher says.
    """

    def __init__(
        self,
        body: Body = b"",
        *,
        properties: Properties | None = None,
        routing_key: str | None = None,
        exchange: str | None = None,
        durable: bool | None = None,
        headers: dict[str, object] | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: float | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
    ) -> None:
        self.body = bytes(body)
        self.routing_key = routing_key
        self.exchange = exchange
        if properties is None:
            properties = Properties(
                content_type=content_type,
                content_encoding=content_encoding,
                headers=headers,
                delivery_mode=None if durable is None else 2 if durable else 1,
                priority=priority,
                correlation_id=correlation_id,
                reply_to=reply_to,
                expiration=None if expiration is None else str(round(expiration * 1000)),
                message_id=message_id,
                timestamp=timestamp,
                type=type,
                user_id=user_id,
                app_id=app_id,
            )
        self.properties = properties

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} octets, {self.properties!r}>"


class Over:
    """An awaitable that is over: `await delivery.accept()` costs no coroutine, and needs no await."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


OVER: Final = Over()

ACCEPTED: Final = 0
REJECTED: Final = 1
RELEASED: Final = 2
MODIFIED: Final = 3
"""Outcomes of a delivery."""


class Delivery:
    """Message that has come. It is settled by one of `accept`, `reject`, `release` and `modify`, once.

    Settling is sent with the next flush; in asyncio it may be awaited, which does not wait. One that comes from an
    earlier connection, or is settled, is left alone: the broker has given it to somebody else.
    """

    def __init__(self, receiver: ReceiverCore, tag: i64, epoch: i64, body: bytes, head: bytes, envelope: bytes) -> None:
        self.receiver = receiver
        self.tag: i64 = tag
        self.epoch: i64 = epoch
        self.body = body
        self.head = head
        """Properties as octets, decoded when they are asked for."""
        self.envelope = envelope
        """Origin, as octets."""
        self.is_settled: bool = False
        self.decoded: Properties | None = None
        self.origin: tuple[str, str] | None = None
        """Exchange and routing key, after one of them was asked for."""

    @property
    def properties(self) -> Properties:
        """Return the properties."""
        if self.decoded is None:
            self.decoded = self.receiver.properties_of(self)
        return self.decoded

    @property
    def headers(self) -> dict[str, object]:
        """Return the headers; empty without any."""
        return self.properties.headers or {}

    @property
    def redelivered(self) -> bool:
        """Return whether it may have been delivered before."""
        return self.receiver.redelivered(self)

    @property
    def exchange(self) -> str:
        """Return the exchange that it was published to; empty for the default exchange, or where it is unknown."""
        return self._origin()[0]

    @property
    def routing_key(self) -> str:
        """Return its routing key; empty where it is unknown."""
        return self._origin()[1]

    def _origin(self) -> tuple[str, str]:
        if self.origin is None:
            self.origin = self.receiver.origin_of(self)
        return self.origin

    def accept(self) -> Over:
        """Take the message off its queue."""
        self.receiver.accept(self)
        return OVER

    def reject(self, reason: str = "") -> Over:
        """Refuse the message for good: it is dead-lettered, or dropped where its queue has no dead letters.

        Over AMQP 1.0 the dead letter has the first 255 letters of `reason` in the header `x-rejected-description`;
        basic.nack of AMQP 0-9-1 has no room for a reason.
        """
        self.receiver.settle(self, REJECTED, reason)
        return OVER

    def release(self, delay: float | None = None) -> Over:
        """Return the message to its queue.

        Raises `ValueError` for a `delay`: no broker of these protocols keeps a released message back for a time.
        """
        if delay:
            raise ValueError(
                f"a message cannot be released with a delay of {delay:g} s: neither protocol has one for deliveries; "
                f"release it later, or publish it anew to a queue with a time to live and a dead-letter exchange"
            )
        self.receiver.settle(self, RELEASED)
        return OVER

    def modify(self, annotations: dict[str, object] | None = None, *, undeliverable_here: bool = False) -> Over:
        """Return the message to its queue as failed, which counts; with `undeliverable_here` not for this receiver.

        `annotations` are added to it, where their names begin with "x-". Raises `ValueError` for them over AMQP 0-9-1.
        """
        if annotations and not self.receiver.annotates:
            raise ValueError("annotations of a returned message need AMQP 1.0: basic.nack has no room for them")
        self.receiver.settle(self, MODIFIED, "undeliverable-here" if undeliverable_here else "", annotations)
        return OVER

    def forget(self) -> None:
        """Drop its content: it can only be settled then. Many messages that wait for that need little memory so."""
        self.body = self.head = self.envelope = b""
        self.decoded = self.origin = None

    def reply(self, answer: Body | Message) -> Over:
        """Send the answer to a call, to its `reply_to` and with its correlation id.

        It goes as soon as there is room; one whose caller has gone, or that waits for longer than a call, is dropped.
        Raises `ValueError` for a message that asks for no answer, and `ClientError` above 1,000 answers that wait.
        """
        from penstock.client.engine.requester import send_reply  # Most receivers answer no calls.

        send_reply(self.receiver, self.properties, answer if isinstance(answer, Message) else Message(answer))
        return OVER

    def __repr__(self) -> str:
        return f"<Delivery of {len(self.body)} octets>"
