"""Page of a list of queues: the first ones in an order, in steps.

Most pages that are asked for are among the first. They need neither all queues in order nor an object for each: `first`
keeps the best ones so far, and what is not among these is passed over with one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.access.rules import Rules
from penstock.access.tags import ADMINISTRATOR
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.paged_list import Item
from penstock.management.queue_order import Key

FIRST_MOST: Final = 500
"""Most queues that are kept; a page further back needs a whole list in order."""
QUEUES_AT_ONCE: Final = 50
"""Queues examined between two looks at the share of the slice: a unit of work each."""

Rank = tuple[float, float, str, int, Queue]
"""Class and value of the key, name, and number in the order of creation, which no two queues have in common."""


class QueueOrder:
    """Order of queues by a key, and of equal ones by name."""

    def __init__(self, key: Callable[[Queue], Key] | None, reverse: bool) -> None:
        """Without a key the order is by name. Keys must be numbers, or missing."""
        self._key = key
        self._sign: float = -1.0 if reverse else 1.0
        self.backwards: bool = reverse and key is None
        """True if the last rank is first."""

    def rank(self, queue: Queue, number: int) -> Rank:
        """Return the rank of a queue."""
        if self._key is None:
            return 0.0, 0.0, queue.name, -number if self.backwards else number, queue
        key = self._key(queue)
        value = key[1]
        return key[0] * self._sign, value * self._sign if isinstance(value, float) else 0.0, queue.name, number, queue


class First:
    """The first queues of a list."""

    def __init__(self, count: int) -> None:
        self.items: list[Item] = []
        self.total: int = 0
        """Number of all queues that the user may see."""
        self.filtered: int = 0
        """Number of those that have the wanted text in their name."""
        self._count = count
        self._best: list[Rank] = []
        self._last: Rank | None = None
        """The last of the best, when there are as many as are wanted."""

    def offer(self, rank: Rank, backwards: bool) -> None:
        """Take a queue, unless it comes after enough others."""
        last = self._last
        if last is not None and (rank < last if backwards else rank > last):
            return
        self._best.append(rank)
        if len(self._best) >= 2 * self._count + QUEUES_AT_ONCE:
            self._cut(backwards)

    def conclude(self, backwards: bool) -> list[Queue]:
        """Return the best queues in order."""
        self._cut(backwards)
        return [rank[4] for rank in self._best]

    def _cut(self, backwards: bool) -> None:
        self._best.sort(reverse=backwards)
        del self._best[self._count :]
        if len(self._best) == self._count:
            self._last = self._best[-1]


def first_steps(
    node: Node, vhost: VirtualHost | None, rules: Rules, wanted: str, order: QueueOrder, count: int
) -> Steps[First]:
    """Return the first queues of a virtual host or of all (None) that have `wanted`, in small letters, in their name.

    Queues that are created meanwhile may be missed.
    """
    work = node.broker.work
    found = First(count)
    number = 0
    every = rules.has_tag(ADMINISTRATOR)
    homes: dict[str, VirtualHost] = {}
    for each in list(node.broker.vhosts.values()) if vhost is None else [vhost]:
        if not every and not rules.enters(each.name):
            continue
        homes[each.name] = each
        found.total += len(each.queues)
        for part in each.roll.parts(QUEUES_AT_ONCE):
            for queue in part:
                number += 1
                if not queue.deleted and (not wanted or wanted in queue.name.lower()):
                    found.filtered += 1
                    found.offer(order.rank(queue, number), order.backwards)
            work.done += QUEUES_AT_ONCE
            if work.used_up():
                yield
    found.items = [Item(queue.name, homes[queue.vhost], queue) for queue in found.conclude(order.backwards)]
    return found
