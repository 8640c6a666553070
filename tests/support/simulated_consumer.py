"""A consumer in simulated time: round trip, service time, several workers, acknowledgements in batches."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from penstock.flow.credit import AdaptiveWindow

ARRIVED, DONE, SETTLED, STALLED = range(4)


class SimulatedConsumer:
    """A client behind a wire, with a broker that always has messages for it."""

    def __init__(
        self, window: AdaptiveWindow, trip_s: float, service_s: float, workers: int = 1, batch: int = 1
    ) -> None:
        self.window = window
        self.trip_s = trip_s
        self.service_s: Callable[[], float] = lambda: service_s
        self.batch = batch
        self.idle = workers
        self.buffered = 0
        self.unacknowledged = 0
        self.out = 0
        self.settled = 0
        self.now = 0.0
        self.windows: list[int] = []
        """The window after each settlement."""
        self._events: list[tuple[float, int, int, int]] = []
        self._count = 0
        self._timer = False

    def run(self, messages: int) -> float:
        """Let it settle so many messages more; returns the rate at which it did."""
        before, since = self.settled, self.now
        self._fill()
        while self.settled < before + messages:
            self.now, _, kind, count = heapq.heappop(self._events)
            if kind == ARRIVED:
                self._work(arrived=True)
            elif kind == DONE:
                self._work(arrived=False)
            elif kind == SETTLED:
                self.window.on_settled(count, self.out, self.now)
                self.out -= count
                self.settled += count
                self.windows.append(int(self.window.window))
            else:
                self._stall()
            self._fill()
        return (self.settled - before) / (self.now - since)

    def _at(self, when: float, kind: int, count: int = 1) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, kind, count))

    def _work(self, arrived: bool) -> None:
        if not arrived:
            self.idle += 1
            self.unacknowledged += 1
            if self.unacknowledged == self.batch:
                self._at(self.now + self.trip_s / 2, SETTLED, self.batch)
                self.unacknowledged = 0
        else:
            self.buffered += 1
        while self.idle and self.buffered:
            self.idle -= 1
            self.buffered -= 1
            self._at(self.now + self.service_s(), DONE)

    def _fill(self) -> None:
        room = int(self.window.window) - self.out
        if room > 0:
            self.window.on_delivered(self.out, self.now)
            self.out += room
            for _ in range(room):
                self._at(self.now + self.trip_s / 2, ARRIVED)
        elif not self._timer:
            self._timer = True
            self._at(self.window.last_change() + self.window.stall_s(), STALLED)

    def _stall(self) -> None:
        self._timer = False
        due = self.window.last_change() + self.window.stall_s()
        if self.out >= self.window.window and self.now >= due:
            self.window.on_stalled()


def uneven(mean_s: float, seed: int) -> Callable[[], float]:
    """Return service times with an exponential distribution."""
    chance = random.Random(seed)
    return lambda: chance.expovariate(1 / mean_s)
