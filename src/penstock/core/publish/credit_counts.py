"""Counts of the credit of one link."""

from __future__ import annotations

from mypy_extensions import i64


class CreditCounts:
    """Messages of one link's credit since its beginning, for people."""

    __slots__ = ("granted", "drained", "moved", "idle")

    def __init__(self) -> None:
        self.granted: i64 = 0
        self.drained: i64 = 0
        """Granted messages that will not come: the sender gave the credit back."""
        self.moved: i64 = 0
        """Granted messages that were set aside, because others waited for their room."""
        self.idle: i64 = 0
        """Times that its sender was idle while others waited; one that may answer is asked to drain."""

    def as_dict(self, unused: i64) -> dict[str, object]:
        """Return the counts as plain data; `unused` is the present credit."""
        return {
            "granted": int(self.granted),
            "used": int(self.granted - self.drained - unused),
            "drained": int(self.drained),
            "moved": int(self.moved),
            "idle": int(self.idle),
        }
