"""The policy `self-destruct`: delete the queue."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import OverflowPolicy


class SelfDestruct(OverflowPolicy):
    """Refuse the publish and delete the queue with its messages. Qpid C++'s policy of that name.

    For queues whose content is worthless once it is late: the consumers are cancelled, and start again. The publish
    that exceeds the capacity is refused (Qpid C++ reported success to its publisher).
    """

    name = "self-destruct"
    destroys = True
