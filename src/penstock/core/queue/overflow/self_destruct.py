"""self-destruct: a queue that would be overrun deletes itself, with all that is in it. Qpid C++'s policy of that name.

For queues whose content is worthless once it is late: the consumers are cancelled and begin anew. The publish that
was one too many is refused (Qpid C++ told its publisher that it had succeeded).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.overflow.policy import REFUSE, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class SelfDestruct(OverflowPolicy):
    """Refuse it and delete the queue."""

    name = "self-destruct"
    destroys = True

    def verdict(self, queue: Queue, charge: i64) -> int:
        """See `OverflowPolicy.verdict`."""
        return REFUSE
