"""self-destruct: a queue at its capacity deletes itself with its messages. Qpid C++'s policy of that name.

For queues whose content is worthless once it is late: the consumers are cancelled and start again. The publish that
exceeds the capacity is refused (Qpid C++ reported success to its publisher).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import REFUSE, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class SelfDestruct(OverflowPolicy):
    """Refuse the publish and delete the queue."""

    name = "self-destruct"
    destroys = True

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return REFUSE
