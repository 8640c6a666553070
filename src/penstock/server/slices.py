"""Slices: the share of onlookers in the event loop, one slice of work per pass for all of them.

Onlookers are requests of HTTP, and the jobs of `Scheduler.look`, such as `top`. Long work is cut into slices of some
tenths of a millisecond, by counting objects, octets or units. Between two slices an onlooker waits here. A pass of the
loop reads the sockets of clients, runs their turn, and then one slice: who comes meanwhile waits for one slice at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Slices:
    """Queue of onlookers that wait for their next slice. Health checks go first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], bool]) -> None:
        """`look` runs a slice of the jobs of onlookers, and tells whether there is more."""
        self._loop = loop
        self._look = look
        self._first: deque[asyncio.Future[None]] = deque()
        self._line: deque[asyncio.Future[None] | None] = deque()
        """Requests, and None for the jobs."""
        self._has_jobs = False
        self._scheduled = False

    async def pause(self, first: bool = False) -> None:
        """Yield to the broker, and return at this request's next slice."""
        turn = self._loop.create_future()
        (self._first if first else self._line).append(turn)
        self._schedule()
        await turn

    def add_jobs(self) -> None:
        """Give slices to the jobs of onlookers until there are none."""
        if not self._has_jobs:
            self._has_jobs = True
            self._line.append(None)
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Let one onlooker go on in the next pass."""
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
