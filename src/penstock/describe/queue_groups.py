"""Queues by group: the first ones of each in an order, and the number of queues in all groups."""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.core.broker import Broker
from penstock.core.queue.queue import Queue
from penstock.describe.lists import Search
from penstock.describe.queue_state import CHOICES, DEAD, GROUPS, group_of, has_dead_letters
from penstock.describe.table import Field, Reading, Row

GROUP_COLUMN: Final = "penstock.state.rank"
"""Column that has the number of a queue's group."""


class GroupCounts:
    """Numbers of queues by group, and of those with dead letters; and the sum of their depths."""

    def __init__(self) -> None:
        self._counts: list[int] = [0] * len(CHOICES)
        self._messages: int = 0
        self._bytes: int = 0

    def add(self, queue: Queue, group: int, dead: bool) -> None:
        """Count a queue of a group, which may have dead letters."""
        self._counts[group] += 1
        self._messages += queue.depth_messages()
        self._bytes += queue.depth_bytes()
        if dead:
            self._counts[len(GROUPS)] += 1

    def row(self) -> Row:
        """Return the numbers by the words of groups, and the sum of the depths."""
        counts = dict(zip(CHOICES, self._counts, strict=True))
        return {"groups": counts, "depth": {"messages": self._messages, "bytes": self._bytes}}


def is_in(choice: str, queue: Queue, broker: Broker) -> bool:
    """Return whether a queue is in a group, or has dead letters (`DEAD`)."""
    return has_dead_letters(queue) if choice == DEAD else GROUPS[group_of(queue, broker)] == choice


class GroupOrder(Search):
    """Order of queues by group, in each by a number, and among equals by name; without a number by name.

    Only queues whose name contains a text in lower case are counted, and of these only a choice is returned.
    """

    def __init__(
        self,
        number: Field[Queue] | None,
        reverse: bool,
        count: int,
        choice: str,
        wanted: str = "",
        asker: Connection | None = None,
    ) -> None:
        super().__init__(count, False)
        self.counts = GroupCounts()
        self._number = number
        self._sign: float = -1.0 if reverse else 1.0
        self._choice = choice
        self._wanted = wanted
        self._asker = asker

    @override
    def examine(self, queues: list[Queue], at: Reading) -> None:
        wanted, asker, number, sign, choice = self._wanted, self._asker, self._number, self._sign, self._choice
        broker = at.broker
        for queue in queues:
            if queue.deleted or (asker is not None and queue.owner is asker):
                continue
            self.total += 1
            if wanted and wanted not in queue.name.lower():
                continue
            group, dead = group_of(queue, broker), has_dead_letters(queue)
            self.counts.add(queue, group, dead)
            if choice and not (dead if choice == DEAD else GROUPS[group] == choice):
                continue
            self.filtered += 1
            value = None if number is None else number.value(queue, at)
            if isinstance(value, (int, float)):
                self.best.offer((float(group), sign, value * sign, queue.name), queue)
            else:  # A missing number is before all numbers, as in `key_of`.
                self.best.offer((float(group), 0.0, 0.0, queue.name), queue)
