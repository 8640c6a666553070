"""Debts of users of the HTTP API: who asked for more work than it counted waits before the next request.

Each step of a request is an entry of the event loop (driver/entry_times.py). A step that took longer than its units say
is charged to the user of the request, whichever socket it uses; before the login nobody is known, and only the log and
the metrics tell.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Generator
from time import monotonic
from typing import Any, Final

from starlette.types import Scope

from penstock.driver.entry_times import HTTP, Debt, EntryTimes

USERS_MOST: Final = 1000
"""Most users with debts; the oldest debt is forgotten."""


class HttpDebts:
    """Debts of all users of the HTTP API."""

    def __init__(self, entries: EntryTimes) -> None:
        self._entries = entries
        self._debts: dict[str, Debt] = {}
        self._until: dict[str, float] = {}
        """End of the rest of each user, in monotonic seconds."""

    async def rest(self, user: str) -> None:
        """Wait until the rest of a user is over; returns at once as a rule."""
        until = self._until.get(user)
        if until is not None:
            await asyncio.sleep(until - monotonic())

    @types.coroutine
    def timed(self, scope: Scope, request: Awaitable[None]) -> Generator[Any, Any, None]:
        """Carry out a request, and measure its steps."""
        steps = request.__await__()
        error: BaseException | None = None
        while True:
            self._entries.begin(monotonic())
            try:
                step = next(steps) if error is None else steps.throw(error)
            except StopIteration:
                return
            finally:
                self._end(scope)
            error = None
            try:
                yield step
            except BaseException as raised:  # It is raised where the request waits.
                error = raised

    def _end(self, scope: Scope) -> None:
        """End a step; charge it to its user if it took too long."""
        user = scope.get("state", {}).get("payer", "")
        owed = self._entries.end(HTTP, f"http {user or 'before its login'} {scope.get('method')} {scope.get('path')}")
        if owed and user:
            if user not in self._debts and len(self._debts) >= USERS_MOST:
                oldest = next(iter(self._debts))
                del self._debts[oldest], self._until[oldest]
            now = monotonic()
            self._until[user] = now + self._debts.setdefault(user, Debt()).add(owed, now)
