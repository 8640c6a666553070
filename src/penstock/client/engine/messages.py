"""Messages to send: `Message`. A received message is a `Delivery` of its receiver."""

from __future__ import annotations

from penstock.content.properties import Properties

Body = bytes | bytearray | memoryview


class Message:
    """Message to send: a body, properties (`Properties` by name), and an own target, if any.

    `routing_key` and `exchange` replace the publisher's. A given `properties` object is used unchanged, and excludes
    single properties. `durable` None: as set for the publisher.
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
        return f"<Message of {len(self.body)} bytes, {self.properties!r}>"
