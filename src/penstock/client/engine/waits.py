"""Waits of calls of a shell, and lines of waits in which places are handed over.

Theory of operation. A call that must wait is a generator (`Steps`): it yields a `Wait` and continues when that is done.
A shell drives it: asyncio with a future for each wait, the blocking one by reading its socket. So every rule of waiting
is written once. An engine calls no callbacks: it puts finished waits into `Wakes.woken`, and the shell releases them
after `Engine.receive` or `Engine.tick` has returned.

A call in a `Line` gets its place *handed over*: the place counts as taken from then on, so that no newcomer overtakes a
call that has been woken and has not run yet. A call that is cancelled with a place passes it to the next call. If there
are fewer places when such calls run, all of them return to the front, in their order, and the places are handed over
again: otherwise a later call could take the place that an earlier call has missed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from mypy_extensions import i64

from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.token_bucket import TokenBucket, smooth
from penstock.markers import override

T = TypeVar("T")

Steps = Generator["Wait", None, T]
"""A call that may wait: it yields its waits, and returns its result."""


class Wait:
    """One wait of a call."""

    def __init__(self, deadline: float = NEVER, size: i64 = 0) -> None:
        self.deadline: float = deadline
        """Time by the engine's clock at which the wait ends with `expired`."""
        self.size: i64 = size
        """Bytes for which it needs room."""
        self.since: float = 0.0
        """Time at which the wait began."""
        self.done: bool = False
        self.expired: bool = False
        self.error: Exception | None = None
        """Reason for an end without a result."""
        self.future: Any = None
        """Future of the waiting shell, if there is one."""
        self.queue: WaitQueue | None = None
        self.before: Wait | None = None
        self.after: Wait | None = None
        """Queue of the wait, and its neighbours there."""

    def release(self) -> None:
        """Wake the shell's future."""
        future = self.future
        if future is not None:
            self.future = None
            if not future.done():
                future.set_result(None)

    def check(self) -> None:
        """Raise the error of the wait."""
        if self.error is not None:
            raise self.error


class Call(Wait):
    """Request whose answer is `value`."""

    def __init__(self, what: str, expected: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.what = what
        """Name of the request, for errors."""
        self.expected = expected
        """Methods that answer it."""
        self.value: Any = None
        self.number: str = ""
        """Correlation id of a control request."""
        self.taken: int = 0
        """Rows of the request's block that are in their queues so far, if progress reports were requested."""
        self.then: Call | None = None
        """A request that is answered together with this one."""
        self.failed: Callable[[Exception], None] | None = None
        """Function that is called with the error, if the call ends with one."""

    @override
    def release(self) -> None:
        super().release()
        if self.error is not None and self.failed is not None:
            self.failed(self.error)


class WaitQueue:
    """Waits in order, linked: most of the thousands of queues are empty, and an empty deque takes 600 bytes."""

    def __init__(self) -> None:
        self.first: Wait | None = None
        self.last: Wait | None = None
        self.count: i64 = 0

    def __len__(self) -> int:
        return int(self.count)

    def append(self, wait: Wait) -> None:
        """Add a wait at the end."""
        self._add(wait, self.last, None)

    def prepend(self, wait: Wait) -> None:
        """Add a wait at the front."""
        self._add(wait, None, self.first)

    def _add(self, wait: Wait, before: Wait | None, after: Wait | None) -> None:
        wait.queue = self
        wait.before = before
        wait.after = after
        if before is None:
            self.first = wait
        else:
            before.after = wait
        if after is None:
            self.last = wait
        else:
            after.before = wait
        self.count += 1

    def remove(self, wait: Wait) -> None:
        """Remove a wait of this queue."""
        before, after = wait.before, wait.after
        if before is None:
            self.first = after
        else:
            before.after = after
        if after is None:
            self.last = before
        else:
            after.before = before
        wait.queue = wait.before = wait.after = None
        self.count -= 1


class Wakes:
    """State that an engine and its shell share: the clock, the timers, and finished waits."""

    def __init__(self) -> None:
        self.now: float = 0.0
        """Seconds of the shell's monotonic clock, as last set."""
        self.timers = Timers()
        self.woken: list[Any] = []
        """Finished waits and receipts; the shell calls `release` of each."""
        self.new_future: Callable[[], Any] | None = None
        """Function by which a shell makes a future; None for a blocking shell."""
        self.block_for: Callable[[Any, float | None], None] | None = None
        """Function by which a blocking shell waits for a receipt, for at most so many seconds; None otherwise."""
        self.check_thread: Callable[[], None] | None = None
        """Function by which a blocking shell refuses other threads; None if it is not needed."""
        self.schedule: Callable[[bool], None] = _ignore
        """Function that is called when there is output; with True for acknowledgements that may wait for a moment."""

    def until(self, wait: Wait, limit: float) -> Steps[bool]:
        """Wait at most `limit` seconds; return whether the wait was finished. Raises its error."""
        alarm = Alarm(self, wait)
        if limit != NEVER:
            self.timers.add(alarm, self.now + limit)
        try:
            yield wait
        finally:
            self.timers.drop(alarm)
        wait.check()
        return not wait.expired

    def finish(self, wait: Wait, error: Exception | None = None) -> None:
        """Finish a wait, with or without an error; a finished wait does not change."""
        if not wait.done:
            wait.done = True
            wait.error = error
            self.woken.append(wait)
            if isinstance(wait, Call) and wait.then is not None:
                wait.then.value = wait.value
                self.finish(wait.then, error)


class Alarm(TimerHandler):
    """Deadline of a wait outside of lines."""

    def __init__(self, wakes: Wakes, wait: Wait) -> None:
        super().__init__()
        self.wakes = wakes
        self.wait = wait

    @override
    def on_deadline(self, now: float) -> float:
        if not self.wait.done:
            self.wait.expired = True
            self.wakes.finish(self.wait)
        return NEVER


def _ignore(may_wait: bool) -> None:
    return


class Line(TimerHandler):
    """Calls that wait for places, in order, and places that were handed over."""

    def __init__(self, wakes: Wakes, max_rate: float = 0.0) -> None:
        super().__init__()
        self.wakes = wakes
        self.bucket: TokenBucket | None = None
        if max_rate > 0:
            rate, burst = smooth(max_rate)
            self.bucket = TokenBucket(rate, burst, saves=False)
        self.line = WaitQueue()
        self.handed = WaitQueue()
        """Waits with a place whose calls have not run since; in order, before `line`."""
        self.granted: i64 = 0
        """Number of places handed over."""
        self.granted_octets: i64 = 0

    def fits(self, size: i64) -> bool:
        """Return whether there is a place for a call that needs room for so many bytes."""
        raise NotImplementedError

    def is_free(self, size: i64) -> bool:
        """Return whether a newcomer may proceed at once: there is a place, and no call waits or has a place."""
        if self.line.count > 0 or self.granted > 0:
            return False
        return self.fits(size)

    def stand(self, wait: Wait) -> None:
        """Wait at the end of the line."""
        wait.since = self.wakes.now
        self.line.append(wait)
        self._arm(wait)
        if self.bucket is not None:
            self.wakes.timers.add(self, self.bucket.ready_at(self.wakes.now))

    def is_slowed(self) -> bool:
        """Return whether the rate allows no call now; the line is checked again when it does."""
        bucket = self.bucket
        if bucket is None or bucket.whole(self.wakes.now) > self.granted:
            return False
        if self.line:
            self.wakes.timers.add(self, bucket.ready_at(self.wakes.now))
        return True

    def grant(self) -> None:
        """Hand over the free places."""
        line = self.line
        wait = line.first
        while wait is not None and self.fits(wait.size):
            line.remove(wait)
            self.granted += 1
            self.granted_octets += wait.size
            self.handed.append(wait)
            self.wakes.finish(wait)
            wait = line.first

    def take(self, wait: Wait) -> bool:
        """Use a place that was handed over; returns False if the call must wait again.

        A place may be lost between the handover and the run of the call. Then all calls with a place return into the
        line. A call whose place was renewed may also run before an earlier call.
        """
        if not wait.done:
            return False
        if self.handed.first is not wait:
            wait.done = False  # The call is woken again when the calls before it have run.
            return False
        self.granted -= 1
        self.granted_octets -= wait.size
        if self.fits(wait.size):
            self.handed.remove(wait)
            self._wake_first()
            return True
        self._take_back()
        self.grant()
        return False

    def _wake_first(self) -> None:
        """Wake the first call with a place, if it ran before its turn."""
        first = self.handed.first
        if first is not None:
            self.wakes.finish(first)

    def _take_back(self) -> None:
        """Take back all places that were handed over: their calls wait at the front again."""
        self.granted = 0
        self.granted_octets = 0
        wait = self.handed.last
        while wait is not None:
            self.handed.remove(wait)
            wait.done = False
            self.line.prepend(wait)
            self._arm(wait)
            wait = self.handed.last

    def leave(self, wait: Wait) -> None:
        """Leave, with or without a place; a place is passed to the next call."""
        queue = wait.queue
        if queue is not None:
            queue.remove(wait)
            if queue is self.handed:
                self.granted -= 1
                self.granted_octets -= wait.size
                self._wake_first()
        self.grant()

    def fail_line(self, error: Exception) -> None:
        """End every wait in the line with an error."""
        wait = self.line.first
        while wait is not None:
            self.line.remove(wait)
            self.wakes.finish(wait, error)
            wait = self.line.first

    def expire(self, now: float) -> float:
        """End the waits whose deadline is over; return the next deadline."""
        following = NEVER
        wait = self.line.first
        while wait is not None:
            after = wait.after
            if wait.deadline <= now:
                self.line.remove(wait)
                wait.expired = True
                self.wakes.finish(wait)
            elif wait.deadline < following:
                following = wait.deadline
            wait = after
        return following

    def _arm(self, wait: Wait) -> None:
        if wait.deadline < self.due:
            self.wakes.timers.add(self, wait.deadline)
