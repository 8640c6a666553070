"""Large deliveries of a session: transfer frames as the peer reads them, within the window of the session.

The first frame is written in order with the other deliveries of the session. From then on the delivery is a source of
the connection's output, and takes turns: other links and sessions go between. Its own link gets nothing else until it
is complete (section 2.6.14), which is a matter of its credit (`LinkCredit.paused`).

A delivery whose link is detached meanwhile is aborted. If a piece of it cannot be read, its link is detached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import BytesWriter
from typing_extensions import override

from penstock.core.large_bodies import LargeReader, PieceListener
from penstock.errors import InternalError
from penstock.protocols.common.connection_output import SHARE_OCTETS, OutputSource
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.spec import TRANSFER
from penstock.wire.amqp10.transfer import TRANSFER_OVERHEAD, write_continuation

if TYPE_CHECKING:
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink


class LargeDelivery(OutputSource):
    """A delivery whose first frame is written, up to its body."""

    def __init__(self, link: OutgoingLink, reader: LargeReader) -> None:
        self._link = link
        self._reader = reader
        self._waits: bool = False
        """True while the window of the session is used up."""
        reader.listener = _Wake(self)
        link.credit.paused = True

    def begin(self) -> None:
        """Begin to write, or go on after the window of the session was used up."""
        connection = self._link.session.connection
        self._waits = False
        connection.output.open_source(self)
        connection.request_flush()

    def go_on(self) -> None:
        """Go on writing: the next piece was read, or could not be."""
        session = self._link.session
        fault = self._reader.fault
        if not session.is_open():
            self.end()
        elif fault:
            self._link.detach(InternalError(f"a large message cannot be read from the store: {fault}"))
        else:
            session.connection.output.sources.append(self)
            session.connection.request_flush()

    def on_window(self) -> None:
        """Go on if only the window of the session was missing."""
        if self._waits:
            self.begin()

    @override
    def write_some(self, out: BytesWriter) -> bool:
        link, reader = self._link, self._reader
        session = link.session
        if reader.left == 0 or not session.is_open():
            return False
        if session.windows.remote_incoming_window <= 0:
            self._waits = True
            reader.pause()
            session.connection.output.close_source(self)
            return False
        most = session.engine.peer_max_frame_size - TRANSFER_OVERHEAD
        octets = reader.take(most if most < SHARE_OCTETS else SHARE_OCTETS)
        if not octets:
            return False
        more = reader.left > 0
        write_continuation(out, session.number, link.handle, more, len(octets))
        out.write(octets)
        session.windows.count_sent(1)
        if not more:
            self.end()
            session.writer.on_large_sent(link)
        return more

    def abort(self) -> None:
        """Abort the delivery: its link is being detached. Without a window the detach alone tells that."""
        link = self._link
        session = link.session
        self.end()
        if session.is_open() and session.windows.remote_incoming_window > 0:
            aborted = composite(TRANSFER, handle=int(link.handle), more=False, aborted=True)
            session.engine.out.write(frame(int(session.number), encode_composite(aborted)))
            session.windows.count_sent(1)

    @override
    def end(self) -> None:
        self._reader.end()
        self._link.credit.paused = False
        self._link.session.connection.output.close_source(self)


class _Wake(PieceListener):
    """Wakes the delivery when a piece was read."""

    def __init__(self, delivery: LargeDelivery) -> None:
        self._delivery = delivery

    @override
    def on_piece(self, reader: LargeReader) -> None:
        self._delivery.go_on()
