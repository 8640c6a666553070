"""Callbacks for durability and page loads, for listeners outside of the compiled core.

A callback must not call back into the core. These classes exist because a class that inherits from a compiled trait
must be compiled too.
"""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from penstock.core.journal.group import DurabilityListener, JournalGroup
from penstock.core.queue.pager import PageLoadListener


class DurableCallback(DurabilityListener):
    """Callback to run once everything so far is durable."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    @override
    def on_durable(self, group: JournalGroup) -> None:
        self._wake()


class PageLoadCallback(PageLoadListener):
    """Callback to run once messages were read back from disk."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    @override
    def on_loaded(self) -> None:
        self._wake()
