"""Losses of a queue that are not reported yet, and its state in the last flow-log sample."""

from __future__ import annotations

from mypy_extensions import i64


class UnreportedLosses:
    """Losses since the last report, and the last sample of the flow log."""

    __slots__ = ("dropped", "refused", "letters", "sampled_messages", "sampled_bytes", "sampled_open")

    def __init__(self) -> None:
        self.dropped: i64 = 0
        self.refused: i64 = 0
        """Messages that the overflow policy dropped or refused since the last QUE-1005."""
        self.letters: i64 = 0
        """Dead letters that could not be published since the last report."""
        self.sampled_messages: i64 = 0
        self.sampled_bytes: i64 = 0
        self.sampled_open: bool = True
        """Gate and depth in the last sample of the flow log."""

    def any_loss(self) -> bool:
        """Return whether there is a loss to report."""
        return self.dropped > 0 or self.refused > 0 or self.letters > 0

    def clear(self) -> None:
        """Reset the losses."""
        self.dropped = 0
        self.refused = 0
        self.letters = 0
