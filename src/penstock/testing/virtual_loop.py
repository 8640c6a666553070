"""Event loop with a virtual clock for tests: time passes as usual, and further when a test advances it.

Theory of operation. An idle loop asks its selector to wait until the next timer is due. While the clock is being
advanced, `VirtualSelector` does not wait: it moves the clock to that timer. So the clock jumps from timer to timer, and
each timer runs at its time: the next timer sees its effects, and no timer runs late. Sockets are real. Data that has
arrived at a socket is handled before the clock moves. While a thread works for the loop, such as the writer of the
store, the clock does not jump: the thread needs real time.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from typing_extensions import override

T = TypeVar("T")
ADVANCE_MOST_S: Final = 7 * 86_400.0
"""Most seconds of one advance: each virtual second of a broker costs about 0.1 ms."""
PATIENCE_S: Final = 60.0
"""Real seconds that a call in the loop may take before the loop counts as stuck."""


class LoopStuck(RuntimeError):
    """Error for a loop of the test broker that has not done a test's request in time."""


class Watch:
    """A condition that is checked after each pass of the loop until it is true, or its waiter gives up."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.done: Future[None] = Future()
        self._look = look

    def look(self) -> bool:
        """Check once; return whether the watch is over."""
        error: Exception | None = None
        try:
            over = self.done.cancelled() or bool(self._look())
        except Exception as failure:
            error, over = failure, True
        if over and self.done.set_running_or_notify_cancel():
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)
        return over


class VirtualSelector(selectors.DefaultSelector):
    """Selector that moves the clock instead of waiting, while the clock is being advanced."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = 0.0
        """Seconds that the virtual clock is ahead of the real one."""
        self.is_busy: Callable[[], bool] = bool
        """Function that returns whether a thread works for the loop."""
        self._target = 0.0
        self._advancing: list[Future[float]] = []
        """Futures of callers that wait for the clock to reach its target."""
        self._watches: list[Watch] = []

    def now(self) -> float:
        """Return the virtual time in seconds, monotonic."""
        return time.monotonic() + self.shift

    def advance(self, seconds: float, reached: Future[float]) -> None:
        """Begin to advance the clock; `reached` gets the time when the clock is there and the loop is idle."""
        self._target = max(self._target, self.now()) + seconds
        self._advancing.append(reached)

    def watch(self, watch: Watch) -> None:
        """Check a condition after each pass, from now on."""
        self._watches.append(watch)

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready sockets; if none is ready while the clock is advanced, move the clock and return at once."""
        if self._watches:
            self._watches = [watch for watch in self._watches if not watch.look()]
        if not self._advancing or timeout == 0:
            return super().select(timeout)
        ready = super().select(0)
        if ready:
            return ready
        if self.is_busy():
            return super().select(timeout)
        left = self._target - self.now()
        if left > 0:
            self.shift += left if timeout is None else min(left, timeout)
            return []
        reached, self._advancing = self._advancing, []
        for future in reached:
            future.set_result(self.now())
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Selector loop whose time is virtual; asyncio's own transports serve the sockets."""

    def __init__(self) -> None:
        self.selector = VirtualSelector()
        self._thread: int | None = None
        """Thread in which the loop runs; None before the start."""
        super().__init__(self.selector)

    @override
    def run_forever(self) -> None:
        self._thread = threading.get_ident()
        super().run_forever()

    @override
    def time(self) -> float:
        return self.selector.now()

    def wall_time(self) -> float:
        """Return the virtual wall clock: seconds since 1970."""
        return time.time() + self.selector.shift

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop's thread, from another thread; return its result, or raise its error."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self.check_thread()
        self.call_soon_threadsafe(run)
        return _result(done, "did not make a call")

    def check_thread(self) -> None:
        """Raise LoopStuck for the loop's own thread, which would wait for itself."""
        if threading.get_ident() == self._thread:
            raise LoopStuck("the test broker's own thread must not wait for the broker; call it from the test")


class VirtualClock:
    """Clock of a test broker, as tests use it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    @property
    def now(self) -> float:
        """Virtual time of the broker: monotonic seconds."""
        return self._loop.time()

    @property
    def ahead(self) -> float:
        """Seconds that the broker's clock is ahead of the real one: the sum of all advances so far."""
        return self._loop.selector.shift

    def advance(self, seconds: float) -> float:
        """Let `seconds` pass for the broker, timer by timer; return the new time.

        On return the broker has run all due timers and written its output. Raises ValueError for a negative number and
        for more than a week, LoopStuck if the broker does not reach the time in a minute of real time.
        """
        if not 0 <= seconds <= ADVANCE_MOST_S:
            raise ValueError(
                f"the clock cannot be advanced by {seconds:g} s: give 0 to {ADVANCE_MOST_S:,.0f} s (a week)"
            )
        self._loop.check_thread()
        reached: Future[float] = Future()
        self._loop.call_soon_threadsafe(self._loop.selector.advance, seconds, reached)
        return _result(reached, f"has not come to the end of {seconds:g} virtual seconds")

    def run_until_idle(self) -> None:
        """Wait until the broker has handled all arrived input and due timers; the clock is not advanced."""
        self.advance(0.0)


def _result(done: Future[T], what: str) -> T:
    try:
        return done.result(PATIENCE_S)
    except TimeoutError:
        if done.done():
            raise
        raise LoopStuck(f"the loop of the test broker {what} within {PATIENCE_S:g} s") from None
