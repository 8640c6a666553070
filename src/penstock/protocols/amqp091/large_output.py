"""Large contents of a channel: body frames as the peer reads them, and the output of the channel after them.

Frames of a content may not be mixed with other contents of the channel (AMQP 0-9-1 section 4.2.6), but frames of other
channels may go between. While a large content is written, the output of its channel is a buffer that is written after
it (`Channel.out`). A further large content waits behind that buffer, with a buffer of its own. Beyond a bound of
waiting output the input of the connection waits. Deliveries wait in the rotation (`Channel.receiving`).

A content that was begun is completed before the close of its channel is sent. A content ends with its connection. If a
piece cannot be read, the connection is closed (541), because no other frame may follow on the channel.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64
from typing_extensions import override

from penstock.connections.connection_output import OUTPUT_LEFT_UNREAD, SHARE_OCTETS, OutputSource
from penstock.core.large_bodies import LargeReader, Parts, PieceListener
from penstock.core.large_content import body_of, head_of
from penstock.errors import InternalError
from penstock.protocols.amqp091.content_frames import large_header, write_u16
from penstock.protocols.amqp091.message_format import as_frames
from penstock.wire.amqp091.spec import FRAME_BODY, FRAME_END, FRAME_OVERHEAD

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


class _Content:
    """Large content, and the output of the channel after it."""

    __slots__ = ("reader", "after")

    def __init__(self, reader: LargeReader) -> None:
        self.reader = reader
        self.after = BytesWriter()
        """Output of the channel after this content, up to the next large content."""


class LargeOutput(OutputSource):
    """The large contents of one channel that are being written."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._contents: deque[_Content] = deque()
        self._pauses: bool = False
        """True while the input of the connection waits."""

    def add(self, content: bytes) -> None:
        """Write a content whose method is written: its header frame now, its body as the peer reads."""
        channel = self._channel
        body = body_of(content)
        assert body is not None
        head = as_frames(head_of(content), channel.broker.formats)
        channel.out.write(large_header(head, channel.number, body.data_octets()))
        added = _Content(body.open(channel.broker.large, body.spans, _Wake(self)))
        self._contents.append(added)
        channel.out = added.after
        if len(self._contents) == 1:
            channel.connection.output.open_source(self)
            channel.connection.request_flush()

    def bound(self) -> None:
        """Pause the input of the connection if too much waits."""
        waiting: i64 = 0
        for content in self._contents:
            waiting += len(content.after)
        if waiting > OUTPUT_LEFT_UNREAD and not self._pauses:
            self._pauses = True
            self._channel.connection.hold_input()

    @override
    def end(self) -> None:
        for content in self._contents:
            content.reader.end()
        self._contents.clear()
        self._channel.connection.output.close_source(self)
        self._channel.large = None
        self._channel.out = self._channel.engine.out

    def go_on(self) -> None:
        """Continue: the next piece was read, or could not be read."""
        connection = self._channel.connection
        if connection.is_closed():
            self.end()
            return
        fault = self._contents[0].reader.fault
        if fault:
            connection.close(InternalError(f"a large message cannot be read from the store: {fault}"))
            return
        connection.output.sources.append(self)
        connection.request_flush()

    @override
    def write_some(self, out: BytesWriter, parts: Parts) -> bool:
        if not self._contents:
            return False
        content = self._contents[0]
        reader = content.reader
        most = self._channel.engine.frame_max - FRAME_OVERHEAD
        if most > SHARE_OCTETS:
            most = SHARE_OCTETS
        if reader.left > 0:
            octets = reader.ready(most)
            if octets == 0:
                return False
            out.append(FRAME_BODY)
            write_u16(out, self._channel.number)
            write_i32_be(out, i32(octets))
            reader.write(out, parts)
            out.append(FRAME_END)
        if reader.left == 0:
            out.write(content.after.getvalue())
            self._contents.popleft()
            if not self._contents:
                self._finish()
        return len(self._contents) > 0

    def _finish(self) -> None:
        channel = self._channel
        channel.large = None
        channel.out = channel.engine.out
        channel.connection.output.close_source(self)
        if self._pauses:
            self._pauses = False
            channel.connection.release_input()
        channel.wake_waiting()


class _Wake(PieceListener):
    """Wakes the output when a piece was read."""

    def __init__(self, output: LargeOutput) -> None:
        self._output = output

    @override
    def on_piece(self, reader: LargeReader) -> None:
        self._output.go_on()
