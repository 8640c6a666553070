"""Publishes that wait outside, and how much of them a connection may have."""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64

from penstock.core.route import Route
from penstock.flow.withheld import Pending


class Held:
    """A publish that waits outside."""

    __slots__ = ("route", "queues", "content", "charge", "pending", "deadline")

    def __init__(self, route: Route, content: bytes, charge: i64, pending: Pending | None, deadline: float) -> None:
        self.route = route
        self.queues = route.queues
        """Where it was published to. The route may lead elsewhere by the time that it passes; this message does not."""
        self.content = content
        self.charge: i64 = charge
        self.pending = pending
        self.deadline = deadline


class Holding:
    """What a connection holds for its producers, all together: the bound is per connection."""

    __slots__ = ("bytes", "messages", "bound")

    def __init__(self, bound: i64) -> None:
        self.bytes: i64 = 0
        self.messages: i64 = 0
        self.bound: i64 = bound
        """Bytes (charges) at which the next publish is refused; one message may always be held."""

    def accepts(self, charge: i64) -> bool:
        """Tell whether one more publish may be held."""
        return self.messages == 0 or self.bytes + charge <= self.bound

    def accepts_all(self, outbox: deque[Held]) -> bool:
        """Tell whether all of these may be held."""
        total: i64 = 0
        for held in outbox:
            total += held.charge
        return self.bytes + total <= self.bound

    def take(self, charge: i64) -> None:
        """Count a publish that is held."""
        self.messages += 1
        self.bytes += charge

    def give(self, charge: i64) -> None:
        """Count a publish that is held no longer."""
        self.messages -= 1
        self.bytes -= charge
