"""Roll of the queues of a virtual host, in order of creation, to be walked in parts while queues come and go.

A dictionary cannot be walked over several turns, and a copy of it takes as long as it has queues. The roll is cut into
sections by the order of creation, and a queue stays in its section. A walk looks up each section when it comes to it,
and so has every queue that is there from its first part to its last, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.core.queue.queue import Queue

SECTION: Final = 512
"""Queues that enter a section; one with no queue left is dropped."""


class QueueRoll:
    """The queues of a virtual host."""

    def __init__(self) -> None:
        self._sections: dict[int, dict[str, Queue]] = {}
        """Queues by name, in sections by number."""
        self._section_of: dict[str, int] = {}
        """Number of its section, by name of a queue."""
        self._entered: int = 0
        """Queues that have entered so far."""

    def add(self, queue: Queue) -> None:
        """Add a new queue at the end."""
        number = self._entered // SECTION
        self._entered += 1
        self._sections.setdefault(number, {})[queue.name] = queue
        self._section_of[queue.name] = number

    def remove(self, queue: Queue) -> None:
        """Remove a queue."""
        number = self._section_of.pop(queue.name)
        section = self._sections[number]
        del section[queue.name]
        if not section:
            del self._sections[number]

    def parts(self, most: int) -> Iterator[list[Queue]]:
        """Yield all queues, so many at a time at most; those that are created meanwhile may be missing.

        A queue may have been deleted since its section was looked up.
        """
        for number in list(self._sections):
            section = self._sections.get(number)
            queues: list[Queue] = [] if section is None else list(section.values())
            for start in range(0, len(queues), most):
                yield queues[start : start + most]
