"""Deaths in all queues that are still to be handled, and waiting dead letters that may be part of a ring."""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.dead_letters import LETTER_UNITS, TARGET_UNITS, DeadLetterPublisher, Death, LetterChores
from penstock.core.publish.letter_rings import LetterRing
from penstock.flow.work import Chores


class PendingDeadLetters(LetterChores):
    """Work on dead letters, a slice a turn: deaths are published, and rings of waiting letters are turned."""

    def __init__(self, chores: Chores) -> None:
        super().__init__()
        self._chores = chores
        self._deaths: deque[tuple[DeadLetterPublisher, Death]] = deque()
        self._waiting: dict[DeadLetterPublisher, None] = {}
        """Publishers with a letter that began to wait and may close a ring."""

    @override
    def add(self, letters: DeadLetterPublisher, death: Death) -> None:
        if not death.placed:
            letters.loose += 1
        self._deaths.append((letters, death))
        self._chores.add(self)

    @override
    def look_for_ring(self, letters: DeadLetterPublisher) -> None:
        self._waiting[letters] = None
        self._chores.add(self)

    @override
    def has_more(self) -> bool:
        return len(self._deaths) > 0 or len(self._waiting) > 0

    def work(self, most: i64, now: float) -> i64:
        """Publish the dead letters recorded until now; further deaths follow in the next call."""
        left = len(self._deaths)
        spent: i64 = 0
        while left > 0 and spent < most:
            letters, death = self._deaths.popleft()
            spent += LETTER_UNITS + TARGET_UNITS * letters.publish(death)
            left -= 1
            if not death.placed:
                letters.on_published(now)
        while self._waiting and spent < most:
            letters, _ = self._waiting.popitem()
            ring = LetterRing(now)
            turned = ring.close(letters)
            spent += ring.cost(turned)
            if turned:
                ring.turn(letters.broker)
        return spent
