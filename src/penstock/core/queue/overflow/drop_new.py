"""drop-new: the newest message is dropped. Artemis' DROP, but never confirmed: who asks for confirms gets a nack.

Nothing goes back to a publisher without confirms, not even what is mandatory: it chose a queue that drops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.overflow.policy import REFUSE, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class DropNew(OverflowPolicy):
    """Drop it."""

    name = "drop-new"

    def verdict(self, queue: Queue, charge: i64) -> int:
        """See `OverflowPolicy.verdict`."""
        return REFUSE
