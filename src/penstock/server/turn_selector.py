"""Selector of a broker's loop, which calls the watchers of the broker's sockets and runs the scheduled turns.

Theory of operation. An ordinary selector loop creates a handle for each readable socket, and `call_soon` costs a second
pass with its system call. With few messages a turn these two costs are most of the work. A `TurnSelector` calls the
watchers of the broker's sockets while it selects, and then the scheduled turns. It repeats this, and returns to the
loop when the loop has work: an event of asyncio, a timer, or a call that was scheduled meanwhile.
"""

from __future__ import annotations

import contextlib
import select
import selectors
import time
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.server.pacer import Pacer

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


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
        """Call a watcher at these epoll events, while they last, and at errors; it replaces an earlier watcher."""
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
            wait = ceil(wait * 1000) / 1000  # epoll_wait would round the time-out down.
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
        with contextlib.suppress(OSError):  # Closing the descriptor has removed it from epoll already.
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
