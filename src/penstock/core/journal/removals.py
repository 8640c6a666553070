"""Purged messages that the store still has, removed a slice a turn.

Theory of operation. To record a million settled messages takes too long for one turn. So a large purge begins a
*removal*: the messages leave the queue at once, and the journal records them slice by slice
(core/queue/deferred_free.py). The answer to the purge waits for the end of the removal, and then for the group that is
open: an answered purge never comes back. After a crash in between, the messages of unwritten slices come back. A row
that a slice has cut is a partly settled row, as after acknowledgements.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.journal.group import DurabilityListener, DurableChanges


class Removal:
    """The removal of one purge."""

    __slots__ = ("change", "listeners")

    def __init__(self, change: i64) -> None:
        self.change: i64 = change
        """Number of the durable change that it belongs to."""
        self.listeners: list[DurabilityListener] = []
        """Listeners that wait for its end, and for the disk afterwards."""


class Removals:
    """The unfinished removals of one journal."""

    def __init__(self, changes: DurableChanges) -> None:
        self._changes = changes
        self._under_way: dict[Removal, None] = {}
        """In the order of their changes."""

    def begin(self) -> Removal:
        """Begin a removal, after its change was recorded."""
        removal = Removal(self._changes.durable_declarations)
        self._under_way[removal] = None
        return removal

    def finish(self, removal: Removal) -> None:
        """Forget a removal of which all messages are removed; `Journal.finish_removal` sees to its listeners."""
        del self._under_way[removal]

    def wait(self, listener: DurabilityListener, before: i64) -> bool:
        """Wait for the latest removal of a change after the first `before` ones; false if there is none."""
        for removal in reversed(self._under_way):
            if removal.change > before:
                removal.listeners.append(listener)
                return True
            break
        return False

    def is_awaited_by(self, listener: DurabilityListener) -> bool:
        """Return whether a listener waits for a removal, not yet for the disk."""
        return any(listener in removal.listeners for removal in self._under_way)

    def cancel_wait(self, listener: DurabilityListener) -> None:
        """Remove a closed listener."""
        for removal in self._under_way:
            removal.listeners = [each for each in removal.listeners if each is not listener]

    def pending(self) -> bool:
        """Return whether any removal is unfinished."""
        return len(self._under_way) > 0
