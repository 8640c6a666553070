"""Asyncio loop for a broker, whose selector handles the sockets and runs the turns; with its clocks and slices.

Theory of operation. An ordinary selector loop creates a handle for each readable socket, and `call_soon` costs a second
pass with its system call. With few messages a turn this is most of the work. A `TurnSelector` calls the watchers of the
broker's sockets while it selects, and then the scheduled turns. It repeats this, and returns to the loop when the loop
has work: an event of asyncio, a timer, or a call that was scheduled meanwhile. So timers, futures, signals and other
sockets behave as in any selector loop. Without epoll (Linux), or on a loop of another kind, the broker uses asyncio's
transports and `call_soon`.

Pauses of the event loop before it polls, so that one wake-up serves several messages.

Theory of operation. At some thousands of messages a second each message wakes the broker and its receiver, and these
wake-ups cost more than the messages. A pause before a poll lets messages gather. It helps an open load only: a client
that sends a request and waits for its reply gets fewer replies, and each request still wakes the broker. These loads
cannot be distinguished beforehand, so a pacer tries: a window without pauses, then a window with them. It keeps the
pauses if they saved processor time and about as much arrived, and compares again each second.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from importlib import import_module
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Final

from typing_extensions import TypeVarTuple, override

from penstock.driver.entry_times import EntryClock
from penstock.server.collector import busy_seconds, measure_collections

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


WINDOW_S: Final = 0.02
PAUSES_A_WINDOW: Final = 10
"""Least seconds and least pauses of a window."""
KEPT_WINDOWS: Final = 50
"""Windows with pauses between two comparisons."""
BUSY: Final = 3000.0
"""Polls a second above which pauses are tried."""
KEPT_OCTETS: Final = 0.9
"""Share of the bytes a second that must still arrive with pauses."""
KEPT_TIME: Final = 0.85
"""Most processor time a byte with pauses, as a share of the time without pauses."""
REST_MAX: Final = 64
"""Most windows without pauses after a trial that failed; each failure doubles them."""


class Pacer:
    """Pauses of one loop."""

    def __init__(self, target_s: float, busy: Callable[[], float]) -> None:
        """`target_s` is the length of a pause in seconds; `busy` returns the processor seconds of the loop's thread."""
        self._target_s = target_s
        self._busy = busy
        self._window_s = max(WINDOW_S, PAUSES_A_WINDOW * target_s)
        self._pause_s = 0.0
        """Present pause; 0.0 without pauses."""
        self._windows: int = 0
        """Windows left until the next comparison."""
        self._rest: int = 1
        """Windows of the next rest."""
        self._rate: float = 0.0
        self._cost: float = 0.0
        """Bytes a second and processor seconds a byte, both without pauses."""
        self._began = 0.0
        self._busy_before = 0.0
        """Time and processor seconds when the present window began."""
        self._polls: int = 0
        self._octets: int = 0
        """Counts of the present window."""

    def received(self, octets: int) -> None:
        """Count bytes received from a client."""
        self._octets += octets

    def pause_s(self, now: float) -> float:
        """Return the seconds to pause before a poll that may wait."""
        self._polls += 1
        seconds = now - self._began
        if seconds >= self._window_s:
            busy = self._busy()
            cost = (busy - self._busy_before) / max(1, self._octets)
            self._end_window(self._octets / seconds, cost, self._polls / seconds)
            self._began = now
            self._busy_before = busy
            self._polls = 0
            self._octets = 0
        return self._pause_s

    def _end_window(self, rate: float, cost: float, polls: float) -> None:
        """Judge a window by its bytes a second, processor seconds an byte, and polls a second."""
        self._windows -= 1
        if self._pause_s:
            if rate < KEPT_OCTETS * self._rate or cost > KEPT_TIME * self._cost:
                self._pause_s = 0.0
                self._windows = self._rest
                self._rest = min(2 * self._rest, REST_MAX)
            elif self._windows <= 0:
                self._pause_s = 0.0
                self._rest = 1
        elif self._windows <= 0 and polls >= BUSY:
            self._rate = rate
            self._cost = cost
            self._pause_s = self._target_s
            self._windows = KEPT_WINDOWS


Ts = TypeVarTuple("Ts")
Turn = Callable[[], None]
Watcher = Callable[[int], None]
"""Function that is called with the epoll events of its descriptor."""
Events = list[tuple[selectors.SelectorKey, int]]
HAS_EPOLL: Final = hasattr(select, "epoll")
EVENTS_AT_ONCE: Final = 100
"""Most events of one call; the others follow in the next."""


class KeyMap(Mapping["FileDescriptorLike", selectors.SelectorKey]):
    """Keys of a selector by their files or sockets, or by their descriptors."""

    def __init__(self, selector: TurnSelector) -> None:
        self._selector = selector

    @override
    def __getitem__(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._selector.get_key(fileobj)

    @override
    def __iter__(self) -> Iterator[FileDescriptorLike]:
        return iter(self._selector.keys)

    @override
    def __len__(self) -> int:
        return len(self._selector.keys)


class TurnSelector(selectors.BaseSelector):
    """Selector on epoll with watchers and turns."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.keys: dict[int, selectors.SelectorKey] = {}
        """Descriptors that asyncio has registered."""
        self._watchers: dict[int, Watcher] = {}
        """Descriptors of the broker."""
        self._turns: list[Turn] = []
        self._interrupted = False
        self.pacer: Pacer | None = None
        """Pauses before polls; None without a latency target."""
        self._on_error: Callable[[Exception], None] | None = None

    def set_error_handler(self, handler: Callable[[Exception], None]) -> None:
        """Set the function that is called with the error of a watcher or a turn. Without it the error ends the loop."""
        self._on_error = handler

    def set_latency_target(self, seconds: float) -> None:
        """Allow messages to wait so many seconds, so that one wake-up serves several; 0.0 disables waiting."""
        self.pacer = Pacer(seconds, time.thread_time) if seconds else None

    def schedule(self, turn: Turn) -> None:
        """Run a turn once, at the end of the present or the next call of `select`."""
        self._turns.append(turn)

    # Descriptors of the broker

    def watch(self, descriptor: int, events: int, watcher: Watcher) -> None:
        """Call a watcher at these epoll events, while they last, and at errors. It replaces an earlier watcher."""
        if descriptor in self._watchers:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.register(descriptor, events)
        self._watchers[descriptor] = watcher

    def unwatch(self, descriptor: int) -> None:
        """Watch a descriptor no more; no effect if it is not watched."""
        if self._watchers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def interrupt(self) -> None:
        """Return to the loop after the present watchers and turns, because the loop has work."""
        self._interrupted = True

    @override
    def select(self, timeout: float | None = None) -> Events:
        """Wait for events; call the watchers, then run the scheduled turns; return the first events of asyncio.

        The call does not wait while a turn is scheduled.
        """
        self._interrupted = False
        ready: Events = []
        until = None if timeout is None else monotonic() + timeout
        wait = timeout
        while True:
            if self._turns:
                wait = 0.0
            elif self.pacer is not None:
                self._pause(self.pacer, wait)
            self._poll(wait, ready)
            if self._turns:
                self._run_turns()
            if ready or self._interrupted:
                return ready
            wait = None if until is None else until - monotonic()
            if wait is not None and wait <= 0:
                return ready

    def _pause(self, pacer: Pacer, wait: float | None) -> None:
        """Pause for messages to gather, unless the loop has earlier work."""
        seconds = pacer.pause_s(monotonic())
        if seconds and (wait is None or wait > seconds):
            time.sleep(seconds)

    def _poll(self, wait: float | None, ready: Events) -> None:
        """Wait once, and call the watchers; add events of asyncio to `ready`."""
        if wait is None:
            wait = -1.0
        elif wait > 0:
            wait = ceil(wait * 1000) / 1000  # epoll_wait would round it down.
        watchers = self._watchers
        for descriptor, events in self._epoll.poll(wait, EVENTS_AT_ONCE):
            watcher = watchers.get(descriptor)
            if watcher is None:
                self._add_event(ready, descriptor, events)
                continue
            try:
                watcher(events)
            except Exception as error:
                self._report(error)

    def _run_turns(self) -> None:
        turns = self._turns
        self._turns = []
        for turn in turns:
            try:
                turn()
            except Exception as error:
                self._report(error)

    def _add_event(self, ready: Events, descriptor: int, events: int) -> None:
        """Add an event of asyncio; a watcher that was called before may have removed its descriptor."""
        key = self.keys.get(descriptor)
        if key is not None:
            wanted = selectors.EVENT_WRITE if events & ~select.EPOLLIN else 0
            wanted |= selectors.EVENT_READ if events & ~select.EPOLLOUT else 0
            ready.append((key, wanted & key.events))

    def _report(self, error: Exception) -> None:
        if self._on_error is None:
            raise error
        self._on_error(error)

    # Descriptors of asyncio: see `selectors.BaseSelector`

    @override
    def register(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, _descriptor(fileobj), events, data)
        if key.fd in self.keys or key.fd in self._watchers:
            raise KeyError(f"{fileobj!r} (descriptor {key.fd}) is registered already")
        self._epoll.register(key.fd, _epoll_events(events))
        self.keys[key.fd] = key
        return key

    @override
    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        key = self.keys.pop(self._descriptor_of(fileobj))
        with contextlib.suppress(OSError):  # The descriptor is closed already, which has removed it.
            self._epoll.unregister(key.fd)
        return key

    @override
    def modify(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        key = self.get_key(fileobj)
        if events != key.events:
            self._epoll.modify(key.fd, _epoll_events(events))
        changed = selectors.SelectorKey(key.fileobj, key.fd, events, data)
        self.keys[key.fd] = changed
        return changed

    @override
    def get_key(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self.keys[self._descriptor_of(fileobj)]

    @override
    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return KeyMap(self)

    @override
    def close(self) -> None:
        self.keys.clear()
        self._watchers.clear()
        self._epoll.close()

    def _descriptor_of(self, fileobj: FileDescriptorLike) -> int:
        """Return the descriptor of a registered object; the object may be closed. Raises KeyError."""
        try:
            return _descriptor(fileobj)
        except ValueError:
            for key in self.keys.values():
                if key.fileobj is fileobj:
                    return key.fd
            raise KeyError(f"{fileobj!r} is not registered") from None


def _descriptor(fileobj: FileDescriptorLike) -> int:
    """Return the descriptor of a file or socket. Raises ValueError if it is closed."""
    descriptor = fileobj if isinstance(fileobj, int) else int(fileobj.fileno())
    if descriptor < 0:
        raise ValueError(f"{fileobj!r} has the invalid descriptor {descriptor}")
    return descriptor


def _epoll_events(events: int) -> int:
    reads = select.EPOLLIN if events & selectors.EVENT_READ else 0
    return reads | (select.EPOLLOUT if events & selectors.EVENT_WRITE else 0)


class TurnLoop(asyncio.SelectorEventLoop):
    """Selector loop with a `TurnSelector`."""

    def __init__(self) -> None:
        self.turn_selector = TurnSelector()
        super().__init__(self.turn_selector)
        self.turn_selector.set_error_handler(self._report)

    @override
    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.turn_selector.interrupt()
        return super().call_soon(callback, *args, context=context)

    @override
    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.turn_selector.interrupt()
        return super().call_at(when, callback, *args, context=context)

    @override
    def stop(self) -> None:
        self.turn_selector.interrupt()
        super().stop()

    def _report(self, error: Exception) -> None:
        self.call_exception_handler({"message": "Exception in a watcher or a turn of the broker", "exception": error})


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop for a broker: a `TurnLoop` if there is epoll."""
    return TurnLoop() if HAS_EPOLL else asyncio.new_event_loop()


COMPILED_UNIT_S: Final = 1e-6
INTERPRETED_UNIT_S: Final = 1e-5
"""Seconds of a unit of work, compiled and interpreted."""


def loop_clock() -> EntryClock:
    """Return a clock for the event loop of this thread."""
    measure_collections()
    return EntryClock(
        time.monotonic, busy_seconds, COMPILED_UNIT_S if import_module("penstock").compiled() else INTERPRETED_UNIT_S
    )


def wall_clock(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return the wall clock of a loop: its own `wall_time` if its time is virtual, otherwise the system's."""
    clock: Callable[[], float] = getattr(loop, "wall_time", time.time)
    return clock


class Slices:
    """Queue of monitoring requests that wait for their next slice. Health checks are first."""

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
        """Run slices of the monitoring jobs until there are none."""
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
