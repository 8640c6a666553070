"""Properties of a message, independent of its protocol."""

from __future__ import annotations

from typing import Final

PROPERTY_NAMES: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""Names of all properties, in the order of AMQP 0-9-1 (section 1.8.3)."""

TEXT_PROPERTIES: Final = (
    "message_id",
    "correlation_id",
    "reply_to",
    "content_type",
    "expiration",
    "type",
    "app_id",
    "user_id",
    "content_encoding",
)
"""Names of the properties that are texts, in the order of the columns of a block.

`cluster_id` is none of them: AMQP 0-9-1 reserves it, so no block has it.
"""


class Properties:
    """The properties of a message; `None` for absent ones.

    The names are those of RabbitMQ's HTTP API; each message format maps its own properties to them. `timestamp` is in
    seconds since the epoch, unchanged from the publisher: many producers put milliseconds there, and such a message
    must pass. `expiration` is text, milliseconds by convention.
    """

    __slots__ = (
        "app_id",
        "cluster_id",
        "content_encoding",
        "content_type",
        "correlation_id",
        "delivery_mode",
        "expiration",
        "headers",
        "message_id",
        "priority",
        "reply_to",
        "timestamp",
        "type",
        "user_id",
    )

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, object] | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp
        self.type = type
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    def as_dict(self) -> dict[str, object]:
        """Return the properties that are present, in the order of RabbitMQ's documentation."""
        pairs: list[tuple[str, object]] = [
            ("content_type", self.content_type),
            ("content_encoding", self.content_encoding),
            ("headers", self.headers),
            ("delivery_mode", self.delivery_mode),
            ("priority", self.priority),
            ("correlation_id", self.correlation_id),
            ("reply_to", self.reply_to),
            ("expiration", self.expiration),
            ("message_id", self.message_id),
            ("timestamp", self.timestamp),
            ("type", self.type),
            ("user_id", self.user_id),
            ("app_id", self.app_id),
            ("cluster_id", self.cluster_id),
        ]
        return {name: value for name, value in pairs if value is not None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        raise TypeError("properties may change, and so have no hash")

    def __repr__(self) -> str:
        return "Properties(" + ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items()) + ")"
