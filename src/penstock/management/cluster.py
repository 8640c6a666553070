"""Shards of a node, as its operations see them: an interface that the node's process implements.

A broker without shards has no view. The view has the states of all shards, restarts one, and wakes the job that waits
for a shard when the state of a shard changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.describe.table import Row
from penstock.errors import PreconditionFailed

NO_SHARDS: Final = "this broker has no shards: `penstock serve --shards N` starts a node with some"
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
"""States of a rolling restart."""


class RollingRestart:
    """Restart of shards one after another: the one that goes on, or the last one."""

    def __init__(self, shards: list[str], user: str, began_at: float) -> None:
        """`began_at` is in monotonic seconds."""
        self.shards: list[str] = shards
        """Shards in the order of their restarts."""
        self.user: str = user
        self.began_at: float = began_at
        self.ended_at: float | None = None
        self.done: int = 0
        """Number of shards that serve again."""
        self.state: str = RUNNING
        self.reason: str = ""
        """Reason why the restart has failed, or what it waits for."""

    def end(self, state: str, now: float, reason: str = "") -> None:
        """Record the end."""
        self.state = state
        self.ended_at = now
        self.reason = reason

    def words(self) -> str:
        """Return how far the restart is, or how it ended, in one sentence."""
        count = f"{self.done:,} of {len(self.shards):,} shards"
        text = f"the restart asked for by user '{self.user}' is {self.state}: {count}"
        return f"{text}; {self.reason}" if self.reason else text

    def row(self, wall_offset: float) -> Row:
        """Return the restart as plain data, with times in milliseconds since the epoch."""
        ended = self.ended_at
        return {
            "state": self.state,
            "user": self.user,
            "shards": self.shards,
            "done": self.shards[: self.done],
            "left": self.shards[self.done :],
            "reason": self.reason or None,
            "began_at": round((self.began_at + wall_offset) * 1000),
            "ended_at": None if ended is None else round((ended + wall_offset) * 1000),
            "sentence": self.words(),
        }


@mypyc_attr(allow_interpreted_subclasses=True)
class ClusterView:
    """Shards of a node."""

    def __init__(self) -> None:
        self.restart: RollingRestart | None = None
        """Rolling restart that goes on, or the last one; None before the first."""
        self.wake: Callable[[], None] | None = None
        """Called when the state of a shard has changed; None while nobody waits."""

    def names(self) -> list[str]:
        """Return the names of all shards, in their order."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """Return all shards as plain data."""
        raise NotImplementedError

    def begin_restart(self, name: str) -> None:
        """Restart a shard: its process stops in order, and the next one starts at once.

        A shard without a process starts at once. Raises PreconditionFailed (406) while the node stops.
        """
        raise NotImplementedError

    def obstacle(self, name: str) -> str:
        """Return what a restarted shard waits for; empty once its next process serves.

        Raises PreconditionFailed (406) if the next process has died, or the node stops.
        """
        raise NotImplementedError

    def newer_software(self) -> str:
        """Return a sentence if the installed software is not that of the node; empty if both are the same."""
        return ""


def required(view: ClusterView | None) -> ClusterView:
    """Return the view of a node. Raises PreconditionFailed (406) for a broker without shards."""
    if view is None:
        raise PreconditionFailed(NO_SHARDS)
    return view
