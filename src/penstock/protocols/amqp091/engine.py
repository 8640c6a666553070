"""AMQP 0-9-1 engine of a connection: negotiation, channels, errors and close. Bytes in, bytes out.

Theory of operation. A connection passes through `HEADER` (protocol header), `START` (authentication), `TUNE` (limits)
and `OPEN` (virtual host) to `RUNNING` (connections/connection_state.py). A method that its state does not expect
closes the connection with 503.

An error closes the smallest scope that the specification allows: `BrokerError.closes` names it. After channel.close,
frames of that channel are ignored until close-ok.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.audit_trail import audit_refusal
from penstock.connections.authorization import check_route
from penstock.connections.client_profiles import UNKNOWN, Profile
from penstock.connections.client_session import SESSION_OPEN, SessionEngine, SessionState
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState, TeardownState
from penstock.connections.engine import Agreement, Protocol, ProtocolEngine
from penstock.core.message_format import MessageFormat
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, NotImplementedHere
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091 import methods
from penstock.protocols.amqp091.blocked_notice import BlockedNotice
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.frame_reader import FrameReader
from penstock.protocols.amqp091.login_frames import frame_octets, vhosts_of
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp091.methods import Malformed, channel_method, connection_method
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, decode_method, method_frame, short_text

NAME: Final = "AMQP 0-9-1"


class Amqp091(Protocol):
    """AMQP 0-9-1 with RabbitMQ's extensions."""

    name = NAME

    @override
    def accepts(self, start: bytes) -> bool:
        return methods.PROTOCOL_HEADER.startswith(start)

    @override
    def engine(self, connection: Connection) -> ProtocolEngine:
        return Amqp091Engine(connection)

    @override
    def message_format(self) -> MessageFormat:
        return Amqp091Format()

    @override
    def header(self) -> bytes:
        return methods.PROTOCOL_HEADER


class Amqp091Engine(SessionEngine[Channel]):
    """AMQP 0-9-1 side of one connection."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.frame_max: i64 = self.limits.start.initial_frame_max
        self.channel_max: int = self.limits.start.channel_max
        self.heartbeat_s: int = 0
        """Agreed seconds between heartbeats; 0 disables them."""
        self.reader = FrameReader(connection)
        self.profile: Profile = UNKNOWN
        """Profile of the client library."""
        self.capabilities: dict[str, object] = {}
        self.notice: BlockedNotice | None = None
        self.has_asked: bool = False
        """True once it has asked for a message (basic.get): it may ask again at any time, as a consumer."""

    # Input

    @override
    def read(self, data: bytes) -> i64:
        pos: i64 = 0
        if self.connection.state is ConnectionState.HEADER:
            methods.start(self)
            pos = len(methods.PROTOCOL_HEADER)
        return self.reader.read(self, data, pos)

    @override
    def forget_input(self) -> None:
        self.reader.forget_input()

    # Login in one process, and service in another

    @override
    def next_unit(self, data: bytes) -> int:
        return frame_octets(data)

    @override
    def vhosts_of(self, unit: bytes) -> list[str]:
        return vhosts_of(unit)

    @override
    def agreement(self) -> Agreement:
        announced = "capabilities" in self.connection.peer.properties
        capabilities = {name: value is True for name, value in self.capabilities.items()} if announced else None
        return Agreement(int(self.frame_max), self.channel_max, self.heartbeat_s, capabilities)

    @override
    def resume(self, agreement: Agreement) -> None:
        self.frame_max = agreement.frame_max
        self.channel_max = agreement.channel_max
        self.heartbeat_s = agreement.heartbeat_s
        methods.recognize(self, agreement.capabilities)

    # True once the client has sent basic.get: like a consumer, it may ask for messages at any time.

    def send(self, number: i64, method: int, args: dict[str, object]) -> None:
        """Write a method frame."""
        self.out.write(method_frame(int(number), method, **args))
        self.connection.request_flush()

    @override
    def renew_output(self) -> None:
        super().renew_output()
        for channel in self.channels.values():
            if channel.large is None:
                channel.out = self.out

    @override
    def on_output_taken(self) -> None:
        if self.notice is not None:
            self.notice.on_taken()

    def output_delay(self, now: float) -> float:
        """See `ProtocolEngine.output_delay`: output that is only a notice waits."""
        return 0.0 if self.notice is None else self.notice.delay_s(now)

    @override
    def take_urgent(self) -> bytes:
        notice = b"" if self.notice is None else self.notice.take()
        return notice if self.idle is None else self.idle.take() + notice

    @override
    def update_blocked(self) -> None:
        if self.notice is None and self.connection.reported_blocks > 0:
            self.notice = BlockedNotice(self)
        if self.notice is not None:
            self.notice.update()

    @override
    def may_be_silent(self) -> bool:
        return self.notice is not None and self.notice.stops_client()

    def review_use(self) -> None:
        """Apply a change in the use of the connection: it began or ceased to consume, or to wait for outcomes.

        A consuming client that stops writing while it is blocked gets connection.unblocked before its first delivery.
        """
        self.connection.review_hold_bound()
        self.update_blocked()

    def publishes_unconfirmed(self) -> bool:
        """Return whether the client does nothing but publish, and none of its channels has confirms."""
        if not self.connection.publishes_only():
            return False
        return not any(channel.producer.confirming for channel in self.channels.values())

    # Descriptions for operators

    @override
    def details(self) -> dict[str, object]:
        return {
            "protocol": NAME,
            "channel_max": self.channel_max,
            "frame_max": int(self.frame_max),
            "timeout": self.heartbeat_s,
        }

    @override
    def needs_small_receive_buffer(self) -> bool:
        return self.profile.small_receive_buffer

    # Routes and frames, for the frame reader

    def frame_bound(self) -> str:
        """Return the largest frame that is accepted now, with the reason, for an error."""
        state = self.connection.state
        if state <= ConnectionState.TUNE or state is ConnectionState.REFUSED:
            return f"the {self.frame_max} bytes that it may have before connection.tune-ok"
        return f"the agreed frame_max of {self.frame_max}"

    def route_of(self, channel: Channel, payload: bytes) -> Route:
        """Return the route that the payload of a basic.publish names. Raises BrokerError."""
        method = self._decode(payload)
        if arg.flag(method.args, "immediate"):
            raise NotImplementedHere("immediate=true")
        route = channel.vhost.route(
            arg.text(method.args, "exchange"), arg.text(method.args, "routing_key"), arg.flag(method.args, "mandatory")
        )
        check_route(self.connection.access, channel.vhost, route)
        channel.vhost.resolve(route, {})
        return route

    def control_request(self, channel: Channel, route: Route, content: bytes) -> None:
        """Pass a publish to the control exchange on to the control API."""
        declared = self.broker.durable_changes.durable_declarations
        self.services.control_request(channel.vhost, self.connection, route.envelope.routing_key, content)
        self.connection.output.await_change(declared)

    # Methods

    def on_method(self, number: int, payload: bytes) -> None:
        """Handle a method that is neither a publish nor a plain acknowledgement."""
        declared = self.broker.durable_changes.durable_declarations
        try:
            method = self._decode(payload)
            if number == 0:
                connection_method(self, method)
            else:
                channel_method(self, number, method)
        except BrokerError as error:
            self.on_error(number, error, int.from_bytes(payload[:4], "big"))
        if len(self.out) > 0:
            self.connection.output.await_change(declared)

    def _decode(self, payload: bytes) -> Method:
        try:
            return decode_method(payload)
        except CodecError as error:
            raise Malformed(error) from None

    # Errors and ends

    def on_error(self, number: int, error: BrokerError, method: int = 0) -> None:
        """Close the channel or the connection that the error concerns, and send the peer the reason.

        `method` is the method at fault; 0 if none is.
        """
        audit_refusal(self.connection, spec.METHODS[method].name if method in spec.METHODS else "", error)
        if self.connection.teardown is not TeardownState.NONE:
            return  # The channel is already being torn down.
        if error.closes == "channel" and number in self.channels:
            channel = self.channels[number]
            if channel.state == SESSION_OPEN:
                self.services.log_request_refused(self.connection, channel.name, error)
                channel.tear_down(SessionState.CLOSE_SENT)
                channel.send(spec.CHANNEL_CLOSE, _close_arguments(error, method))
            return
        self._close(error, method)

    @override
    def close(self, error: BrokerError) -> None:
        self._close(error, 0)

    def _close(self, error: BrokerError, method: int) -> None:
        arguments = _close_arguments(error, method)
        if self.connection.start_closing(f"{arguments['reply_code']} {error.reply_text}", error):
            self.send(0, spec.CONNECTION_CLOSE, arguments)

    @override
    def on_login(self, accepted: bool) -> None:
        if accepted:
            methods.accept_login(self)
        else:
            methods.refuse_login(self)

    @override
    def answer_close(self) -> None:
        self.send(0, spec.CONNECTION_CLOSE_OK, {})

    @override
    def on_disconnect(self) -> None:
        super().on_disconnect()
        if self.notice is not None:
            self.notice.end()
        self.notice = None
        for channel in self.channels.values():
            if channel.large is not None:
                channel.large.end()


def _close_arguments(error: BrokerError, method: int) -> dict[str, object]:
    """Return the arguments of a close.

    `method` is the method at fault (class << 16 | method), 0 if no method is at fault.
    """
    return {
        "reply_code": error.code,
        "reply_text": short_text(error.reply_text),
        "class_id": method >> 16,
        "method_id": method & 0xFFFF,
    }
