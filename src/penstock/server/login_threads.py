"""Checks of credentials beside the event loop, in threads.

Theory of operation. The line (login_limits.py) belongs to the event loop, which hands one verification to each idle
thread. A result comes back with `call_soon_threadsafe`. So a disconnected client costs no thread's time unless its
verification is already running. The threads have a lower priority than the event loop (Linux).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from queue import SimpleQueue
from typing import Final

from typing_extensions import override

from penstock.connections.login import Authenticator, Verification
from penstock.connections.login_limits import LoginLine
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.server.event_loop import EventLoop

NICENESS: Final = 5
"""Niceness of the threads, in Linux' terms: a busy event loop runs first."""

REMOTE_THREADS: Final = 2
"""Threads for tokens: their signatures are quick, and they share the keys that one thread fetches."""
THREADS_MOST: Final = 4
"""Most threads without a setting."""


def default_threads() -> int:
    """Return the number of threads without a setting: one for two cores, so that one core is left for the loop."""
    return max(1, min(THREADS_MOST, (os.cpu_count() or 1) // 2))


class LoginPools(Authenticator):
    """Threads of one broker: for passwords, for tokens, and for requests to an HTTP back end."""

    def __init__(self, event_loop: EventLoop, threads: int, back_end_threads: int = 1) -> None:
        self.passwords = LoginThreads(event_loop, threads)
        self.remote = LoginThreads(event_loop, REMOTE_THREADS)
        self.back_end = LoginThreads(event_loop, back_end_threads)

    @override
    def start(self, verification: Verification) -> None:
        self._pool(verification).start(verification)

    @override
    def cancel(self, verification: Verification) -> None:
        self._pool(verification).cancel(verification)

    def _pool(self, verification: Verification) -> LoginThreads:
        if verification.back_end:
            return self.back_end
        return self.remote if verification.remote else self.passwords

    def stop(self) -> None:
        """End all threads."""
        for threads in (self.passwords, self.remote, self.back_end):
            threads.stop()


class LoginThreads(Authenticator):
    """Threads of one kind; they start with the first slow verification."""

    def __init__(self, event_loop: EventLoop, threads: int) -> None:
        self._event_loop = event_loop
        self._threads = threads
        self._line = LoginLine()
        self._handed: SimpleQueue[Verification | None] = SimpleQueue()
        self._started = 0
        self._running = 0
        """Number of verifications in threads: at most one each."""
        self.verified = 0
        """Number of finished verifications."""

    def waiting(self) -> int:
        """Return the number of verifications that wait for a thread."""
        return len(self._line)

    def is_working(self) -> bool:
        """Return whether a thread is verifying."""
        return self._running > 0

    @override
    def start(self, verification: Verification) -> None:
        if not self._line.add(verification):
            verification.turn_away()
            return
        self._hand_over()

    @override
    def cancel(self, verification: Verification) -> None:
        verification.cancelled = True
        self._line.remove(verification)

    def stop(self) -> None:
        """End the threads, each after its present task; results are dropped."""
        for _ in range(self._started):
            self._handed.put(None)
        self._started = 0

    def _hand_over(self) -> None:
        while self._running < self._threads:
            verification = self._line.next()
            if verification is None:
                return
            self._running += 1
            if self._started < self._running:
                self._started += 1
                threading.Thread(target=self._run, name="penstock-login", daemon=True).start()
            self._handed.put(verification)

    def _run(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while (verification := self._handed.get()) is not None:
            try:
                if not verification.cancelled:
                    verification.run()
            except Exception:  # The credentials count as not verified.
                log(INTERNAL_ERROR, "verification of a login failed", error=True)
            try:
                self._event_loop.loop.call_soon_threadsafe(self._done, verification)
            except RuntimeError:  # The loop is closed.
                return

    def _done(self, verification: Verification) -> None:
        event_loop = self._event_loop
        self._running -= 1
        self.verified += 1
        event_loop.driver.begin(event_loop.loop.time())
        if not verification.cancelled:
            verification.conclude()
        self._hand_over()
        event_loop.schedule()
