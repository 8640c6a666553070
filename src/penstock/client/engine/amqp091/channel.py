"""Channel of AMQP 0-9-1: methods, content, and the end; what it is for decides who gets them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from librt.strings import read_i32_be, read_i64_be, write_i32_be
from mypy_extensions import i32, i64

from penstock.client.engine.outcomes import CONFIRMED, REFUSED
from penstock.client.engine.waits import Call
from penstock.client.errors import ChannelClosed, LinkClosed, ReceiverClosed, without_name
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import (
    CodecError,
    Method,
    decode_method,
    decode_properties,
    frame,
    method_frame,
)

if TYPE_CHECKING:
    from penstock.client.engine.amqp091.connection import Engine091, Requester091
    from penstock.client.engine.amqp091.publisher import Publisher091
    from penstock.client.engine.amqp091.receiver import Receiver091
    from penstock.client.engine.amqp091.transaction import Transaction091

BODY_MAX: Final = 1 << 30
"""Largest body in octets that is taken."""
BLOCK_MAX: Final = 64 * 1024 * 1024
"""Most octets of an answer that are allocated when its first frame has come."""


class Channel:
    """Channel of a publisher, of a receiver, of a transaction, of declarations or of control requests."""

    def __init__(self, engine: Engine091, number: int) -> None:
        self.engine = engine
        self.number: int = number
        self.is_closed: bool = False
        self.publisher: Publisher091 | None = None
        self.receiver: Receiver091 | None = None
        self.requester: Requester091 | None = None
        self.transaction: Transaction091 | None = None
        self.is_for_declarations: bool = False
        self.is_for_control: bool = False
        self.calls: deque[Call] = deque()
        """Requests without an answer, in order."""
        self.content: i64 = 0
        """Method that the content belongs to which is coming; 0 for none."""
        self.envelope: bytes = b""
        self.tag: i64 = 0
        self.head: bytes = b""
        self.has_head: bool = False
        self.body_size: i64 = 0
        self.parts: list[bytes] = []
        """Frames of a body that is coming."""
        self.block: bytearray = bytearray()
        """Answer to a control request that is coming in several frames; empty without one."""
        self.received: i64 = 0

    def write(self, method: int, arguments: dict[str, Any]) -> None:
        """Write a method. Raises CodecError for an argument that it cannot carry."""
        self.engine.out.write(method_frame(self.number, method, **arguments))

    def write_content(self, body: bytes, header: bytes) -> None:
        """Write header and body of a message, after its basic.publish."""
        out = self.engine.out
        out.write(frame(spec.FRAME_HEADER, self.number, header))
        head = bytes([spec.FRAME_BODY]) + self.number.to_bytes(2, "big")
        step = int(self.engine.frame_max) - spec.FRAME_OVERHEAD
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
        if not self.is_closed:
            self.write(spec.CHANNEL_CLOSE, {"reply_code": 200, "reply_text": "goodbye"})
            self.calls.clear()
            self.publisher = None
            self.receiver = None
            self.transaction = None
            self.engine.wake_output()

    # Input

    def take(self, kind: int, data: bytes, at: i64, end: i64) -> None:
        """Take a frame's payload from `at` to `end`. Raises CodecError if the protocol does not allow it here."""
        if kind == spec.FRAME_BODY:
            self._body(data, at, end)
        elif kind == spec.FRAME_HEADER:
            if self.content == 0 or self.has_head or end - at < 14:
                raise CodecError("a content header where none was due")
            self.body_size = read_i64_be(data, at + 4)
            if self.body_size < 0 or self.body_size > BODY_MAX:
                raise CodecError(f"a body of {self.body_size} octets is larger than {BODY_MAX}")
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
                self.envelope = data[at:end]
                self.content = method
            elif (method == spec.BASIC_ACK or method == spec.BASIC_NACK) and end - at == 13:
                publisher = self.publisher
                tag = read_i64_be(data, at + 4)
                is_multiple = data[at + 12] & 1 == 1
                if publisher is not None:
                    outcome: i64 = CONFIRMED if method == spec.BASIC_ACK else REFUSED
                    publisher.answered(tag, outcome, is_multiple)
                elif self.requester is not None:
                    self.requester.settled(tag, method == spec.BASIC_NACK, is_multiple)
                elif self.transaction is not None:
                    self.transaction.refused()
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
            self.block = bytearray(self.body_size)  # Each octet is copied once: a block has megabytes.
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
        if method == spec.BASIC_DELIVER or method == spec.BASIC_GET_OK:
            receiver = self.receiver
            if self.transaction is not None:
                receiver = self.transaction.receiver_of(str(decode_method(self.envelope).args["consumer_tag"]))
            if receiver is not None:
                receiver.delivered(self.tag, body, self.head, self.envelope)
            elif self.is_for_control:
                properties = decode_properties(self.head)[1]
                self.engine.answer(properties.correlation_id, properties.content_type, body)
            elif self.requester is not None:
                properties = decode_properties(self.head)[1]
                self.requester.answered(properties.correlation_id, body, properties)
        elif method == spec.BASIC_RETURN:
            args = decode_method(self.envelope).args
            exchange, key = str(args["exchange"]), str(args["routing_key"])
            reason = without_name(str(args["reply_text"]))
            if self.publisher is not None:
                self.publisher.returned(exchange, key, body, reason)
            elif self.requester is not None:
                self.requester.refused(decode_properties(self.head)[1].correlation_id, reason)
            elif self.transaction is not None:
                self.transaction.returned(exchange, key, body, reason)

    def _method(self, method: Method, payload: bytes) -> None:
        method_id = method.id
        if method_id == spec.BASIC_RETURN:
            self.envelope = payload
            self.content = spec.BASIC_RETURN
        elif method_id == spec.CHANNEL_FLOW:
            active = bool(method.args["active"])
            self.write(spec.CHANNEL_FLOW_OK, {"active": active})
            self.engine.wake_output()
            if self.publisher is not None:
                self.publisher.flow(active)
            elif self.requester is not None:
                self.requester.flow(active)
            elif self.transaction is not None:
                self.transaction.flow(active)
        elif method_id == spec.CHANNEL_CLOSE:
            self._closed_by_broker(cast(int, method.args["reply_code"]), str(method.args["reply_text"]))
        elif method_id == spec.CHANNEL_CLOSE_OK:
            self.is_closed = True
            self.engine.channels.pop(self.number, None)
        elif method_id == spec.BASIC_CANCEL:
            receiver = self.receiver
            if self.transaction is not None:
                receiver = self.transaction.receiver_of(str(method.args["consumer_tag"]))
            if receiver is not None:
                receiver.cancelled()
            elif self.is_for_control:
                self.close()
                self.engine.lost_control(ChannelClosed(None, "the queue of the answers was deleted"))
        elif method_id == spec.BASIC_GET_OK and self.calls and method_id in self.calls[0].expected:
            # Read on as a delivery; its call ends with the content.
            names = ("delivery_tag", "redelivered", "exchange", "routing_key")
            fields = {name: method.args[name] for name in names}
            self.envelope = method_frame(self.number, spec.BASIC_DELIVER, consumer_tag="", **fields)[7:-1]
            self.tag = cast(int, fields["delivery_tag"])
            self.content = spec.BASIC_GET_OK
        elif self.calls and method_id in self.calls[0].expected:
            call = self.calls.popleft()
            call.value = method.args
            self.engine.finish(call)
            if self.is_for_declarations and method_id != spec.CHANNEL_OPEN_OK:
                self.engine.declared()
            elif self.is_for_control and method_id == spec.QUEUE_DECLARE_OK:
                self.engine.has_replies(self, str(method.args["queue"]))
        elif not self.calls and self.publisher is None and self.receiver is None and self.transaction is None:
            return  # An answer to what was asked before the channel was closed.
        else:
            due = self.calls[0].what if self.calls else "nothing"
            raise CodecError(f"{method.name} came where an answer to {due} was due")

    def _closed_by_broker(self, code: int, text: str) -> None:
        self.is_closed = True
        engine = self.engine
        engine.channels.pop(self.number, None)
        self.write(spec.CHANNEL_CLOSE_OK, {})
        engine.wake_output()
        error = ChannelClosed(code, text)
        calls, self.calls = self.calls, deque()
        for call in calls:
            engine.finish(call, error)
        if self.publisher is not None:
            self.publisher.end(LinkClosed(code, text), without_name(text))
        elif self.receiver is not None:
            self.receiver.end(ReceiverClosed(code, text))
        elif self.requester is not None:
            self.requester.fail(error)
        elif self.transaction is not None:
            self.transaction.fail(without_name(text))
        elif self.is_for_declarations:
            engine.declared()
        elif self.is_for_control:
            engine.lost_control(error)
