"""Those who wait outside of the core for what it brings about: one call each, which must not come back into the core.

They are here, and not with whoever waits, because what inherits from a trait that is compiled must be compiled too.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.group import Awaiting, Group
from penstock.core.transit import Loading


class OnDisk(Awaiting):
    """Somebody who waits until something is on the disk."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def written(self, group: Group) -> None:
        """See `Awaiting.written`."""
        self._wake()


class InMemory(Loading):
    """Somebody who waits until messages have been read back from the disk."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def loaded(self) -> None:
        """See `Loading.loaded`."""
        self._wake()
