"""Parts of a store that cannot be read."""

from __future__ import annotations

from typing import Final, NamedTuple

STALE: Final = "they are not the ones that were written last"
"""Damage of a table whose records are all intact: deleted records may have come back."""


class Damage(NamedTuple):
    """Part of the store that cannot be read."""

    what: str
    """Description: a row, page, note or thing, or a number of them."""
    why: str
    queue: int = 0
    """Number of the page's queue; 0 if unknown, or for messages of any queues."""
    messages: int = 0
    """Number of messages in it, settled or not; 0 if unknown."""
    table: str = ""
    """Table that misses something; empty if nothing may be missing."""
