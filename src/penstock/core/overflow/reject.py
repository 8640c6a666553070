"""reject: the publish is refused (nack in confirm mode). RabbitMQ's reject-publish, Qpid C++'s reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.overflow.policy import REFUSE, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue import Queue


class Reject(OverflowPolicy):
    """Refuse it."""

    name = "reject"

    def verdict(self, queue: Queue, charge: i64) -> int:
        """See `OverflowPolicy.verdict`."""
        return REFUSE
