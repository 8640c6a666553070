"""Meter of one simulation: counts, and times in each state of the queue and its clients."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock_simulation.outcome import Histogram, Outcome


class Meter:
    """Counts and times; the simulation reports events and the passing of time."""

    def __init__(self, queue: Queue, consumers: int) -> None:
        """Begin with an empty queue and idle consumers."""
        self._queue = queue
        self.blocked = 0
        """Producers that a gate blocks now."""
        self.idle = consumers
        """Consumers that are idle now."""
        self.offered = 0
        self.confirmed = 0
        self.refused = 0
        self.settled = 0
        self.waits = Histogram()
        self._depth = 0
        self._messages = 0
        self._blocked_s = 0.0
        self._starved_s = 0.0
        self._closed_s = 0.0
        self._above_s = 0.0
        self._depth_s = 0.0
        self._closings: list[float] = []
        self._returns = 0
        self._returned_s = 0.0

    def pass_time(self, seconds: float) -> None:
        """Count time in the present state."""
        queue = self._queue
        if not queue.gate.open:
            self._closed_s += seconds
        if queue.thresholds.overfull(queue.messages, queue.bytes):
            self._above_s += seconds
        self._depth_s += seconds * int(queue.bytes)
        if self.blocked:
            self._blocked_s += seconds * self.blocked
            if self.idle:
                self._starved_s += seconds

    def note_depth(self) -> None:
        """Record the present depth if it is the highest."""
        queue = self._queue
        if queue.bytes > self._depth:
            self._depth = int(queue.bytes)
        if queue.messages > self._messages:
            self._messages = int(queue.messages)

    def on_gate_changed(self, is_closed: bool, now: float) -> None:
        """Count a closing, or the time since the last closing."""
        if is_closed:
            self._closings.append(now)
        else:
            self._returns += 1
            self._returned_s += now - self._closings[-1]

    def outcome(self, seconds: float, producers: int) -> Outcome:
        """Return the measures of a simulation of this length with `producers` producers."""
        closings = self._closings
        cycles = len(closings) - 1
        return Outcome(
            seconds=seconds,
            offered=self.offered,
            confirmed=self.confirmed,
            refused=self.refused,
            settled=self.settled,
            blocked=self._blocked_s / seconds / max(1, producers),
            starved=self._starved_s / seconds,
            closed=self._closed_s / seconds,
            above_stop=self._above_s / seconds,
            crossings=len(closings),
            cycle_s=(closings[-1] - closings[0]) / cycles if cycles > 0 else 0.0,
            return_s=self._returned_s / self._returns if self._returns else 0.0,
            depth=self._depth,
            depth_messages=self._messages,
            mean_depth=self._depth_s / seconds,
            wait_p50=self.waits.quantile(0.5),
            wait_p99=self.waits.quantile(0.99),
        )
