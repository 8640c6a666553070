"""HTTP client of a node: one request to the socket of a shard, whose body and answer are streams.

Each request has a connection of its own, which the shard closes: a connection to a Unix socket costs less than the care
for connections that the other side may close at any time. What has not been read waits in the shard's socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import h11

from penstock.server.inside import connected

Headers = list[tuple[bytes, bytes]]
PIECE: Final = 64 * 1024
"""Most bytes of an answer that are read at once; twice as many wait until then."""
HEAD_MOST: Final = 64 * 1024
"""Most bytes of the head of an answer."""


class ShardCut(ConnectionError):
    """The shard, or its process, ended the connection within a request."""


class ShardRequest:
    """Request to a shard. Calls of one side, request or answer, follow one another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MOST)
        self.status = 0
        """Status of the answer; 0 before `answer`."""
        self.headers: Headers = []
        """Its headers."""

    @classmethod
    async def begin(
        cls, address: str, method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]]
    ) -> ShardRequest:
        """Connect to a socket, and send the head of a request. Raises OSError if no process of this user listens there.

        `address` is a name inside the node (server/inside.py).
        """
        request = cls(*await connected(address, PIECE))
        fields = [(b"Host", b"localhost"), (b"Connection", b"close"), *headers]
        try:
            await request._write(h11.Request(method=method, target=target, headers=fields))
        except BaseException:
            request.close()
            raise
        return request

    async def send(self, part: bytes) -> None:
        """Send a part of the body, when the shard takes it. Raises ShardCut."""
        await self._write(h11.Data(data=part))

    async def end(self) -> None:
        """Send the end of the body. Raises ShardCut."""
        await self._write(h11.EndOfMessage())

    async def answer(self) -> None:
        """Read the head of the answer: `status` and `headers`. Raises ShardCut."""
        event = await self._event()
        if not isinstance(event, h11.Response):
            raise ShardCut("the answer has no head")
        self.status, self.headers = event.status_code, [(name, value) for name, value in event.headers]

    async def parts(self) -> AsyncIterator[bytes]:
        """Read the body of the answer. Raises ShardCut if its end is missing."""
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    async def body(self, most: int) -> bytes:
        """Read the body of the answer as a whole. Raises ShardCut also for more than so many bytes."""
        parts: list[bytes] = []
        size = 0
        async for part in self.parts():
            size += len(part)
            if size > most:
                raise ShardCut(f"the answer has more than {most:,} bytes")
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close the connection at once: a shard that still answers learns that nobody waits."""
        self._writer.transport.abort()

    async def _write(self, event: h11.Event) -> None:
        try:
            data = self._http.send(event)
            if data:
                self._writer.write(data)
                await self._writer.drain()
        except (OSError, h11.LocalProtocolError) as error:
            raise ShardCut(str(error)) from None

    async def _event(self) -> h11.Event:
        """Return the next event of the answer, without interim ones."""
        try:
            while True:
                event = self._http.next_event()
                if isinstance(event, type):  # NEED_DATA, as nothing follows an answer.
                    self._http.receive_data(await self._reader.read(PIECE))
                elif isinstance(event, h11.ConnectionClosed):
                    raise ShardCut("the connection was closed")
                elif not isinstance(event, h11.InformationalResponse):
                    return event
        except (OSError, h11.RemoteProtocolError) as error:
            raise ShardCut(str(error)) from None
