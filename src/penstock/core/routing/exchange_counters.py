"""Counters of an exchange: what was published to it, and where that went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.flow.series import Series


class ExchangeCounters:
    """Counters of one exchange. Routes refer to them, so that a publish on the fast path costs one addition."""

    __slots__ = ("published", "more_routed", "returned", "dropped", "series")

    def __init__(self) -> None:
        self.published: i64 = 0
        """Messages that were published to it, dead letters included."""
        self.more_routed: i64 = 0
        """Messages that it led into queues, less those published: most go into one queue, and cost nothing here."""
        self.returned: i64 = 0
        self.dropped: i64 = 0
        """Messages that reached no queue: mandatory ones, and others."""
        self.series: Series | None = None
        """Its samples; None before the first message."""

    def count_unroutable(self, mandatory: bool) -> None:
        """Count a message that reached no queue."""
        self.published += 1
        self.more_routed -= 1
        if mandatory:
            self.returned += 1
        else:
            self.dropped += 1

    def routed(self) -> i64:
        """Return the messages that it led into queues: one that went into two counts twice."""
        return self.published + self.more_routed


NO_COUNTERS: Final = ExchangeCounters()
"""Those of routes that are not resolved."""
