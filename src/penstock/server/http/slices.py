"""The HTTP API's share of the event loop: one slice of its work in each pass, however many requests there are.

Work that takes long is cut into slices of about a millisecond, by counting objects or octets. Between two of them a
request waits here for its next pass, in line with the others, so the broker's own work is never far away.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Slices:
    """The line of requests that wait for their next slice. Health checks go first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._first: deque[asyncio.Future[None]] = deque()
        self._line: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def pause(self, first: bool = False) -> None:
        """Let the broker do its work, and go on when it is this request's turn."""
        turn = self._loop.create_future()
        (self._first if first else self._line).append(turn)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        while self._first or self._line:
            turn = (self._first or self._line).popleft()
            if not turn.done():  # Its request may have been cancelled.
                turn.set_result(None)
                self._loop.call_soon(self._next)
                return
        self._scheduled = False
