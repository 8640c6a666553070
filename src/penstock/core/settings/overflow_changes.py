"""Sentences about overflow of queues: the policy and the number at which it acts, and the queues that a change
affects.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.overflow.policy import OverflowPolicy
from penstock.core.queue.queue_settings import Settings
from penstock.flow.level import UNLIMITED

NAMED: Final = 3
"""Queues that a sentence names of each change; the others are counted."""
CHANGES_SAID: Final = 3
"""Most different changes in a sentence; the queues of other changes are counted."""
DOES: Final = {
    "block": "holds publishers",
    "reject": "refuses publishes",
    "reject-dead-letter": "refuses and dead-letters publishes",
    "drop-head": "drops its oldest messages",
    "ring-strict": "drops its oldest messages",
    "drop-new": "drops new messages",
    "self-destruct": "is deleted",
    "page": "pages to the disk",
}
"""Actions of a queue at a limit, by policy."""


def describe_overflow(settings: Settings) -> str:
    """Return the action of a queue and its limit, as a clause without a subject: "holds publishers at 4 messages"."""
    clauses: list[str] = []
    if not settings.length.unlimited():
        clauses.append(f"{_does(settings.at_length)} above {_describe_length(settings)}")
    if not settings.thresholds.capacity.unlimited():
        clauses.append(f"{_does(settings.overflow)} at {settings.thresholds.capacity.describe()}")
    return " and ".join(clauses) or "has no limit"


def _does(policy: OverflowPolicy) -> str:
    return DOES.get(policy.name, policy.name)


def _describe_length(settings: Settings) -> str:
    length, parts = settings.length, []
    if length.messages != UNLIMITED:
        parts.append(f"{int(length.messages):,} ready message{'' if length.messages == 1 else 's'}")
    if length.bytes != UNLIMITED:
        parts.append(f"{int(length.bytes):,} bytes of ready bodies")
    return " or ".join(parts)


class OverflowChange:
    """One change, and the affected queues."""

    def __init__(self, before: str, after: str) -> None:
        self.before = before
        self.after = after
        self.names: list[str] = []
        """The first queues."""
        self.more: int = 0
        """Number of the other queues."""

    def add(self, name: str) -> None:
        """Add a queue."""
        if len(self.names) < NAMED:
            self.names.append(name)
        else:
            self.more += 1

    def describe(self) -> str:
        """Return the change as a clause."""
        noun = "queue" if len(self.names) == 1 else "queues"
        more = f" and {self.more:,} more" if self.more else ""
        return f"{noun} {', '.join(self.names)}{more}: {self.after}; before: {self.before}"


class OverflowChanges:
    """Queues whose overflow changes with the settings; bounded by the number of sentences."""

    def __init__(self) -> None:
        self._changes: dict[str, OverflowChange] = {}
        self._more: int = 0
        """Number of queues whose changes are not described."""

    def add(self, name: str, before: Settings, after: Settings) -> None:
        """Add a queue, if its limits in messages or bytes or the policies at them differ."""
        if before is after or (
            before.overflow is after.overflow
            and before.at_length is after.at_length
            and before.length == after.length
            and before.thresholds.capacity == after.thresholds.capacity
        ):
            return
        was, is_now = describe_overflow(before), describe_overflow(after)
        if was == is_now:
            return
        change = self._changes.get(f"{was}\0{is_now}")
        if change is None:
            if len(self._changes) >= CHANGES_SAID:
                self._more += 1
                return
            change = OverflowChange(was, is_now)
            self._changes[f"{was}\0{is_now}"] = change
        change.add(name)

    def sentences(self) -> list[str]:
        """Return one sentence; none without a change."""
        if not self._changes:
            return []
        clauses = [change.describe() for change in self._changes.values()]
        if self._more:
            clauses.append(f"{self._more:,} more queues")
        return [f"overflow changes for {'; '.join(clauses)}"]
