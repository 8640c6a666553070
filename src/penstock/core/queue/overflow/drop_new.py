"""drop-new: the newest message is dropped. Artemis' DROP, but never confirmed: a publisher with confirms gets a nack.

A publisher without confirms gets nothing back, not even a mandatory message: the queue is configured to drop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import REFUSE, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class DropNew(OverflowPolicy):
    """Drop the new message."""

    name = "drop-new"

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return REFUSE
