"""Roll of the queues of a virtual host, in order of creation, for walks in parts while queues are created and deleted.

A dictionary cannot be walked over several turns, and a copy takes time proportional to the queues. The roll is cut into
sections by the order of creation, and a queue stays in its section. A walk looks up each section when it reaches it,
and so yields every queue that exists from its first part to its last, and no queue twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.core.queue.queue import Queue

SECTION: Final = 512
"""Queues that enter a section; an empty section is dropped."""


class QueueRoll:
    """The queues of a virtual host."""

    def __init__(self) -> None:
        self._sections: dict[int, dict[str, Queue]] = {}
        """Queues by name, in sections by number."""
        self._section_of: dict[str, int] = {}
        """Number of the section, by name of a queue."""
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
        """Yield all queues, so many at a time at most; queues created meanwhile may be missing.

        A queue may have been deleted since its section was looked up.
        """
        for number in list(self._sections):
            section = self._sections.get(number)
            queues: list[Queue] = [] if section is None else list(section.values())
            for start in range(0, len(queues), most):
                yield queues[start : start + most]
