"""Those who wait outside of the core for what it brings about: one call each, which must not come back into the core.

They are here, and not with whoever waits, because what inherits from a trait that is compiled must be compiled too.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.journal.group import DurabilityListener, JournalGroup
from penstock.core.queue.page_io import PageLoadListener


class DurableCallback(DurabilityListener):
    """Somebody who waits until something is on the disk."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def on_durable(self, group: JournalGroup) -> None:
        """See `DurabilityListener.on_durable`."""
        self._wake()


class PageLoadCallback(PageLoadListener):
    """Somebody who waits until messages have been read back from the disk."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def on_loaded(self) -> None:
        """See `PageLoadListener.on_loaded`."""
        self._wake()
