"""Splitter of AMQP 1.0 frames: what a broker or a client wrote, as tests read it."""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp10.frames import (
    HEADER_OCTETS,
    INCOMPLETE,
    frame_body,
    frame_channel,
    frame_end,
    frame_kind,
)


class Frame:
    """A frame that was split off."""

    __slots__ = ("kind", "channel", "body")

    def __init__(self, kind: int, channel: int, body: bytes) -> None:
        self.kind: Final = kind
        self.channel: Final = channel
        self.body: Final = body
        """Performative and payload; empty in a heartbeat."""


class FrameSplitter:
    """Input in pieces, split into frames. At most one incomplete frame is stored, which `max_frame_size` bounds."""

    def __init__(self, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self.unparsed: bytes = b""
        """The beginning of an incomplete frame."""

    def take_header(self, data: bytes) -> bytes:
        """Return the protocol header that the input begins with; empty as long as it is incomplete."""
        self.unparsed += data
        if len(self.unparsed) < HEADER_OCTETS:
            return b""
        header = self.unparsed[:HEADER_OCTETS]
        self.unparsed = self.unparsed[HEADER_OCTETS:]
        return header

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete now. Raises CodecError; the frames before the error are lost."""
        if self.unparsed:
            data = self.unparsed + data
        frames: list[Frame] = []
        pos, n = 0, len(data)
        while True:
            end = frame_end(data, pos, n, self.max_frame_size)
            if end == INCOMPLETE:
                break
            body = data[frame_body(data, pos) : end]
            frames.append(Frame(int(frame_kind(data, pos)), int(frame_channel(data, pos)), body))
            pos = end
        self.unparsed = data[pos:]
        return frames
