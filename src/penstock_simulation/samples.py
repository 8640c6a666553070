"""Samples of one queue in a flow log, the broker's runs that they belong to, and the fills between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

WHOLE = 0.99
"""Part of a sample from which it counts as whole, because clocks are corrected."""


class Fill(NamedTuple):
    """A time from an opening of the gate to its next closing."""

    at: float
    """Start of the fill, in the recorded time."""
    seconds: float
    grown: int
    """Messages by which the queue grew."""


@dataclass(slots=True)
class Run:
    """One run of the broker within the requested time, in seconds of its monotonic clock."""

    lo: float
    hi: float
    offset: float
    """Offset from the monotonic clock to seconds since 1970."""
    base: float = 0.0
    """Start of the run in the recorded time of all runs."""

    def at(self, mono: float) -> float:
        """Return a time within the recorded time; a time outside of the run becomes its nearer end."""
        return self.base + min(max(mono, self.lo), self.hi) - self.lo


@dataclass(slots=True)
class Sample:
    """Sample of a queue: counts since the previous sample, and the state at this one."""

    run: int
    at: float
    """Start of the sample: in the run's clock until all is read, then in the recorded time; likewise `end`."""
    end: float
    wall: float
    seconds: float
    """Length of the sample; after `place`, the part within the recorded time."""
    came: int
    left: int
    settlements: int
    depth: int
    depth_bytes: int
    refused: int
    consumers: int
    unconfirmed: int
    """Most unconfirmed publishes of a producer that was blocked at the end of the sample."""
    held: int | None
    """Publishes that the broker held at the end; None if no producer was blocked, or the log lacks the number."""
    sizes: tuple[int, ...] = ()

    def place(self, run: Run) -> None:
        """Convert the times into the recorded time.

        A part outside of the recorded time is removed, with its part of the messages.
        """
        self.at, self.end = run.at(self.at), run.at(self.end)
        part = min(1.0, (self.end - self.at) / self.seconds)
        if part < WHOLE:
            self.came, self.left = round(self.came * part), round(self.left * part)
            self.settlements, self.refused = round(self.settlements * part), round(self.refused * part)
            self.seconds = self.end - self.at

    @property
    def was_busy(self) -> bool:
        """True if messages were in the queue at the start and at the end of the sample."""
        return self.depth > 0 and self.depth - self.came + self.left > 0


def sample_of(each: Mapping[str, Any], run: int, mono: float, offset: float) -> Sample:
    """Return the sample of a record `depth` that was written at `mono` of this run."""
    seconds = float(each.get("seconds") or 1.0)
    return Sample(
        run=run,
        at=mono - seconds,
        end=mono,
        wall=mono - seconds + offset,
        seconds=seconds,
        came=int(each["in_messages"]),
        left=int(each.get("settled_messages", 0)),
        settlements=int(each.get("settlements", 0)),
        depth=int(each.get("messages", 0)),
        depth_bytes=int(each.get("bytes", 0)),
        refused=int(each.get("refused_messages", 0)),
        consumers=int(each.get("consumers", 0)),
        unconfirmed=int(each.get("unconfirmed", 0)),
        held=each.get("held_messages"),
        sizes=tuple(each.get("sizes") or ()),
    )
