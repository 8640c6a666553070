"""Frame reader: splits input into frames, and hands transfers, flows and dispositions to their sessions in place.

Other performatives are decoded into composites. An incomplete frame waits in `Connection.unparsed`: at most one,
whose size max-frame-size bounds. The rest of the input waits there too when the client's share of a turn is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from penstock.errors import CommandInvalid
from penstock.protocols.common.connection_output import OUTPUT_LEFT_UNREAD
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.session import SESSION_OPEN
from penstock.wire.amqp10.composite import decode_performative
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.frames import INCOMPLETE, frame_body, frame_channel, frame_end, frame_kind
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import DISPOSITION, FLOW, FRAME_AMQP, FRAME_SASL, TRANSFER
from penstock.wire.amqp10.transfer import Disposition, Flow, Transfer
from penstock.wire.amqp10.values import FRAMING_ERROR, CodecError

if TYPE_CHECKING:
    from penstock.protocols.amqp10.engine import Amqp10Engine
    from penstock.protocols.amqp10.session import AmqpSession

USUAL_FRAME: Final = 0x0200
"""Data offset and type of an AMQP frame without an extended header."""
DECODED_A_UNIT: Final = 8
"""Octets of a performative with values, such as a map of unsettled deliveries, that are decoded with a unit of work."""


class FrameParts:
    """Structs for a frame that is read. All connections share them, because they hold nothing between two frames."""

    def __init__(self) -> None:
        self.cursor = FieldCursor()
        self.transfer = Transfer()
        self.flow = Flow()
        self.disposition = Disposition()
        self.sections = Sections()
        """Sections of the message that a link acts on."""


class FrameReader:
    """Parser of the input of one connection; each call gets the engine."""

    def __init__(self, parts: FrameParts) -> None:
        self.parts = parts
        self.next: i64 = 0
        """Position after the frame that is being acted on."""
        self._last_channel: i64 = ABSENT
        """Channel of the last transfer, and its session; None after the end of a session."""
        self._last_session: AmqpSession | None = None

    def frames(self, engine: Amqp10Engine, data: bytes, pos: i64) -> i64:
        """Handle every complete frame. Return the position of the first one that is left.

        Raises CodecError and BrokerError, which close the connection.
        """
        n: i64 = len(data)
        connection, work = engine.connection, engine.work
        running = ConnectionState.RUNNING
        largest = engine.max_frame_size
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
                end = frame_end(data, pos, n, engine.max_frame_size)
                if end == INCOMPLETE:
                    return pos
                self.next = end
                self._frame(engine, data, pos, end)
                largest = engine.max_frame_size
                if connection.is_closed():
                    return n
            pos = end
            if work.done >= work.limit or len(engine.out) > OUTPUT_LEFT_UNREAD or connection.busy > 0:
                connection.input_paused = True
                connection.request_flush()
                return pos
        return pos

    def forget_session(self) -> None:
        """Forget the session of the last transfer: one has ended."""
        self._last_session = None

    def _session_of(self, engine: Amqp10Engine, channel: i64) -> AmqpSession | None:
        """Return the session of a transfer, and remember it for the next; None if its frames are ignored.

        Raises BrokerError if there is none.
        """
        session = engine.channels.get(int(channel))
        if session is None:
            session = engine.session_on(int(channel), "a frame")
        if session.state != SESSION_OPEN:
            return None
        self._last_channel = channel
        self._last_session = session
        return session

    def _frame(self, engine: Amqp10Engine, data: bytes, pos: i64, end: i64) -> None:
        body = frame_body(data, pos)
        if frame_kind(data, pos) == FRAME_SASL or engine.sasl is not None:
            self._sasl_frame(engine, data, pos, body, end)
            return
        if body == end:
            return  # An empty frame: it is traffic, no more (section 2.4.5).
        channel = int(frame_channel(data, pos))
        cursor = self.parts.cursor
        code = cursor.open(data, body, end)
        if code != TRANSFER and code != FLOW and code != DISPOSITION:
            engine.work.done += (end - body) // DECODED_A_UNIT
            engine.on_performative(channel, decode_performative(data, int(body), int(end))[0])
            return
        if engine.connection.ignores_input():
            return
        if engine.connection.state is not ConnectionState.RUNNING:
            raise CommandInvalid("a frame of a session before open")
        session = self._session_of(engine, channel)
        if session is None:
            return
        if code == TRANSFER:
            transfer = self.parts.transfer
            transfer.read(cursor, data, body, end)
            session.on_transfer(transfer, data, end)
        elif code == DISPOSITION:
            disposition = self.parts.disposition
            disposition.read(cursor, data, body, end)
            if disposition.state is not None:
                engine.work.done += (end - body) // DECODED_A_UNIT
            session.on_disposition(disposition)
        else:
            flow = self.parts.flow
            flow.read(cursor, data, body, end)
            session.on_flow(flow)

    def _sasl_frame(self, engine: Amqp10Engine, data: bytes, pos: i64, body: i64, end: i64) -> None:
        if engine.sasl is None or frame_kind(data, pos) == FRAME_AMQP:
            raise CodecError("a frame of the wrong type for this layer", FRAMING_ERROR)
        if body == end:
            raise CodecError("an empty SASL frame: each has exactly one performative (section 5.3.1)", FRAMING_ERROR)
        engine.sasl.on_frame(decode_performative(data, int(body), int(end))[0])
