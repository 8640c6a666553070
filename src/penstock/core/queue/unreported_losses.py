"""What has happened at a queue that people have not been told of yet."""

from __future__ import annotations

from mypy_extensions import i64


class UnreportedLosses:
    """Counts since the last telling, and what the last sample said."""

    __slots__ = ("dropped", "refused", "letters", "sampled_messages", "sampled_bytes", "sampled_open")

    def __init__(self) -> None:
        self.dropped: i64 = 0
        self.refused: i64 = 0
        """Messages that the overflow policy dropped, or refused, since the last QUE-1005."""
        self.letters: i64 = 0
        """Dead letters that went nowhere since they were last told of."""
        self.sampled_messages: i64 = 0
        self.sampled_bytes: i64 = 0
        self.sampled_open: bool = True
        """Depth and gate as the flow log last had them."""

    def any_loss(self) -> bool:
        """Tell whether there is a loss to tell of."""
        return self.dropped > 0 or self.refused > 0 or self.letters > 0

    def clear(self) -> None:
        """Begin to count losses anew."""
        self.dropped = 0
        self.refused = 0
        self.letters = 0
