"""Messages to send: `Message`, and received ones that are passed on: `Forwarded`. A receiver has a `Delivery`."""

from __future__ import annotations

from typing import Any, Final

from penstock.content.delay import DELAY_MS_MAX
from penstock.content.properties import COPIES, Properties

Body = bytes | bytearray | memoryview
DELAY: Final = "x-opt-delivery-delay"
"""Annotation of AMQP 1.0 with the delay of a message in milliseconds."""


def delay_ms(delay: float) -> int:
    """Return seconds in milliseconds. Raises `ValueError` if they are no delay."""
    given: object = delay
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given * 1000 <= DELAY_MS_MAX:
        raise ValueError(f"a delay is a number of seconds from 0 to {DELAY_MS_MAX // 1000}, not {delay!r}")
    return round(delay * 1000)


def delayed(message: object, delay: float | None) -> Any:
    """Return a message with a delay in seconds; None leaves it as it is. Raises `ValueError` as `Message`.

    A value that is no message is returned unchanged: the publisher refuses it.
    """
    if isinstance(message, Body):
        return message if delay is None else Message(message, delay=delay)
    if delay is None or not isinstance(message, Message):
        return message
    return Message(
        message.body,
        properties=message.properties,
        routing_key=message.routing_key,
        exchange=message.exchange,
        delay=delay,
    )


class Message:
    """Message to send: a body, properties (`Properties` by name), and an own target, if any.

    `routing_key` and `exchange` replace the publisher's. A given `properties` object is used unchanged, and excludes
    single properties. `durable` None: as set for the publisher. `delay`: seconds after which the broker delivers the
    message; only over AMQP 1.0. Raises `ValueError` for a delay that is negative, or above 2^53 milliseconds.
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
        delay: float | None = None,
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
        if delay is not None:
            properties = properties.copy()
            properties.headers = {**(properties.headers or {}), DELAY: delay_ms(delay)}
        self._properties = properties
        self.delay = delay
        """Seconds after which the broker delivers the message; None for at once."""

    @property
    def properties(self) -> Properties:
        """Return the properties of the message."""
        return self._properties

    @properties.setter
    def properties(self, properties: Properties) -> None:
        self._properties = properties

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} bytes, {self.properties!r}>"


class Received:
    """Content of a received message, as a publisher passes it on; a `Delivery` is one."""

    def __init__(self, body: bytes, head: bytes) -> None:
        self.body = body
        self.head = head
        """Properties as bytes, decoded on request."""

    @property
    def properties(self) -> Properties:
        """Return the properties."""
        raise NotImplementedError

    def passed_head(self, protocol: str) -> bytes | None:
        """Return what precedes the body for a publisher of this protocol, as it was received.

        None if the publisher must encode it: it speaks another protocol, or must leave something out.
        """
        raise NotImplementedError

    def passed_content(self, protocol: str) -> bytes | None:
        """Return head and body together, where the body has no section of its own; None otherwise."""
        return None


NO_PROPERTIES: Final = Properties()


class Forwarded(Message):
    """Received message that is passed on: see `Delivery.forwarded`. Its properties are decoded if they are needed."""

    def __init__(self, source: Received, routing_key: str | None, exchange: str | None) -> None:
        super().__init__(source.body, properties=NO_PROPERTIES, routing_key=routing_key, exchange=exchange)
        self.source = source
        self._changed: Properties | None = None
        """Properties after the first request."""
        self._is_changed = False
        """True if other properties were set: then the head is encoded."""

    @property
    def properties(self) -> Properties:
        """Return the properties that are sent: without headers by which the broker would route copies again."""
        if self._changed is None:
            self._changed = sent_on(self.source.properties)
        return self._changed

    @properties.setter
    def properties(self, properties: Properties) -> None:
        self._changed = properties
        self._is_changed = True

    def head_for(self, protocol: str) -> bytes | None:
        """Return the bytes before the body as they were received; None if a publisher must encode the properties."""
        return None if self._is_changed else self.source.passed_head(protocol)

    def content_for(self, protocol: str) -> bytes | None:
        """Return head and body together; see `Received.passed_content`."""
        return None if self._is_changed else self.source.passed_content(protocol)

    def sent_by(self, user: str) -> Properties:
        """Return the properties for a publisher of this user: a broker refuses the user-id of another."""
        properties = self.properties
        if properties.user_id is not None and properties.user_id != user:
            properties = properties.copy()
            properties.user_id = None
        return properties


def sent_on(properties: Properties) -> Properties:
    """Return the properties of a received message without `COPIES`."""
    headers = properties.headers
    if not headers or not any(name in headers for name in COPIES):
        return properties
    changed = properties.copy()
    changed.headers = {name: value for name, value in headers.items() if name not in COPIES} or None
    return changed
