"""Assembly of received messages from a method, a content header and body frames."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from penstock.wire.amqp091.codec import CodecError, Method, Properties
from penstock.wire.amqp091.spec import ReplyCode

CONTENT_MAX: Final = 1 << 30
"""Largest accepted body in octets; the announced size is allocated at once."""


class Delivery(NamedTuple):
    """Message from a queue.

    `message_count` is the number of remaining messages after basic.get, None for a consumer's delivery. A body of
    several frames is a `bytearray`, to save a copy.
    """

    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int | None
    properties: Properties
    body: bytes | bytearray


class Returned(NamedTuple):
    """Mandatory message that reached no queue."""

    code: int
    text: str
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes | bytearray


class Content:
    """Message whose frames are still arriving."""

    __slots__ = ("_body", "_filled", "_pieces", "_size", "method", "properties")

    def __init__(self, method: Method) -> None:
        self.method = method
        self.properties: Properties | None = None
        self._size = 0
        self._filled = 0
        self._body: bytes | bytearray = b""
        self._pieces = bytearray()

    def add_header(self, size: int, properties: Properties) -> None:
        """Take the content header; raises `CodecError` if it is out of place or announces too large a body."""
        if self.properties is not None:
            raise CodecError("a second content header for one message", ReplyCode.UNEXPECTED_FRAME)
        if size > CONTENT_MAX:
            raise CodecError(f"a body of {size} octets is larger than {CONTENT_MAX}", ReplyCode.CONTENT_TOO_LARGE)
        self._size = size
        self.properties = properties

    def add_body(self, part: memoryview) -> None:
        """Take a body frame's payload; raises `CodecError` if it is out of place.

        It is copied, unless it was received in `room`.
        """
        filled = self._filled + len(part)
        if self.properties is None or filled > self._size:
            raise CodecError("a body frame without its header, or beyond its size", ReplyCode.UNEXPECTED_FRAME)
        if len(part) == self._size:
            self._body = bytes(part)
        elif part.obj is not self._pieces:
            self._allocate()
            self._pieces[self._filled : filled] = part
        self._filled = filled

    def room(self, size: int) -> memoryview | None:
        """Return the place of the next body frame's payload; None if it is out of place, or the whole body."""
        filled = self._filled + size
        if self.properties is None or filled > self._size or size == self._size:
            return None
        self._allocate()
        return memoryview(self._pieces)[self._filled : filled]

    def _allocate(self) -> None:
        if not self._pieces:
            self._body = self._pieces = bytearray(self._size)

    @property
    def complete(self) -> bool:
        """True if the whole body has arrived."""
        return self.properties is not None and self._filled == self._size

    def delivery(self) -> Delivery:
        """Message of basic.deliver or basic.get-ok."""
        args = self.method.args
        return Delivery(
            consumer_tag=cast(str, args.get("consumer_tag", "")),
            delivery_tag=cast(int, args["delivery_tag"]),
            redelivered=cast(bool, args["redelivered"]),
            exchange=cast(str, args["exchange"]),
            routing_key=cast(str, args["routing_key"]),
            message_count=cast("int | None", args.get("message_count")),
            properties=self.properties or Properties(),
            body=self._body,
        )

    def returned(self) -> Returned:
        """Message of basic.return."""
        args = self.method.args
        return Returned(
            code=cast(int, args["reply_code"]),
            text=cast(str, args["reply_text"]),
            exchange=cast(str, args["exchange"]),
            routing_key=cast(str, args["routing_key"]),
            properties=self.properties or Properties(),
            body=self._body,
        )
