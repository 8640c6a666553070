"""Size of a batch: its limits, the least size that it may wait for, and warnings if they do not fit the queues."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_penstock.logs import LOG
from pyspark_penstock.options import SourceOptions

MOST_ROWS = 400_000
"""Most messages in a batch without a lower option or capacity."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of one batch; ``None`` is no limit."""

    rows: int | None
    octets: int | None

    def least(self, rows: int | None, octets: int | None) -> "Caps":
        """Return the lower of two limits in each unit."""
        return Caps(_least(self.rows, rows), _least(self.octets, octets))

    def less(self, rows: int, octets: int) -> "Caps":
        """Return the rest after `rows` and `octets` were taken."""
        return Caps(self.rows and max(0, self.rows - rows), self.octets and max(0, self.octets - octets))

    def part(self, count: int) -> "Caps":
        """Return an equal part of `count`, at least 1 in each unit with a rest."""
        return Caps(self.rows and -(-self.rows // count), self.octets and -(-self.octets // count))

    @property
    def spent(self) -> bool:
        """True if no more may be taken."""
        return self.rows == 0 or self.octets == 0


def _least(*numbers: int | None) -> int | None:
    given = [number for number in numbers if number is not None]
    return min(given) if given else None


class Admission:
    """Limits of the batches of one query."""

    def __init__(self, options: SourceOptions) -> None:
        """Store the options; the time until the first batch counts from now."""
        self._options = options
        self._last = time.monotonic()
        self._planned: float | None = None
        self._warned: set[str] = set()

    def caps(self, limits: Mapping[str, Mapping[str, Any]]) -> Caps:
        """Return the limits of a batch; `limits` has the capacity of each queue.

        An option replaces the default of its own unit: half of the capacity, so that producers refill the other half
        meanwhile.
        """
        options = self._options
        messages = _sum(limit["messages"] for limit in limits.values())
        octets = _sum(limit["bytes"] for limit in limits.values())
        self._warn_of_capacity("maxOffsetsPerTrigger", options.max_rows, messages, "messages", limits)
        self._warn_of_capacity("maxBytesPerTrigger", options.max_bytes, octets, "octets", limits)
        half = Caps(_half(messages), _half(octets)).least(MOST_ROWS, None)
        return Caps(options.max_rows or half.rows, options.max_bytes or half.octets)

    def _warn_of_capacity(
        self, option: str, cap: int | None, capacity: int | None, unit: str, queues: Iterable[str]
    ) -> None:
        if cap is not None and capacity is not None and capacity < 2 * cap:
            names = sorted(queues)
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            self._warn(
                f"{option}={cap} is more than half of the capacity of {shown}, {capacity:,} {unit}: producers wait "
                f"while a batch is processed; set it to {max(1, capacity // 2)} at most, or raise the capacity"
            )

    def least_rows(self, caps: Caps) -> int:
        """Return the least number of messages that a batch must wait for now; 0 if it need not wait."""
        least = self._options.min_rows
        if least is None or time.monotonic() - self._last >= self._options.delay_ms / 1000:
            return 0
        return least if caps.rows is None else min(least, caps.rows)

    def on_batch(self) -> None:
        """Record that a batch was planned."""
        self._last = self._planned = time.monotonic()

    def on_return(self, limits: Mapping[str, Mapping[str, Any]]) -> None:
        """Record that Spark asks for messages after the last batch; warn if the batch took longer than publishes are
        held.

        A batch's messages leave the queue only now. So a producer that was blocked by them has waited for that time.
        """
        if self._planned is None:
            return
        passed, self._planned = time.monotonic() - self._planned, None
        held = {key: limit["hold_s"] for key, limit in limits.items() if limit["hold_s"] is not None}
        for key, hold_s in sorted(held.items(), key=lambda item: item[1])[:1]:
            if passed > hold_s:
                self._warn_once(
                    "interval",
                    f"{passed:.1f} s passed between two plans, and queue '{key}' holds publishes for {hold_s:g} s at "
                    "most (hold-deadline), before it refuses them: shorten the trigger's interval, lower "
                    "maxOffsetsPerTrigger, or raise hold-deadline",
                )

    def _warn(self, text: str) -> None:
        self._warn_once(text, text)

    def _warn_once(self, subject: str, text: str) -> None:
        if subject not in self._warned:
            self._warned.add(subject)
            LOG.warning("penstock: %s", text)


def _sum(capacities: Iterable[int | None]) -> int | None:
    """Return the sum of capacities; None if a capacity is unlimited, or there are none."""
    given = list(capacities)
    known = [capacity for capacity in given if capacity is not None]
    return sum(known) if known and len(known) == len(given) else None


def _half(capacity: int | None) -> int | None:
    return None if capacity is None else max(1, capacity // 2)
