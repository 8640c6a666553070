"""Counts of a move of messages between two brokers, as JSON and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.texts import counted

SAID_MOST: Final = 5
"""Most names of queues in the sentence of the counts."""


@dataclass
class MoveCounts:
    """Counts of a move, which grow with its batches."""

    moved: int = 0
    refused: int = 0
    unmatched: int = 0
    doubtful: int = 0
    """Messages on their way when the move was interrupted: they may be in both queues."""
    queues: int = 0
    """Queues from which messages were moved."""
    looked_at: int = 0
    """Queues from which messages were to be moved."""
    absent: list[str] = field(default_factory=list)
    """With --all: queues of the target that the other broker has not, or does not give away."""
    streams: list[str] = field(default_factory=list)
    """With --all: streams of the target, whose messages nobody can take out of the other broker."""
    undelivered: int = 0
    """Messages that were ready in a queue, and that the broker did not deliver."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Properties and headers that were not sent, by name."""
    reasons: list[str] = field(default_factory=list)

    def answer(self) -> dict[str, object]:
        """Return the counts as JSON."""
        return {
            "moved": self.moved,
            "refused": self.refused,
            "unmatched": self.unmatched,
            "doubtful": self.doubtful,
            "queues": self.queues,
            "absent": self.absent,
            "streams": self.streams,
            "undelivered": self.undelivered,
            "left_out": self.left_out,
            "reasons": self.reasons,
        }

    def sentences(self) -> str:
        """Return the counts as a sentence."""
        parts = [self._moved()]
        if self.absent:
            names = _some(self.absent)
            parts.append(f"{counted(len(self.absent), 'queue')} not moved, as the other broker has none: {names}")
        if self.streams:
            names = _some(self.streams)
            parts.append(f"{counted(len(self.streams), 'stream')} not moved, as streams keep their messages: {names}")
        if self.undelivered:
            parts.append(f"{self.undelivered:,} were not delivered: consumers have them, or the queue is a stream")
        if self.unmatched:
            parts.append(f"{self.unmatched:,} not matched by the filter")
        if self.refused:
            why = f" ({self.reasons[-1]})" if self.reasons else ""
            parts.append(f"{self.refused:,} refused and left{why}")
        if self.doubtful:
            parts.append(f"{self.doubtful:,} were on their way and may be in both queues")
        parts += [f"{name} of {counted(count, 'message')} is left out" for name, count in self.left_out.items()]
        return "; ".join(parts)

    def _moved(self) -> str:
        if self.moved:
            return f"{counted(self.moved, 'message')} moved, of {counted(self.queues, 'queue')}"
        if self.undelivered or self.unmatched or self.refused or self.doubtful:
            return "no message moved"
        if self.looked_at:
            empty = "the queue is empty" if self.looked_at == 1 else f"all {self.looked_at:,} queues are empty"
            return f"no message moved: {empty}"
        if self.absent or self.streams:
            return "no message moved"
        return "no message moved: the target has no queues; `penstock definitions import` makes them"


def _some(names: list[str]) -> str:
    return ", ".join(names[:SAID_MOST]) + (", ..." if len(names) > SAID_MOST else "")
