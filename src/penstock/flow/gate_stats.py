"""Who was blocked by what, since when, how often and for how long: the answer to "why is it blocked?".

One `BlockStats` for each (producer, gate) that ever met closed; one `GateStats` a gate. Written by the code that
decides, read by the log, `connection.blocked`, `penstock why` and the metrics. Bounded: a producer that goes away takes
its entries along and leaves a summary among the last `DEPARTED_KEPT`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.flow.timers import CLOSE_ENOUGH_S, NEVER

PRODUCERS_TOLD: Final = 100
"""Producers of a gate in one answer; whoever is blocked longest comes first, and the others are counted."""
DEPARTED_KEPT: Final = 100
"""Summaries kept of producers that went away, per gate: enough for one screen of a post-mortem, about 20 KiB."""


class BlockStats:
    """The story of one producer at one gate. Times in seconds of the caller's monotonic clock."""

    __slots__ = (
        "producer", "since", "times", "total_s", "withheld", "withheld_bytes", "held", "held_bytes", "refused",
        "refused_bytes", "late", "came", "renewed", "patience_s", "stops", "stopped_in",
    )  # fmt: skip

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.since: float | None = None
        """Blocked since; None while it is not."""
        self.times: int = 0
        self.total_s: float = 0.0
        """Time blocked in blocks that are over."""
        self.withheld: int = 0
        """Messages whose confirmation was withheld, ever."""
        self.withheld_bytes: int = 0
        self.held: int = 0
        """Publishes that were held, ever."""
        self.held_bytes: int = 0
        self.refused: int = 0
        """Publishes that did not go in and never will, ever."""
        self.refused_bytes: int = 0
        self.late: int = 0
        """Confirmations that were sent because their deadline passed, ever; the messages are in the queue."""
        self.came: float = -NEVER
        """When the producer came."""
        self.renewed: float = -NEVER
        """When its hold deadline was last changed: it waits anew from then on."""
        self.patience_s: float = NEVER
        """Hold deadline of what it published here last, in seconds; infinity is for ever."""
        self.stops: int = 0
        """How often it was stopped, ever; see `is_stopped`."""
        self.stopped_in: int = 0
        """The crossing of the gate in which it was last stopped."""

    def is_stopped(self, closed_since: float | None, patience_s: float, now: float) -> bool:
        """Tell whether it has waited a whole hold deadline at the gate since that last closed; None: it is open.

        Who came when the gate was closed already waits as long as that: nothing of it was under way. What is dealt with
        a little before its deadline counts as if it had waited to the end.
        """
        if self.since is None or closed_since is None:
            return False
        begun = closed_since if self.came > closed_since else max(self.since, closed_since)
        return max(begun, self.renewed) + patience_s <= now + CLOSE_ENOUGH_S

    def begin(self, now: float) -> bool:
        """Note that the producer is blocked; returns whether it was not before."""
        if self.since is not None:
            return False
        self.since = now
        self.renewed = -NEVER
        self.times += 1
        return True

    def end(self, now: float) -> None:
        """Note that it is not blocked any more."""
        if self.since is not None:
            self.total_s += now - self.since
            self.since = None

    def blocked_s(self, now: float) -> float:
        """Return the total time blocked, the running block included."""
        return self.total_s if self.since is None else self.total_s + now - self.since

    def as_dict(self, now: float, closed_since: float | None) -> dict[str, object]:
        """Return the entry as plain data; `blocked_for_s` is None while it is not blocked.

        `closed_since` is when the gate closed; None while it is open.
        """
        return {
            "producer": self.producer,
            "blocked_for_s": None if self.since is None else now - self.since,
            "times": self.times,
            "total_s": self.blocked_s(now),
            "withheld": self.withheld,
            "withheld_bytes": self.withheld_bytes,
            "held": self.held,
            "held_bytes": self.held_bytes,
            "refused": self.refused,
            "refused_bytes": self.refused_bytes,
            "confirmed_late": self.late,
            "stopped": self.is_stopped(closed_since, self.patience_s, now),
            "times_stopped": self.stops,
        }


class GateStats:
    """What happened at one gate."""

    __slots__ = ("since", "transitions", "closed_s", "blocks", "departed")

    def __init__(self) -> None:
        self.since: float | None = None
        """Closed since; None while it is open."""
        self.transitions: int = 0
        """How often it closed."""
        self.closed_s: float = 0.0
        self.blocks: dict[int, BlockStats] = {}
        """By identity of the producer."""
        self.departed: deque[BlockStats] | None = None
        """Summaries of producers that went away, the last of them; None before the first."""

    def closed(self, now: float) -> None:
        """Note a crossing of the stop threshold."""
        self.since = now
        self.transitions += 1

    def opened(self, now: float) -> None:
        """Note a crossing of the resume threshold."""
        if self.since is not None:
            self.closed_s += now - self.since
            self.since = None

    def entry(self, key: int, producer: str) -> BlockStats:
        """Return the entry of a producer, made at first use."""
        block = self.blocks.get(key)
        if block is None:
            block = BlockStats(producer)
            self.blocks[key] = block
        return block

    def depart(self, key: int, now: float) -> None:
        """Close the entry of a producer that went away and keep its summary among the last."""
        block = self.blocks.pop(key, None)
        if block is not None:
            block.end(now)
            if self.departed is None:
                self.departed = deque(maxlen=DEPARTED_KEPT)
            self.departed.append(block)

    def blocked(self) -> dict[int, BlockStats]:
        """Return the entries of those who are blocked now, by identity, in the order in which they were."""
        found = [(block.since, key, block) for key, block in self.blocks.items() if block.since is not None]
        found.sort(key=_since)
        return {key: block for _, key, block in found}

    def summary(self, now: float) -> dict[str, object]:
        """Return what happened at the gate as plain data, without the producers."""
        closed_for = 0.0 if self.since is None else now - self.since
        return {
            "closed_for_s": None if self.since is None else closed_for,
            "crossings": self.transitions,
            "closed_s": self.closed_s + closed_for,
            "blocked": len(self.blocked()),
        }

    def as_dict(self, now: float) -> dict[str, object]:
        """Return the book as plain data: the summary, its producers and the last that went away."""
        blocked = self.blocked()
        others = [block for key, block in self.blocks.items() if key not in blocked]
        producers = [*blocked.values(), *others]
        return {
            **self.summary(now),
            "producers": [block.as_dict(now, self.since) for block in producers[:PRODUCERS_TOLD]],
            "more_producers": max(len(producers) - PRODUCERS_TOLD, 0),
            "departed": [block.as_dict(now, None) for block in self.departed or ()],
        }


def _since(entry: tuple[float, int, BlockStats]) -> float:
    return entry[0]
