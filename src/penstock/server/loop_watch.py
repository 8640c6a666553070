"""Monitor of the event loop in the thread of the store: a hung loop releases the lease of the store.

Theory of operation. The thread keeps the session with the lease alive, even when the loop hangs: a standby would wait
forever. So the idle thread posts a call to the loop and counts the idle seconds until the loop runs the call. After
`HUNG_S` the thread suspends turns and releases the lease. A loop that runs again confirms and delivers no messages
until the thread has the lease again. If another broker has taken the lease meanwhile, this broker ends.

Between two checks of the thread at most `LOOK_S` is counted: after a suspension of the whole process or machine only a
second counts, and the loop runs the call before the next check.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.logs.ids import LEASE_RELEASED
from penstock.logs.logger import log
from penstock.store.store import Leased

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

HUNG_S: Final = 10.0
"""Idle seconds of the store's thread without an answer of the event loop, after which the lease is released."""
LOOK_S: Final = 1.0
"""Most seconds that count between two checks."""


class LoopWatch:
    """Monitor of one event loop. The store's thread calls all methods except `_answer` and `_run_again`."""

    def __init__(self, store: Leased, event_loop: EventLoop, post: Callable[[Callable[[], None]], bool]) -> None:
        self._store = store
        self._event_loop = event_loop
        self._post = post
        """Calls a function in the event loop."""
        self._answered = True
        """True if the loop has run the last call; set by the loop."""
        self._silent_s: float = 0.0
        """Idle seconds since the last call."""
        self._looked: float = 0.0
        self._released = False
        """True if the lease is released, and turns are suspended."""

    def look(self) -> bool:
        """Count idle seconds; return whether the store may be used. It may not be used while a hung loop has no
        lease.
        """
        now = time.monotonic()
        since = now - self._looked
        self._looked = now
        if self._answered:
            self._answered = False
            self._silent_s = 0.0
            self._post(self._answer)
            return True
        self._silent_s += min(since, LOOK_S)
        if self._silent_s >= HUNG_S and not self._released:
            self._release()
        return not self._released

    def resume(self) -> None:
        """Resume turns: the store was used, so this broker has its lease."""
        if self._released:
            self._released = False
            log(LEASE_RELEASED, "the event loop runs again, and the store is still ours")
            self._post(self._run_again)

    def _release(self) -> None:
        self._released = True
        self._event_loop.suspend()  # Before the release: later turns might deliver twice.
        self._store.release_lease()
        log(  # After the release: the loop may hang in the log.
            LEASE_RELEASED,
            "the event loop has hung for %.0f s: the store in %s is released for a standby",
            self._silent_s,
            self._store,
        )

    def _answer(self) -> None:
        self._answered = True

    def _run_again(self) -> None:
        if not self._released:  # It may have hung again.
            self._event_loop.resume()
            self._event_loop.schedule()
