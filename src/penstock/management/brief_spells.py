"""Spells: closings of gates and blocks of producers, told one by one as long as they are few, else summed.

Theory of operation. A full queue may close and open with every message, and block every sender each time. So a spell
is told at once only if its subject had few of them in this second and the last. Any other is told when it has lasted
`LASTING_S`, with the time of its beginning. What ends before that is only summed: how many, and how long together. A
spell whose beginning was told has its end told. So what is told is whole, and with the sums nothing is missing.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.flow.gate import Gate, GateTransition

LASTING_S: Final = 0.1
"""Seconds after which a spell is told in any case."""
CLOSINGS_AT_ONCE: Final = 10
BLOCKS_AT_ONCE: Final = 2
"""Most closings of a gate, and blocks of a producer, in two seconds that are told at once."""
TOLD_A_SECOND: Final = 200
"""Most beginnings told in a second; further spells are told in the next ones if they last, else summed."""
SUMS_KEPT: Final = 500
"""Most sums of one producer in a second; those of further producers are one for each gate."""
SUBJECTS_KEPT: Final = 1_000
"""Most subjects of a second whose spells are counted; those of further ones are told when they last."""
Key = tuple[int, int]
"""Subject of a spell, by identity: a gate or a producer, or a producer and a gate."""


class Spell:
    """A closing of a gate, or a block of a producer at it, that has begun."""

    __slots__ = ("gate", "since", "producer", "closing")

    def __init__(
        self, gate: Gate, since: float, producer: WaitingPublisher | None, closing: GateTransition | None = None
    ) -> None:
        self.gate = gate
        self.since = since
        """Monotonic seconds."""
        self.producer = producer
        """None for a closing."""
        self.closing = closing
        """None for a block."""


class SpellSum:
    """Sum of spells of a second that were not told one by one: of one producer at a gate, or of a gate."""

    __slots__ = ("first", "producer", "count", "total_s", "messages", "bytes")

    def __init__(self, first: Spell, producer: WaitingPublisher | None) -> None:
        self.first = first
        """The first of them, which gives gate and time."""
        self.producer = producer
        """None for closings, and for producers that were too many."""
        self.count: int = 0
        self.total_s: float = 0.0
        """Their time together, in seconds."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Highest depth at a closing."""

    def add(self, spell: Spell, now: float) -> None:
        """Add a spell that ends."""
        self.count += 1
        self.total_s += now - spell.since
        if spell.closing is not None:
            self.messages = max(self.messages, spell.closing.messages)
            self.bytes = max(self.bytes, spell.closing.bytes)


class Spells:
    """The spells of one kind, for one log."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        """Most spells of one subject in two seconds that are told at once."""
        self._unreported: dict[Key, Spell] = {}
        """Spells that last and are not told, oldest first."""
        self._begun: dict[Key, tuple[Spell, int]] = {}
        self._begun_before: dict[Key, tuple[Spell, int]] = {}
        """Spells that began in this second, and in the last one: the first of a subject, and their number.

        The spell keeps its subject alive, so that no new one has its identity.
        """
        self._reported: int = 0
        """Beginnings told in this second."""
        self._sums: dict[Key, SpellSum] = {}
        """By gate and producer, with 0 for none."""
        self._done: list[SpellSum] = []
        """Sums of closings before one that was told: whoever reads them in order knows the last opening."""

    def cross(self, crossing: GateTransition) -> bool:
        """Begin or end the spell of a gate that closed or opened; return whether that is to be told now."""
        key = (id(crossing.gate), 0)
        if crossing.closed:
            return self.begin(key, Spell(crossing.gate, crossing.now, None, crossing))
        return self.end(key, crossing.now)

    def begin(self, key: Key, spell: Spell) -> bool:
        """Begin a spell; return whether its beginning is to be told now."""
        if self._is_rare(key, spell) and self._reported < TOLD_A_SECOND:
            self._reported += 1
            return True
        self._unreported[key] = spell
        return False

    def _is_rare(self, key: Key, spell: Spell) -> bool:
        """Count a spell; return whether its subject has few of them."""
        first, begun = self._begun.get(key, (spell, 0))
        if not begun and len(self._begun) >= SUBJECTS_KEPT:
            return False
        self._begun[key] = (first, begun + 1)
        _, before = self._begun_before.get(key, (spell, 0))
        return begun + 1 + before <= self._at_once

    def end(self, key: Key, now: float) -> bool:
        """End a spell; return whether that is to be told: else it is summed."""
        spell = self._unreported.pop(key, None)
        if spell is None:
            done = self._sums.pop(key, None)
            if done is not None:
                self._done.append(done)
            return True
        producer = spell.producer
        place = (id(spell.gate), 0 if producer is None else id(producer))
        if place not in self._sums and len(self._sums) >= SUMS_KEPT:
            place, producer = (id(spell.gate), 0), None
        found = self._sums.get(place)
        if found is None:
            found = SpellSum(spell, producer)
            self._sums[place] = found
        found.add(spell, now)
        return False

    def lasting(self, now: float) -> list[Spell]:
        """Take the spells whose beginning is to be told because they last, oldest first."""
        found: list[Spell] = []
        untold = self._unreported
        while untold and self._reported < TOLD_A_SECOND:
            key = next(iter(untold))
            if untold[key].since + LASTING_S > now:
                break
            found.append(untold.pop(key))
            self._reported += 1
        return found

    def tick(self) -> list[SpellSum]:
        """Begin a second; return the sums of the last one."""
        self._begun_before = self._begun
        self._begun = {}
        self._reported = 0
        sums = [*self._done, *self._sums.values()]
        self._done.clear()
        self._sums.clear()
        return sums
