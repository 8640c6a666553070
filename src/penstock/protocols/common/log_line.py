"""Log line: a text with the same data as fields."""

from __future__ import annotations


class LogLine:
    """Log line. The fields become attributes of its `logging.LogRecord` (docs/flow-log.md); empty for free text."""

    __slots__ = ("text", "fields", "quiet", "now")

    def __init__(self, text: str, fields: dict[str, object], quiet: bool = False) -> None:
        self.text = text
        self.fields = fields
        self.quiet = quiet
        """True for the level debug, whatever the level of its id."""
        self.now: float = 0.0
        """Time of the event in seconds of the broker's monotonic clock; set by the driver."""
