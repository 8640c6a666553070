"""Connection of AMQP 0-9-1: login, frames, declarations and control requests."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, cast

from librt.strings import read_i32_be
from mypy_extensions import i64

from penstock.client.engine.amqp091.channel import CHANNEL_MAX, FRAME_MAX, Channel, Channels
from penstock.client.engine.amqp091.publisher import EXACT_FLOW, Publisher091
from penstock.client.engine.amqp091.receiver import Receiver091
from penstock.client.engine.amqp091.requester import Requester091
from penstock.client.engine.connection import CLOSING, CONTROL_EXCHANGE, OPENING, REPLY_QUEUE, UPDATE_SECRET, Engine
from penstock.client.engine.requester import Requester
from penstock.client.engine.terms import ConnectionTerms, PublisherTerms, ReceiverTerms
from penstock.client.engine.waits import Call
from penstock.client.errors import (
    FIRST_STEP,
    ChannelClosed,
    ClientError,
    ConnectError,
    ConnectionClosed,
    LoginRefused,
    WrongProtocol,
    why_closed,
)
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.version import VERSION
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import decode_properties, encode_header
from penstock.wire.sasl import SaslError, plain_response

COMMIT_RETRY: Final = "penstock.tx_commit_retry"
"""Capability of a client that may commit again: basic.nack is the answer to a commit without room at its deadline."""
CAPABILITIES: Final[dict[str, object]] = {
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "publisher_confirms": True,
    "authentication_failure_close": True,
    "channel.flow": True,
    EXACT_FLOW: True,
    COMMIT_RETRY: True,
}
REPLIES: Final = "amq.penstock.replies"
"""Name for a queue of answers: the broker replaces it by a name of its own, and needs no permission."""
_HEARTBEAT: Final = frame(spec.FRAME_HEARTBEAT, 0, b"")
_REFUSED: Final = (int(spec.ReplyCode.ACCESS_REFUSED), int(spec.ReplyCode.NOT_ALLOWED))

CALLS: Final[dict[str, tuple[int, int]]] = {
    "queue.declare": (spec.QUEUE_DECLARE, spec.QUEUE_DECLARE_OK),
    "queue.delete": (spec.QUEUE_DELETE, spec.QUEUE_DELETE_OK),
    "queue.purge": (spec.QUEUE_PURGE, spec.QUEUE_PURGE_OK),
    "queue.bind": (spec.QUEUE_BIND, spec.QUEUE_BIND_OK),
    "queue.unbind": (spec.QUEUE_UNBIND, spec.QUEUE_UNBIND_OK),
    "exchange.declare": (spec.EXCHANGE_DECLARE, spec.EXCHANGE_DECLARE_OK),
    "exchange.delete": (spec.EXCHANGE_DELETE, spec.EXCHANGE_DELETE_OK),
    "exchange.bind": (spec.EXCHANGE_BIND, spec.EXCHANGE_BIND_OK),
    "exchange.unbind": (spec.EXCHANGE_UNBIND, spec.EXCHANGE_UNBIND_OK),
}
"""Methods of declarations, and their answers."""


class Engine091(Engine):
    """Connection of AMQP 0-9-1."""

    protocol = "amqp091"

    def __init__(self, terms: ConnectionTerms) -> None:
        super().__init__(terms)
        self.channels = Channels(self)
        self.step: str = FIRST_STEP
        """Expected answer of the login."""
        self.has_heard: bool = False
        self.pieces: list[bytes] = []
        """Input that begins with an incomplete frame; empty unless the number of missing bytes is known."""
        self.missing: i64 = 0
        """Missing bytes of that frame."""
        self.declarations: DeclarationChannel | None = None
        """Channel of declarations; None until there is one."""
        self.to_declare: deque[tuple[Call, int, dict[str, Any]]] = deque()
        """Declarations (methods with arguments) that wait for the previous one, because a refusal closes the
        channel.
        """
        self.control: ControlChannel | None = None
        """Channel of control requests."""

    # Transport

    @override
    def reset(self) -> None:
        self.channels.reset()
        self.step = FIRST_STEP
        self.has_heard = False
        self.pieces = []
        self.declarations = None
        self.to_declare.clear()
        self.control = None
        self.out.write(spec.PROTOCOL_HEADER)

    @override
    def read(self, data: bytes) -> None:
        if self.pieces:
            self.pieces.append(data)
            self.missing -= len(data)
            if self.missing > 0:
                return
            data = b"".join(self.pieces)
            self.pieces = []
        elif self.rest:
            data = self.rest + data
        if not self.has_heard:
            if data[:1] != b"\x01":
                self._refuse_server(data, WrongProtocol)
                return
            self.has_heard = True
        pos: i64 = 0
        n: i64 = len(data)
        self.missing = 0
        number: i64 = -1
        channel: Channel | None = None
        try:
            while n - pos >= 8:
                size = i64(read_i32_be(data, pos + 3))
                if size < 0 or size > self.channels.frame_max:
                    raise CodecError(f"a frame of {size} bytes is larger than {self.channels.frame_max}")
                end = pos + 7 + size
                if end >= n:
                    self.missing = end + 1 - n
                    break
                if data[end] != spec.FRAME_END:
                    raise CodecError("a frame without its end mark")
                kind = data[pos]
                of: i64 = (data[pos + 1] << 8) | data[pos + 2]
                if of == 0:
                    self._take(kind, data[pos + 7 : end])
                else:
                    if of != number:
                        number = of
                        channel = self.channels.by_number.get(int(of))
                    if channel is not None and not channel.is_closed:
                        channel.take(kind, data, pos + 7, end)
                pos = end + 1
                if self.fault is not None:
                    return
        except CodecError as error:
            self.break_off(ConnectionClosed(int(error.code), f"the broker broke the protocol: {error.reason}"))
            return
        self.rest = data[pos:]
        if self.missing > 0:
            self.pieces = [self.rest]

    @override
    def write_heartbeat(self) -> None:
        self.out.write(_HEARTBEAT)
        self.wake_output()

    @override
    def write_close(self) -> None:
        self.out.write(method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="goodbye"))

    @override
    def lose(self, error: ClientError, again: bool, now: float) -> None:
        if self.phase == OPENING and type(error) is ConnectionClosed:
            error = self._login_error(error)
            again = again and not isinstance(error, LoginRefused)
        super().lose(error, again, now)

    def _login_error(self, error: ConnectionClosed) -> ConnectError:
        terms = self.terms
        text = why_closed(terms.user, self.step, error.code, error.text, is_encrypted=terms.is_encrypted)
        kind = LoginRefused if error.code in _REFUSED else ConnectError
        return kind(terms.host, terms.port, text)

    # Channel 0

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == spec.FRAME_HEARTBEAT:
            return
        if kind != spec.FRAME_METHOD:
            raise CodecError(f"a frame of kind {kind} on channel 0")
        method = decode_method(payload)
        method_id = method.id
        if method_id == spec.CONNECTION_START:
            self._start(method)
        elif method_id == spec.CONNECTION_TUNE:
            self._tune(method)
        elif method_id == spec.CONNECTION_OPEN_OK:
            self.note_open()
        elif method_id == spec.CONNECTION_BLOCKED:
            self.block(str(method.args["reason"]) or "it gave no reason")
        elif method_id == spec.CONNECTION_UNBLOCKED:
            self.block("")
        elif method_id == spec.CONNECTION_CLOSE:
            self.out.write(method_frame(0, spec.CONNECTION_CLOSE_OK))
            self.break_off(ConnectionClosed(cast(int, method.args["reply_code"]), str(method.args["reply_text"])))
        elif method_id == spec.CONNECTION_CLOSE_OK and self.phase == CLOSING:
            for call in self.calls:
                self.finish(call)
            self.calls.clear()
        elif method_id == spec.CONNECTION_UPDATE_SECRET_OK:
            for call in [call for call in self.calls if call.what == UPDATE_SECRET][:1]:
                self.calls.remove(call)
                self.finish(call)
        else:
            raise CodecError(f"{method.name} on channel 0")

    def _start(self, method: Method) -> None:
        terms = self.terms
        offered = cast(bytes, method.args["mechanisms"]).decode(errors="replace").split()
        self.server = cast("dict[str, object]", method.args["server_properties"])
        mechanism = terms.mechanism or "PLAIN"
        if mechanism not in ("PLAIN", "EXTERNAL"):  # A server that offers this mechanism would receive the password.
            text = f"{mechanism} is for AMQP 1.0; over AMQP 0-9-1 a login is by PLAIN or EXTERNAL"
            self.break_off(LoginRefused(terms.host, terms.port, text))
            return
        if mechanism not in offered:
            text = f"the broker offers only {' '.join(offered)}, and {mechanism} is needed"
            self.break_off(LoginRefused(terms.host, terms.port, text))
            return
        try:
            response = b"" if mechanism == "EXTERNAL" else plain_response(terms.user, terms.password)
        except SaslError as error:
            self.break_off(LoginRefused(terms.host, terms.port, str(error)))
            return
        properties: dict[str, object] = {
            "product": terms.product,
            "version": VERSION,
            "platform": "Python",
            "capabilities": CAPABILITIES,
        }
        if terms.name:
            properties["connection_name"] = terms.name
        if terms.query:
            properties["penstock_query"] = terms.query
        self.step = f"an answer to the credentials of {terms.user}"
        self.out.write(
            method_frame(
                0,
                spec.CONNECTION_START_OK,
                client_properties=properties,
                mechanism=mechanism,
                response=response,
                locale="en_US",
            )
        )
        self.wake_output()

    def _tune(self, method: Method) -> None:
        terms, args = self.terms, method.args
        frame_max = cast(int, args["frame_max"]) or FRAME_MAX
        channel_max = min(cast(int, args["channel_max"]) or CHANNEL_MAX, CHANNEL_MAX)
        self.channels.limit(channel_max, frame_max)
        if frame_max < spec.FRAME_MIN_SIZE:
            raise CodecError(f"it accepts frames of {frame_max} bytes; at least {spec.FRAME_MIN_SIZE} are due")
        offered = cast(int, args["heartbeat"])
        heartbeat = round(min(terms.heartbeat, float(offered)) or terms.heartbeat)
        if terms.heartbeat > 0:
            heartbeat = max(heartbeat, 1)
        self.step = f"the virtual host {terms.virtual_host}"
        self.out.write(
            method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        )
        self.out.write(method_frame(0, spec.CONNECTION_OPEN, virtual_host=terms.virtual_host))
        self.heart.start(float(heartbeat), 2.0 * heartbeat)
        self.wake_output()

    # Links

    @override
    def new_publisher(self, terms: PublisherTerms) -> Publisher091:
        return Publisher091(self, self.channels, terms)

    @override
    def new_receiver(self, terms: ReceiverTerms) -> Receiver091:
        return Receiver091(self, self.channels, terms)

    @override
    def requester(self, exchange: str, key: str) -> Requester:
        return Requester091(self.channels, exchange, key)

    # Declarations

    @override
    def call(self, name: str, arguments: dict[str, Any]) -> Call:
        if name == UPDATE_SECRET:
            return self._update_secret(str(arguments["new_secret"]))
        method, answer = CALLS[name]
        call = Call(name, (answer,))
        self.to_declare.append((call, method, arguments))
        self.calls.append(call)
        if len(self.to_declare) == 1:
            self._declare_next()
        return call

    def _update_secret(self, secret: str) -> Call:
        call = Call(UPDATE_SECRET)
        self.calls.append(call)
        self.out.write(method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=secret.encode(), reason="renewed"))
        self.wake_output()
        return call

    def _declare_next(self) -> None:
        if not self.to_declare:
            return
        channel = self.declarations
        if channel is None or channel.is_closed:
            channel = self.declarations = DeclarationChannel(self)
        call, method, arguments = self.to_declare[0]
        try:
            channel.write(method, arguments)
        except CodecError as error:
            self.finish(call, ClientError(f"{call.what}: {error.reason}"))
            self.declared()
            return
        channel.expect(call)
        self.wake_output()

    def declared(self) -> None:
        """Continue with the next declaration, because the first is answered."""
        if self.to_declare:
            call = self.to_declare.popleft()[0]
            if call in self.calls:
                self.calls.remove(call)
        self._declare_next()

    # Control requests

    @override
    def send_request(self, operation: str, kind: str, body: bytes, number: str) -> None:
        channel = self.control
        if channel is None or channel.is_left:
            channel = self.control = ControlChannel(self.channels)
        channel.request(operation, kind, body, number)

    @override
    def is_sent(self, call: Call) -> bool:
        return self.control is None or all(number != call.number for _, _, _, number in self.control.waiting)


class ControlChannel(Channel):
    """Channel of control requests, with the queue of their answers."""

    def __init__(self, channels: Channels) -> None:
        super().__init__(channels, is_for_control=True)
        self.reply_to: str = ""
        """Name of the queue of answers; empty until the broker has created it."""
        self.waiting: list[tuple[str, str, bytes, str]] = []
        """Requests that wait for the queue."""
        self.expect(Call("the queue of answers", (spec.QUEUE_DECLARE_OK,)))
        self.write(
            spec.QUEUE_DECLARE, {"queue": REPLIES, "exclusive": True, "auto_delete": True, "arguments": REPLY_QUEUE}
        )

    def request(self, operation: str, kind: str, body: bytes, number: str) -> None:
        """Write a request, now or as soon as the queue of answers exists."""
        if not self.reply_to:
            self.waiting.append((operation, kind, body, number))
            return
        properties = Properties(content_type=kind, reply_to=self.reply_to, correlation_id=number)
        self.write(spec.BASIC_PUBLISH, {"exchange": CONTROL_EXCHANGE, "routing_key": operation})
        self.write_content(body, encode_header(len(body), properties))

    @override
    def on_answer(self, method: Method) -> None:
        if method.id != spec.QUEUE_DECLARE_OK:
            return
        self.reply_to = str(method.args["queue"])
        self.expect(Call("the answers", (spec.BASIC_CONSUME_OK,)))
        self.write(spec.BASIC_CONSUME, {"queue": self.reply_to, "no_ack": True, "exclusive": True})
        waiting, self.waiting = self.waiting, []
        for operation, kind, body, number in waiting:
            self.request(operation, kind, body, number)
        self.engine.wake_output()

    @override
    def on_message(self, body: bytes) -> None:
        properties = decode_properties(self.head)[1]
        self.engine.answer(properties.correlation_id, properties.content_type, body)

    @override
    def on_cancel(self, tag: str) -> None:
        self.close()
        self.on_close(ChannelClosed(None, "the queue of the answers was deleted"))

    @override
    def on_close(self, error: ChannelClosed) -> None:
        self.waiting.clear()
        self.engine._fail_requests(error)


class DeclarationChannel(Channel):
    """Channel of declarations, one after the other."""

    def __init__(self, engine: Engine091) -> None:
        super().__init__(engine.channels)
        self.connection = engine

    @override
    def on_answer(self, method: Method) -> None:
        if method.id != spec.CHANNEL_OPEN_OK:
            self.connection.declared()

    @override
    def on_close(self, error: ChannelClosed) -> None:
        self.connection.declared()
