"""Encoding of deliveries: a constant prefix, the tag, a constant suffix, and the content as received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import BytesWriter, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from penstock.core.large_content import is_large
from penstock.core.message import NEVER_DELIVERED, EncodedAddress, Envelope, Message
from penstock.protocols.amqp091.content_frames import write_joined, write_u16
from penstock.protocols.amqp091.message_format import as_frames
from penstock.wire.amqp091.fields import encode_shortstr
from penstock.wire.amqp091.spec import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD

if TYPE_CHECKING:
    from penstock.core.message_format import MessageFormats


def address_tail(address: Envelope, redelivered: bool) -> bytes:
    """Return the bytes after the tag in a delivery: redelivered, exchange, routing key, frame end.

    These bytes are cached with the envelope.
    """
    address_octets = address.encoded.entry(FRAME_HEADER)
    tail = address_octets.encoded_redelivered if redelivered else address_octets.encoded
    if not tail:
        tail = (
            (b"\x01" if redelivered else b"\x00")
            + encode_shortstr(address.exchange)
            + encode_shortstr(address.routing_key)
            + b"\xce"
        )
        if redelivered:
            address_octets.encoded_redelivered = tail
        else:
            address_octets.encoded = tail
    return tail


class DeliveryHead:
    """Beginning of every basic.deliver to one consumer, for the envelope of the last message."""

    __slots__ = ("channel", "tag", "encoded", "redelivered", "head", "tail")

    def __init__(self, channel: i64, tag: str) -> None:
        self.channel: i64 = channel
        self.tag = encode_shortstr(tag)
        self.encoded: EncodedAddress | None = None
        """Encoded envelope of the last message."""
        self.redelivered: bool = False
        self.head: bytes = b""
        self.tail: bytes = b""

    def fit(self, message: Message) -> None:
        """Build head and tail for a message."""
        self.encoded = message.envelope.encoded
        self.redelivered = message.past != NEVER_DELIVERED
        self.tail = address_tail(message.envelope, self.redelivered)
        method = b"\x00\x3c\x00\x3c" + self.tag
        size = len(method) + 8 + len(self.tail) - 1
        self.head = b"\x01" + int(self.channel).to_bytes(2, "big") + size.to_bytes(4, "big") + method


def write_deliveries(
    out: BytesWriter,
    head: DeliveryHead,
    messages: list[Message | None],
    tag: i64,
    frame_max: i64,
    formats: MessageFormats,
) -> i64:
    """Write messages as basic.deliver with consecutive tags. Return -1, or the index of the first large one.

    Of a large message only the method is written.

    The first bytes of a content are compared with the type and channel of a header frame for this channel. So a content
    of another format takes the same branch as a content for another channel, and is converted there.
    """
    address_octets = head.encoded
    start = head.head
    tail = head.tail
    redelivered = head.redelivered
    channel: i64 = head.channel
    prefix: i64 = FRAME_HEADER << 16 | channel
    first = tag
    for message in messages:
        assert message is not None
        if message.envelope.encoded is not address_octets or (message.past != NEVER_DELIVERED) != redelivered:
            head.fit(message)
            address_octets = head.encoded
            start = head.head
            tail = head.tail
            redelivered = head.redelivered
        out.write(start)
        write_i64_be(out, tag)
        out.write(tail)
        content = message.content
        size: i64 = len(content)
        if 8 <= size <= frame_max and (read_i64_be(content, 0) >> 40) & 0xFFFFFF == prefix:
            out.write(content)
        elif is_large(content):
            return tag - first
        else:
            write_other(out, content, channel, frame_max, formats)
        tag += 1
    return -1


def write_other(out: BytesWriter, content: bytes, channel: i64, frame_max: i64, formats: MessageFormats) -> None:
    """Write a content of any format, or for any channel."""
    parts = formats.parts(content, formats.by_octet(FRAME_HEADER))
    if parts is None:
        write_content(out, as_frames(content, formats), channel, frame_max)
    else:
        write_joined(out, parts[0], parts[1], channel, frame_max - FRAME_OVERHEAD)


def write_content(out: BytesWriter, content: bytes, channel: i64, frame_max: i64) -> None:
    """Write header and body frames for another channel, or in smaller frames than received.

    A content header cannot be split (section 4.2.6.1): a delivery with one above `frame_max` does not come here (see
    `Channel.passes_over`). A header that the same client published may be eight bytes larger than agreed.
    """
    if _fits(content, channel, frame_max):
        out.write(content)
        return
    pos: i64 = 0
    n: i64 = len(content)
    most = frame_max - FRAME_OVERHEAD
    while pos < n:
        kind: i64 = content[pos]
        size = (read_i64_be(content, pos) >> 8) & 0xFFFFFFFF
        start = pos + 7
        left = size
        while True:
            part = left if left < most or kind != FRAME_BODY else most
            out.append(int(kind))
            write_u16(out, channel)
            write_i32_be(out, i32(part))
            out.write(content[start : start + part])
            out.append(FRAME_END)
            start += part
            left -= part
            if left <= 0:
                break
        pos += size + FRAME_OVERHEAD


def _fits(content: bytes, channel: i64, frame_max: i64) -> bool:
    """Return whether all frames of a content are for this channel, and small enough."""
    pos: i64 = 0
    n: i64 = len(content)
    while n - pos >= 8:
        start = read_i64_be(content, pos)
        size = ((start >> 8) & 0xFFFFFFFF) + FRAME_OVERHEAD
        if (start >> 40) & 0xFFFF != channel or size > frame_max:
            return False
        pos += size
    return True


def write_confirm(out: BytesWriter, channel: i64, number: i64, multiple: bool, confirmed: bool) -> None:
    """Write basic.ack or basic.nack for publishes."""
    out.append(FRAME_METHOD)
    write_u16(out, channel)
    write_i32_be(out, 13)
    write_i16_be(out, 60)
    write_i16_be(out, 80 if confirmed else 120)
    write_i64_be(out, number)
    out.append(1 if multiple else 0)
    out.append(FRAME_END)
