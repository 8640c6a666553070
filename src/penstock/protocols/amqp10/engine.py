"""AMQP 1.0 engine of a connection: its frame reader, headers, SASL, open and close. Bytes in, bytes out.

Theory of operation. A connection passes through `HEADER` (SASL header), `START` (SASL frames), `TUNE` (AMQP header) and
`OPEN` (open) to `RUNNING` (connections/connection_state.py). A frame that is not expected in the state closes the
connection.

An error closes the smallest scope that it concerns: a delivery gets an outcome, a link is detached, a session ended.
Errors raised here close the connection.

`FrameReader` splits input into frames, and passes transfers, flows and dispositions to their sessions in place. Other
performatives are decoded into composites. An incomplete frame waits in `Connection.unparsed`: at most one frame, whose
size max-frame-size bounds. When the client's share of a turn is used up, the rest of the input waits in
`Connection.unparsed` too.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.audit_trail import audit_refusal
from penstock.connections.client_session import SESSION_OPEN, SessionEngine, SessionState
from penstock.connections.connection import Connection
from penstock.connections.connection_output import OUTPUT_LEFT_UNREAD
from penstock.connections.connection_state import ConnectionState
from penstock.connections.engine import Protocol, ProtocolEngine
from penstock.core.message_format import MessageFormat
from penstock.errors import BrokerError, CommandInvalid, FrameError, ResourceError
from penstock.protocols.amqp10 import opening
from penstock.protocols.amqp10.attach import on_attach
from penstock.protocols.amqp10.endpoint import Endpoint, FrameParts, SharedParts
from penstock.protocols.amqp10.error_scopes import MalformedPerformative
from penstock.protocols.amqp10.login_frames import frame_octets, vhosts_of
from penstock.protocols.amqp10.malformed import OF_SESSION, on_malformed
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.protocols.amqp10.sasl_layer import SaslLayer
from penstock.protocols.amqp10.session import HANDLE_MAX, AmqpSession
from penstock.wire.amqp10.composite import Composite, decode_performative
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.frames import (
    AMQP_HEADER,
    HEADER_OCTETS,
    INCOMPLETE,
    SASL_HEADER,
    frame_body,
    frame_channel,
    frame_end,
    frame_kind,
    is_header,
)
from penstock.wire.amqp10.spec import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    FRAME_AMQP,
    FRAME_SASL,
    OPEN,
    TRANSFER,
)
from penstock.wire.amqp10.values import FRAMING_ERROR, CodecError

USUAL_FRAME: Final = 0x0200
"""Data offset and type of an AMQP frame without an extended header."""
DECODED_A_UNIT: Final = 8
"""Bytes of a performative with values, such as a map of unsettled deliveries, that are decoded per unit of work."""
FRAME_WORK: Final = 1
"""Units of an empty frame, of a part of a message, and of an ignored frame."""


class FrameReader:
    """Parser of the input of one connection; each call gets the engine."""

    def __init__(self, parts: FrameParts) -> None:
        self.parts = parts
        self.next: i64 = 0
        """Position after the current frame."""
        self._last_channel: i64 = ABSENT
        """Channel of the last transfer, and its session; None after the end of a session."""
        self._last_session: AmqpSession | None = None

    def frames(self, engine: Amqp10Engine, data: bytes, pos: i64) -> i64:
        """Handle every complete frame. Return the position of the first frame that must wait.

        Raises CodecError and BrokerError, which close the connection.
        """
        n: i64 = len(data)
        connection, work = engine.connection, engine.work
        running = ConnectionState.RUNNING
        largest = engine.endpoint.max_frame_size
        transfer = self.parts.transfer
        while n - pos >= 8:
            start = read_i64_be(data, pos)
            end = pos + ((start >> 32) & 0xFFFFFFFF)
            if (
                connection.state is running
                and (start >> 16) & 0xFFFF == USUAL_FRAME
                and end <= n
                and end - pos <= largest
                and transfer.read_usual(data, pos + 8, end)
            ):
                session = self._last_session
                channel = start & 0xFFFF
                if session is None or channel != self._last_channel or session.state != SESSION_OPEN:
                    session = self._session_of(engine, channel)
                if session is not None:
                    self.next = end
                    session.on_transfer(transfer, data, end)
            else:
                if connection.state is ConnectionState.TUNE:
                    return pos
                end = frame_end(data, pos, n, engine.endpoint.max_frame_size)
                if end == INCOMPLETE:
                    return pos
                self.next = end
                if not self._frame(engine, data, pos, end):
                    end = pos
                largest = engine.endpoint.max_frame_size
                if connection.is_closed():
                    return n
            pos = end
            if work.done >= work.limit or len(engine.out) > OUTPUT_LEFT_UNREAD or connection.busy > 0:
                connection.input_paused = True
                connection.request_flush()
                return pos
        return pos

    def forget_session(self) -> None:
        """Forget the session of the last transfer: a session has ended."""
        self._last_session = None

    def _session_of(self, engine: Amqp10Engine, channel: i64) -> AmqpSession | None:
        """Return the session of a transfer, and remember it for the next transfer; None if its frames are ignored.

        Raises BrokerError if the channel has no session.
        """
        session = engine.channels.get(int(channel))
        if session is None:
            session = engine.session_on(int(channel), "a frame")
        if session.state != SESSION_OPEN:
            return None
        self._last_channel = channel
        self._last_session = session
        return session

    def _frame(self, engine: Amqp10Engine, data: bytes, pos: i64, end: i64) -> bool:
        """Handle a frame. Return False if the frame must be handled again: a disposition of very many deliveries."""
        body = frame_body(data, pos)
        if frame_kind(data, pos) == FRAME_SASL or engine.sasl is not None:
            self._sasl_frame(engine, data, pos, body, end)
            return True
        if body == end:
            engine.work.done += FRAME_WORK
            return True  # An empty frame counts only as traffic (section 2.4.5).
        channel = int(frame_channel(data, pos))
        cursor = self.parts.cursor
        code = cursor.open(data, body, end)
        if code != TRANSFER and code != FLOW and code != DISPOSITION:
            engine.work.done += (end - body) // DECODED_A_UNIT
            try:
                performative = decode_performative(data, int(body), int(end))[0]
            except CodecError as malformed:
                self._on_malformed(engine, channel, int(code), data, body, end, malformed)
            else:
                engine.on_performative(channel, performative)
            return True
        if engine.connection.ignores_input():
            engine.work.done += FRAME_WORK
            return True
        if engine.connection.state is not ConnectionState.RUNNING:
            raise CommandInvalid("a frame of a session before open")
        session = self._session_of(engine, channel)
        if session is None:
            engine.work.done += FRAME_WORK
            return True
        parts = self.parts
        try:
            if code == TRANSFER:
                parts.transfer.read(cursor, data, body, end)
            elif code == DISPOSITION:
                parts.disposition.read(cursor, data, body, end)
            else:
                parts.flow.read(cursor, data, body, end)
        except CodecError as malformed:
            self._on_malformed(engine, channel, int(code), data, body, end, malformed)
            return True
        if code == TRANSFER:
            engine.work.done += FRAME_WORK
            session.on_transfer(parts.transfer, data, end)
        elif code == DISPOSITION:
            if parts.disposition.state is not None:
                engine.work.done += (end - body) // DECODED_A_UNIT
            return session.on_disposition(parts.disposition)
        else:
            session.on_flow(parts.flow)
        return True

    def _on_malformed(
        self, engine: Amqp10Engine, channel: int, code: int, data: bytes, body: i64, end: i64, malformed: CodecError
    ) -> None:
        """End the scope of a malformed performative. Raises the error if the scope is the connection."""
        session = engine.channels.get(channel)
        connection = engine.connection
        if session is None or code not in OF_SESSION or connection.state is not ConnectionState.RUNNING:
            raise malformed
        engine.work.done += CONTROL_WORK
        if session.state == SESSION_OPEN and not connection.ignores_input():
            on_malformed(session, code, data, int(body), int(end), malformed)

    def _sasl_frame(self, engine: Amqp10Engine, data: bytes, pos: i64, body: i64, end: i64) -> None:
        if engine.sasl is None or frame_kind(data, pos) == FRAME_AMQP:
            raise CodecError("a frame of the wrong type for this layer", FRAMING_ERROR)
        if body == end:
            raise CodecError("an empty SASL frame: each has exactly one performative (section 5.3.1)", FRAMING_ERROR)
        engine.sasl.on_frame(decode_performative(data, int(body), int(end))[0])


NAME: Final = "AMQP 1.0"
CONTROL_WORK: Final = 16
"""Units of work of a performative other than transfer, flow and disposition."""
COSTS: Final[dict[int, int]] = {ATTACH: 60, DETACH: 45, BEGIN: 60, END: 45}
"""Units of performatives that cost more: they create or end a session or a link.

A consumer or a node adds its own cost.
"""


class Amqp10(Protocol):
    """AMQP 1.0 (OASIS Standard, 29 October 2012)."""

    name = NAME

    def __init__(self) -> None:
        self._shared: SharedParts | None = None
        """Parts that all connections of this protocol share; None before the first connection."""

    @override
    def accepts(self, start: bytes) -> bool:
        return is_header(start)

    @override
    def engine(self, connection: Connection) -> ProtocolEngine:
        shared = self._shared
        if shared is None or shared.nodes.broker is not connection.broker:
            shared = self._shared = SharedParts(connection.broker)
        return Amqp10Engine(connection, shared)

    @override
    def message_format(self) -> MessageFormat:
        return Amqp10Format()

    @override
    def header(self) -> bytes:
        return SASL_HEADER


class Amqp10Engine(SessionEngine[AmqpSession]):
    """AMQP 1.0 side of one connection."""

    def __init__(self, connection: Connection, shared: SharedParts) -> None:
        super().__init__(connection)
        self.endpoint = Endpoint(connection, shared)
        self.reader = FrameReader(shared.frames)
        self.sasl: SaslLayer | None = None
        """SASL layer until the login is over."""
        self._open_sent: bool = False

    # Input

    @override
    def read(self, data: bytes) -> i64:
        reader = self.reader
        pos: i64 = 0
        reader.next = len(data)
        while True:
            try:
                return self._read(data, pos)
            except CodecError as malformed:
                self.close(MalformedPerformative(malformed))
                pos = len(data) if malformed.condition == FRAMING_ERROR else reader.next
            except BrokerError as error:
                self.close(error)
                pos = reader.next  # The peer's close may follow.

    def _read(self, data: bytes, pos: i64) -> i64:
        """Handle headers and frames. Return the position of the first byte that must wait.

        Raises CodecError and BrokerError, which close the connection.
        """
        reader = self.reader
        while self._expects_header() and len(data) - pos >= HEADER_OCTETS:
            reader.next = pos + HEADER_OCTETS
            self._on_header(data[pos : reader.next])
            pos = reader.next
            pos = reader.frames(self, data, pos)
        if not self._expects_header() and pos < len(data):
            pos = reader.frames(self, data, pos)
        return pos

    @override
    def next_unit(self, data: bytes) -> int:
        return HEADER_OCTETS if self._expects_header() else frame_octets(data)

    @override
    def vhosts_of(self, unit: bytes) -> list[str]:
        return vhosts_of(unit)

    def _expects_header(self) -> bool:
        state = self.connection.state
        return state is ConnectionState.HEADER or state is ConnectionState.TUNE

    def _on_header(self, header: bytes) -> None:
        connection = self.connection
        if connection.state is ConnectionState.HEADER and header in (SASL_HEADER, AMQP_HEADER):
            connection.move(ConnectionState.START)
            self.sasl = SaslLayer(self.endpoint, header == SASL_HEADER)
            self.sasl.begin()
            if header == SASL_HEADER or connection.is_closed():
                return
        if connection.state is ConnectionState.TUNE and header == AMQP_HEADER:
            self.out.write(AMQP_HEADER)
            connection.move(ConnectionState.OPEN)
            connection.request_flush()
            return
        # Other bytes are answered with the expected header (section 2.2).
        self.out.write(SASL_HEADER if connection.state is ConnectionState.HEADER else AMQP_HEADER)
        connection.end()

    # Performatives

    def on_performative(self, channel: int, performative: Composite) -> None:
        """Handle a performative other than transfer, flow and disposition. Raises BrokerError."""
        self.work.done += COSTS.get(performative.code, CONTROL_WORK)
        connection = self.connection
        declared = self.broker.durable_changes.durable_declarations
        if performative.code == CLOSE:
            self._on_close(performative)
        elif connection.ignores_input():
            return
        elif connection.state is ConnectionState.OPEN and performative.code == OPEN:
            if channel != 0:
                raise FrameError(f"open on channel {channel}; it is sent on channel 0 (section 2.4.1)")
            opening.on_open(self.endpoint, performative)
            self._open_sent = True
        elif connection.state is not ConnectionState.RUNNING:
            raise CommandInvalid(f"{performative.name} before open")
        elif performative.code == OPEN:
            raise CommandInvalid("a second open")
        elif performative.code == BEGIN:
            self._on_begin(channel, performative)
        else:
            session = self.session_on(channel, performative.name)
            if performative.code == END:
                self._on_end(session)
            elif session.state == SESSION_OPEN and performative.code == ATTACH:
                on_attach(session, performative)
            elif session.state == SESSION_OPEN:
                session.on_performative(performative)
        if len(self.out) > 0:
            connection.output.await_change(declared)

    def session_on(self, channel: int, what: str) -> AmqpSession:
        """Return the session on a channel. Raises BrokerError if the channel has no session."""
        session = self.channels.get(channel)
        if session is None:
            if channel > self.endpoint.channel_max:
                raise FrameError(f"{what} on channel {channel}; the largest is {self.endpoint.channel_max}")
            raise CommandInvalid(f"{what} on channel {channel}, which has no session")
        return session

    def _on_begin(self, channel: int, begin: Composite) -> None:
        if channel > self.endpoint.channel_max:
            raise FrameError(f"begin on channel {channel}; the largest is {self.endpoint.channel_max}")
        if channel in self.channels:
            raise CommandInvalid(f"begin on channel {channel}, which has a session already")
        if begin.number("remote_channel") >= 0:
            raise CommandInvalid("begin with a remote-channel: this broker begins no sessions")
        self.services.open_connections.check_channels(self.connection)
        session = AmqpSession(self, self.endpoint, channel, begin)
        self.channels[channel] = session
        if self.connection.vhost is not None:
            self.connection.vhost.churn.channels_opened += 1
        session.send(session.windows.begin(channel, HANDLE_MAX))

    def _on_end(self, session: AmqpSession) -> None:
        self.reader.forget_session()
        if session.state == SessionState.CLOSE_SENT:
            session.forget()
        elif session.state == SESSION_OPEN:
            self.services.deliver()
            self.services.dispatch_effects()
            session.tear_down(SessionState.CLOSE_RECEIVED)

    def _on_close(self, close: Composite) -> None:
        connection = self.connection
        if self.endpoint.close_sent:
            connection.end()
            return
        if connection.state is ConnectionState.OPEN:
            raise CommandInvalid("close before open")
        connection.on_client_close()

    # Output

    @override
    def complete_output(self) -> None:
        self.endpoint.write_provisional()
        for number in self.endpoint.take_flowing():
            session = self.channels.get(number)
            if session is not None:
                session.write_flows()

    # Close

    @override
    def close(self, error: BrokerError) -> None:
        connection = self.connection
        audit_refusal(connection, "open", error)
        if connection.state <= ConnectionState.TUNE:
            if connection.start_closing(str(error), error):
                connection.end()  # No reason can be sent before the AMQP header.
            return
        if connection.start_closing(f"{error.condition}: {error}", error):
            if not self._open_sent:
                opening.write_open(self.endpoint)
            self.endpoint.send_close(error)

    @override
    def on_login(self, accepted: bool) -> None:
        if self.sasl is not None:
            self.sasl.conclude(accepted)
            if accepted:
                self.sasl = None

    @override
    def answer_close(self) -> None:
        if not self.endpoint.close_sent:
            self.endpoint.send_close()

    @override
    def write_last_outcomes(self) -> None:
        super().write_last_outcomes()
        self.endpoint.shared.suspended.on_connection_ended(self.connection.number)

    @override
    def on_disconnect(self) -> None:
        super().on_disconnect()
        self.sasl = None
        self.endpoint.shared.sole.forget(self.endpoint)
        for session in self.channels.values():
            session.writer.end()

    @override
    def on_silence(self, seconds: float) -> None:
        self.close(ResourceError(f"nothing was received for {seconds:.0f} s (idle-time-out)"))

    @override
    def has_sender_credit(self) -> bool:
        return True

    # Descriptions for operators

    @override
    def details(self) -> dict[str, object]:
        return {
            "protocol": NAME,
            "channel_max": self.endpoint.channel_max,
            "frame_max": int(self.endpoint.peer_max_frame_size),
            "timeout": 0 if self.idle is None else int(2 * self.idle.beat_s),
            "container_id": self.endpoint.container,
        }
