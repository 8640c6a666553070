"""Slices: the HTTP API's share of the event loop, one slice of work per pass for all requests.

Long work is cut into slices of about a millisecond, by counting objects or octets. Between two slices a request waits
here for its next turn, so that the broker's own work is never delayed much.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Slices:
    """Queue of requests that wait for their next slice. Health checks go first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._first: deque[asyncio.Future[None]] = deque()
        self._line: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def pause(self, first: bool = False) -> None:
        """Yield to the broker, and return at this request's next slice."""
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
