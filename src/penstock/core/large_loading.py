"""Loading of large bodies for those who need a message whole: readers through cursors.

The pieces are read one after the other and kept aside. For the moment in which they are needed they are put into their
bodies, so that the format of a message finds them there.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies, LargeBody, LargeReader, PieceListener, Span


@mypyc_attr(allow_interpreted_subclasses=True)
class LoadListener:
    """A listener for bodies that were loaded."""

    def on_loaded(self) -> None:
        """Handle the end of the load; it may have a fault."""
        raise NotImplementedError


class BodyLoad(PieceListener):
    """A load of the bodies of several messages."""

    def __init__(self, bodies: LargeBodies, wanted: list[LargeBody], listener: LoadListener) -> None:
        self.fault: str = ""
        """The reason why a piece could not be read; empty if all were."""
        self._bodies = bodies
        self._wanted = [body for body in wanted if not body.is_in_memory()]
        self._next: i64 = 0
        """Index of the first body that is not loaded."""
        self._reader: LargeReader | None = None
        self._pieces: list[tuple[LargeBody, int, bytes]] = []
        self._listener: LoadListener | None = listener

    def begin(self) -> bool:
        """Begin. Return whether all is in memory already; else the listener is notified."""
        return self._go_on()

    def cancel(self) -> None:
        """Cancel: the listener is not notified any more."""
        self._listener = None
        self._pieces = []
        if self._reader is not None:
            self._reader.end()

    def insert(self) -> None:
        """Put the pieces into their bodies, until `release`."""
        for body, index, octets in self._pieces:
            body.pieces.setdefault(index, octets)

    def release(self) -> None:
        """Take the pieces out of their bodies again."""
        for body, index, octets in self._pieces:
            if body.pieces.get(index) is octets:
                del body.pieces[index]
        self._pieces = []

    @override
    def on_piece(self, reader: LargeReader) -> None:
        listener = self._listener
        if listener is None:
            return
        self.fault = reader.fault
        if self.fault or self._go_on():
            self._listener = None
            self._reader = None
            listener.on_loaded()

    def _go_on(self) -> bool:
        """Take what is at hand. Return whether that is all."""
        while self._next < len(self._wanted):
            body = self._wanted[self._next]
            reader = self._reader
            if reader is None:
                reader = body.open(self._bodies, [Span(0, body.octets)], self)
                self._reader = reader
            while reader.left > 0:
                index = (body.octets - reader.left) // PIECE_OCTETS
                octets = reader.take(PIECE_OCTETS)
                if not octets:
                    return False
                self._pieces.append((body, int(index), octets))
            self._reader = None
            self._next += 1
        return True
