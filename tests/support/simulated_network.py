"""In-memory connections with what matters of TCP: latency, buffers that fill up, a peer that does not read, an end.

Octets keep their order and come in arbitrary pieces. What a peer does not read stays in its bounded inbox, then in the
sender's buffer, until the sender is told to pause writing: pressure travels back as it does through kernels.
"""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override

from tests.support.simulated_loop import SimLoop

INBOX_OCTETS = 16 * 1024
"""Most octets that wait at a peer that does not read, before the sender's buffer grows."""


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        super().__init__()
        self.loop = loop
        self.name = name
        self.peer: End
        self.protocol: asyncio.BaseProtocol
        self.reading = True
        self.ended = False
        self._closing = False
        self._eof = False
        self.knows_eof = False
        """True if its protocol knows that nothing more comes."""
        self._out = bytearray()
        self._inbox = bytearray()
        self._high, self._low = 64 * 1024, 16 * 1024
        self._paused = False
        self._moving = False

    # What a protocol may ask for

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", self.name) if name == "peername" else default

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high, self._low = high, high // 4 if low is None else low

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._out)

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self.ended:
            return
        self._out += data
        if len(self._out) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()
        self._move_soon()

    @override
    def pause_reading(self) -> None:
        self.reading = False

    @override
    def resume_reading(self) -> None:
        self.reading = True
        self.peer._move_soon()

    @override
    def is_reading(self) -> bool:
        return self.reading

    @override
    def is_closing(self) -> bool:
        return self._closing or self.ended

    def close(self) -> None:
        """Close when everything is written."""
        self._closing = True
        self._move_soon()

    @override
    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that nothing more comes, when everything is written; what the other says is still read."""
        self._eof = True
        self._move_soon()

    def abort(self) -> None:
        """Close at once; what is not written is lost."""
        self._closing = True
        self._out.clear()
        self._move_soon()

    # How octets travel

    def _move_soon(self) -> None:
        if not self._moving and not self.ended:
            self._moving = True
            self.loop.call_later(self.loop.rng.uniform(0.0001, 0.001), self._move)

    def _move(self) -> None:
        self._moving = False
        peer = self.peer
        if self.ended:
            return
        room = max(INBOX_OCTETS - len(peer._inbox), 0)
        if room and self._out:
            count = min(room, len(self._out), self.loop.rng.randint(1, INBOX_OCTETS))
            peer._inbox += self._out[:count]
            del self._out[:count]
        peer._read()
        if self._paused and len(self._out) <= self._low and not self.ended:
            self._paused = False
            self.protocol.resume_writing()
        if self._eof and not self._out and not peer.knows_eof:
            peer.knows_eof = True
            if not peer.protocol.eof_received():  # type: ignore[attr-defined]
                peer.close()
        if self._closing and not self._out:
            self._end()
        elif self._out and (peer.reading or len(peer._inbox) < INBOX_OCTETS):
            self._move_soon()

    def _read(self) -> None:
        """Give the protocol what has come, as long as it reads."""
        while self.reading and self._inbox and not self.ended:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                buffer = memoryview(self.protocol.get_buffer(-1))
                count = min(len(buffer), len(self._inbox))
                buffer[:count] = self._inbox[:count]
                del self._inbox[:count]
                self.protocol.buffer_updated(count)
            else:
                data = bytes(self._inbox)
                self._inbox.clear()
                self.protocol.data_received(data)  # type: ignore[attr-defined]

    def _end(self) -> None:
        for end in (self, self.peer):
            if not end.ended:
                end.ended = True
                end.protocol.connection_lost(None)


def connect(loop: SimLoop, server: asyncio.BaseProtocol, client: asyncio.BaseProtocol, number: int) -> End:
    """Join two protocols; returns the client's end."""
    ours, theirs = End(loop, f"server {number}"), End(loop, str(number))
    ours.peer, theirs.peer = theirs, ours
    ours.protocol, theirs.protocol = server, client
    # The server's end carries the client's address, as a socket does.
    ours.name = str(number)
    server.connection_made(ours)
    client.connection_made(theirs)
    return theirs
