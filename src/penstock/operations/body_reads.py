"""Reads of a message's body for an answer: from memory, or piece by piece from the store."""

from __future__ import annotations

from typing_extensions import override

from penstock.core.broker import Broker
from penstock.core.large_bodies import LargeReader, PieceListener, Span
from penstock.core.large_content import body_of
from penstock.errors import InternalError
from penstock.flow.wait import Wait, Waits


class _Arrival(PieceListener):
    """Listener that ends a wait when a piece was read."""

    def __init__(self) -> None:
        self._wait: Wait = Wait()

    def expect(self) -> Wait:
        """Return a wait for the next piece that is read."""
        self._wait = Wait()
        return self._wait

    @override
    def on_piece(self, reader: LargeReader) -> None:
        self._wait.end()


def beginning_of_body(broker: Broker, content: bytes, most: int) -> Waits[bytes]:
    """Return the first bytes of a body. Raises InternalError (541) for a piece that cannot be read."""
    return part_of_body(broker, content, 0, most)


def part_of_body(broker: Broker, content: bytes, start: int, most: int) -> Waits[bytes]:
    """Return at most so many bytes of a body from an index on. Raises as `beginning_of_body`."""
    body = body_of(content)
    if body is None:
        return broker.formats.find(content).body(content)[start : start + most]
    spans = _from(body.spans, start)
    most = min(most, sum(int(span.octets) for span in spans))
    parts: list[bytes] = []
    size = 0
    listener = _Arrival()
    reader = body.open(broker.large, spans, listener)
    try:
        while size < most and not reader.fault:
            part = reader.take(most - size)
            if part:
                parts.append(part)
                size += len(part)
                continue
            yield listener.expect()  # Pieces are read at the end of a turn.
            yield None
    finally:
        reader.end()
    if reader.fault:
        raise InternalError(f"a large message cannot be read from the store: {reader.fault}")
    return b"".join(parts)


def _from(spans: list[Span], start: int) -> list[Span]:
    """Return the spans of the data from an index on."""
    found: list[Span] = []
    left = start
    for span in spans:
        octets = int(span.octets)
        if left < octets:
            found.append(Span(span.start + left, span.octets - left))
            left = 0
        else:
            left -= octets
    return found
