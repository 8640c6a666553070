"""Slices of monitoring requests and jobs: one in a pass of the event loop, health checks first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Slices:
    """Queue of monitoring requests that wait for their next slice. Health checks come first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], bool]) -> None:
        """`look` runs a slice of the monitoring jobs, and returns whether more work is left."""
        self._loop = loop
        self._look = look
        self._first: deque[asyncio.Future[None]] = deque()
        self._line: deque[asyncio.Future[None] | None] = deque()
        """Requests, and None for the jobs."""
        self._has_jobs = False
        self._scheduled = False

    async def pause(self, first: bool = False) -> None:
        """Yield to the broker, and return at this request's next slice."""
        await self.next(first)

    def next(self, first: bool = False) -> asyncio.Future[None]:
        """Return a future for the next slice of a request."""
        turn = self._loop.create_future()
        (self._first if first else self._line).append(turn)
        self._schedule()
        return turn

    def add_jobs(self) -> None:
        """Run slices of the monitoring jobs until all are done."""
        if not self._has_jobs:
            self._has_jobs = True
            self._line.append(None)
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Resume one request in the next pass."""
        while self._first or self._line:
            turn = (self._first or self._line).popleft()
            if turn is None:
                self._loop.call_soon(self._run_jobs)
            elif turn.done():  # Its request may have been cancelled.
                continue
            else:
                turn.set_result(None)
            self._loop.call_soon(self._next)
            return
        self._scheduled = False

    def _run_jobs(self) -> None:
        self._has_jobs = False
        if self._look():
            self.add_jobs()
