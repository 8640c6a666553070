"""Channel of AMQP 0-9-1: methods, content, and the end; a subclass for each use handles them."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, cast

from librt.strings import read_i32_be, read_i64_be, write_i32_be
from mypy_extensions import i32, i64

from penstock.client.engine.connection import Engine
from penstock.client.engine.waits import Call
from penstock.client.errors import ChannelClosed, ClientError, without_name
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import decode_properties

FRAME_MAX: Final = 128 * 1024
"""Bytes of a frame until the limit is agreed on, and if the broker sets none; RabbitMQ's default."""
CHANNEL_MAX: Final = 2047
"""Most channels that are requested; RabbitMQ's default."""
BODY_MAX: Final = 1 << 30
"""Largest accepted body in bytes."""
BLOCK_MAX: Final = 64 * 1024 * 1024
"""Most bytes of an answer that are allocated when its first frame arrives."""


class Channels:
    """Channels of a connection by their numbers, and the limits agreed with the broker."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.by_number: dict[int, Channel] = {}
        self.last_number: int = 0
        self.most: i64 = CHANNEL_MAX
        self.frame_max: i64 = FRAME_MAX

    def reset(self) -> None:
        """Begin with a new transport."""
        self.by_number = {}
        self.last_number = 0
        self.limit(CHANNEL_MAX, FRAME_MAX)

    def limit(self, most: int, frame_max: int) -> None:
        """Apply the limits of the broker."""
        self.most = most
        self.frame_max = frame_max

    def new_number(self) -> int:
        """Return the number of the next channel. Raises `ClientError` when all are in use."""
        if len(self.by_number) >= self.most:
            raise ClientError(f"all {self.most} channels of the connection are in use")
        number = self.last_number
        while True:
            number = number % int(self.most) + 1
            if number not in self.by_number:
                break
        self.last_number = number
        return number


class Channel:
    """Channel of a publisher, of a receiver, of a transaction, of calls, of declarations or of control requests."""

    def __init__(self, channels: Channels, is_strict: bool = False, is_for_control: bool = False) -> None:
        self.channels = channels
        self.engine = channels.engine
        self.number: int = channels.new_number()
        self.is_closed: bool = False
        self.is_left: bool = False
        """True when the close has begun: later input is dropped."""
        self.closed_for: int = 0
        """Method because of which the broker closed the channel; 0 for none."""
        self.is_strict: bool = is_strict
        """True if an answer without a request is an error; otherwise it is ignored."""
        self.is_for_control: bool = is_for_control
        self.calls: deque[Call] = deque()
        """Requests without an answer, in order."""
        self.content: i64 = 0
        """Method of the content that is arriving; 0 for none."""
        self.envelope: bytes = b""
        self.tag: i64 = 0
        self.head: bytes = b""
        self.has_head: bool = False
        self.body_size: i64 = 0
        self.parts: list[bytes] = []
        """Frames of the body that is arriving."""
        self.block: bytearray = bytearray()
        """Answer to a control request that is arriving in several frames; empty without one."""
        self.received: i64 = 0
        channels.by_number[self.number] = self
        self.expect(Call("channel.open", (spec.CHANNEL_OPEN_OK,)))
        self.write(spec.CHANNEL_OPEN, {})

    # Handlers of the subclass

    def on_confirm(self, tag: i64, is_refused: bool, is_multiple: bool) -> None:
        """Handle basic.ack or basic.nack."""

    def on_message(self, body: bytes) -> None:
        """Handle a message; its attributes are in `tag`, `head` and `envelope`."""

    def on_return(self, exchange: str, key: str, body: bytes, reason: str) -> None:
        """Handle a returned message; its properties are in `head`."""

    def on_flow(self, is_active: bool) -> None:
        """Stop or resume, because of channel.flow."""

    def on_cancel(self, tag: str) -> None:
        """Handle the broker's cancellation of a consumer."""

    def on_answer(self, method: Method) -> None:
        """Handle the answer to a request, which has ended."""

    def on_close(self, error: ChannelClosed) -> None:
        """Handle the broker's close."""

    # Output

    def write(self, method: int, arguments: dict[str, Any]) -> None:
        """Write a method. Raises CodecError for an argument that AMQP cannot carry."""
        self.engine.out.write(method_frame(self.number, method, **arguments))

    def write_content(self, body: bytes, header: bytes) -> None:
        """Write header and body of a message, after its basic.publish."""
        out = self.engine.out
        out.write(frame(spec.FRAME_HEADER, self.number, header))
        head = bytes([spec.FRAME_BODY]) + self.number.to_bytes(2, "big")
        step = int(self.channels.frame_max) - spec.FRAME_OVERHEAD
        for start in range(0, len(body), step):  # Written in place: a block has megabytes.
            piece = body[start : start + step]
            out.write(head)
            write_i32_be(out, i32(len(piece)))
            out.write(piece)
            out.append(spec.FRAME_END)

    def expect(self, call: Call) -> Call:
        """Wait for the answer to a request that was written, after those before; return the request."""
        self.calls.append(call)
        return call

    def close(self) -> None:
        """Begin to close the channel."""
        if not self.is_left:
            self.is_left = True
            self.write(spec.CHANNEL_CLOSE, {"reply_code": 200, "reply_text": "goodbye"})
            self.calls.clear()
            self.engine.wake_output()

    # Input

    def take(self, kind: int, data: bytes, at: i64, end: i64) -> None:
        """Handle a frame's payload from `at` to `end`. Raises CodecError if the protocol does not allow it here."""
        if kind == spec.FRAME_BODY:
            self._body(data, at, end)
        elif kind == spec.FRAME_HEADER:
            if self.content == 0 or self.has_head or end - at < 14:
                raise CodecError("a content header where none was due")
            self.body_size = read_i64_be(data, at + 4)
            if self.body_size < 0 or self.body_size > BODY_MAX:
                raise CodecError(f"a body of {self.body_size} bytes is larger than {BODY_MAX}")
            self.head = data[at:end]
            self.has_head = True
            if self.body_size == 0:
                self._arrived(b"")
        elif kind == spec.FRAME_METHOD and end - at >= 4:
            if self.content != 0:
                raise CodecError("a method within a message")
            method = i64(read_i32_be(data, at))
            if method == spec.BASIC_DELIVER and end - at >= 14:
                skip: i64 = data[at + 4]
                if end - at < 14 + skip:
                    raise CodecError("basic.deliver is too short")
                self.tag = read_i64_be(data, at + 5 + skip)
                if self.tag < 1:
                    raise CodecError("a delivery tag that no broker counts to")
                self.envelope = data[at:end]
                self.content = method
            elif (method == spec.BASIC_ACK or method == spec.BASIC_NACK) and end - at == 13:
                if not self.is_left:
                    is_refused = method == spec.BASIC_NACK
                    self.on_confirm(read_i64_be(data, at + 4), is_refused, data[at + 12] & 1 == 1)
            else:
                self._method(decode_method(data[at:end]), data[at:end])
        else:
            raise CodecError(f"a frame of kind {kind} on a channel")

    def _body(self, data: bytes, at: i64, end: i64) -> None:
        if not self.has_head:
            raise CodecError("a body frame where none was due")
        size = end - at
        if size == self.body_size and self.received == 0:
            self._arrived(data[at:end])
            return
        before = self.received
        self.received += size
        if self.received > self.body_size:
            raise CodecError("a body is larger than its header says")
        if not self.is_for_control or self.body_size > BLOCK_MAX:
            self.parts.append(data[at:end])
        elif before == 0:
            self.block = bytearray(self.body_size)  # Each byte is copied once: a block has megabytes.
        if self.block:
            self.block[before : self.received] = memoryview(data)[at:end]
        if self.received < self.body_size:
            return
        self.received = 0
        block, self.block = self.block, bytearray()
        parts, self.parts = self.parts, []
        if not block:
            self._arrived(b"".join(parts))
            return
        self.content = 0
        self.has_head = False
        properties = decode_properties(self.head)[1]
        self.engine.answer(properties.correlation_id, properties.content_type, block)

    def _arrived(self, body: bytes) -> None:
        method = self.content
        self.content = 0
        self.has_head = False
        if method == spec.BASIC_GET_OK:
            self.engine.finish(self.calls.popleft())
        if self.is_left:
            return
        if method == spec.BASIC_DELIVER or method == spec.BASIC_GET_OK:
            self.on_message(body)
        elif method == spec.BASIC_RETURN:
            args = decode_method(self.envelope).args
            reason = without_name(str(args["reply_text"]))
            self.on_return(str(args["exchange"]), str(args["routing_key"]), body, reason)

    def _method(self, method: Method, payload: bytes) -> None:
        method_id = method.id
        if method_id == spec.BASIC_RETURN:
            self.envelope = payload
            self.content = spec.BASIC_RETURN
        elif method_id == spec.CHANNEL_FLOW:
            active = bool(method.args["active"])
            self.write(spec.CHANNEL_FLOW_OK, {"active": active})
            self.engine.wake_output()
            if not self.is_left:
                self.on_flow(active)
        elif method_id == spec.CHANNEL_CLOSE:
            args = method.args
            self.closed_for = cast(int, args["class_id"]) << 16 | cast(int, args["method_id"])
            self._closed_by_broker(cast(int, args["reply_code"]), str(args["reply_text"]))
        elif method_id == spec.CHANNEL_CLOSE_OK:
            self.is_closed = True
            self.channels.by_number.pop(self.number, None)
        elif method_id == spec.BASIC_CANCEL:
            if not self.is_left:
                self.on_cancel(str(method.args["consumer_tag"]))
        elif method_id == spec.BASIC_GET_OK and self.calls and method_id in self.calls[0].expected:
            # Read as a delivery; the call ends with the content.
            names = ("delivery_tag", "redelivered", "exchange", "routing_key")
            fields = {name: method.args[name] for name in names}
            self.envelope = method_frame(self.number, spec.BASIC_DELIVER, consumer_tag="", **fields)[7:-1]
            tag = cast(int, fields["delivery_tag"])
            if not 1 <= tag < 1 << 63:
                raise CodecError("a delivery tag that no broker counts to")
            self.tag = tag
            self.content = spec.BASIC_GET_OK
        elif self.calls and method_id in self.calls[0].expected:
            call = self.calls.popleft()
            call.value = method.args
            self.engine.finish(call)
            self.on_answer(method)
        elif not self.calls and (self.is_left or not self.is_strict):
            return  # An answer to a request from before the close of the channel.
        else:
            due = self.calls[0].what if self.calls else "nothing"
            raise CodecError(f"{method.name} came where an answer to {due} was due")

    def _closed_by_broker(self, code: int, text: str) -> None:
        was_left, self.is_left = self.is_left, True
        self.is_closed = True
        engine = self.engine
        self.channels.by_number.pop(self.number, None)
        self.write(spec.CHANNEL_CLOSE_OK, {})
        engine.wake_output()
        error = ChannelClosed(code, text)
        calls, self.calls = self.calls, deque()
        for call in calls:
            engine.finish(call, error)
        if not was_left:
            self.on_close(error)
