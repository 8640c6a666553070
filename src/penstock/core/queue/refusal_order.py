"""Ordered refusals: the next publishes to some queues are refused, although there is room (`penstock.testing`).

The refusals are those of the overflow policy `reject`, in both protocols. An order wraps the length limit of its
queues, which still applies. So queues without an order have no cost.
"""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.context import QueueContext
from penstock.core.queue.length_limit import Length, limit
from penstock.core.queue.queue import Queue
from penstock.flow.level import UNLIMITED


class RefusalOrder:
    """The number of publishes that several queues together must refuse, and the number that they have refused."""

    def __init__(self, queues: list[Queue], count: int) -> None:
        self.queues = queues
        self.count = count
        self._before = self._total()

    def _total(self) -> int:
        return sum([int(queue.counters.refused) for queue in self.queues])

    def left(self) -> int:
        """Return how many publishes are still to be refused."""
        return max(0, self.count - (self._total() - self._before))

    def begin(self, broker: QueueContext) -> None:
        """Put the order into effect."""
        for queue in self.queues:
            queue.length = OrderedRefusals(broker, queue, self)
            queue.update_gate(broker.now)

    def end(self, broker: QueueContext) -> None:
        """End the order; the length limits of the queues are as before."""
        for queue in self.queues:
            length = queue.length
            if isinstance(length, OrderedRefusals) and length.order is self:
                limit(broker, queue)


class OrderedRefusals(Length):
    """The length limit of one queue with an order to refuse."""

    __slots__ = ("order",)

    def __init__(self, broker: QueueContext, queue: Queue, order: RefusalOrder) -> None:
        super().__init__(broker, queue)
        self.order = order

    @override
    def fast_path_max_messages(self) -> i64:
        return -1

    @override
    def takes(self, messages: i64, bodies: i64, now: float) -> bool:
        return self.order.left() == 0 and super().takes(messages, bodies, now)

    @override
    def clause(self) -> str:
        count, left = self.order.count, self.order.left()
        text = f"an order to refuse {count:,} publish{'' if count == 1 else 'es'}, of which {left:,} are left"
        limited = self.most.messages != UNLIMITED or self.most.bytes != UNLIMITED
        return f"{text}, and {super().clause()}" if limited else text
