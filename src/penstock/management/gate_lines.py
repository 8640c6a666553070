"""Log lines of gates that close and open, and of channels that they block: one by one while they are few, else summed.

See brief_spells.py for what is told one by one. Sums are one line a second for each gate.
"""

from __future__ import annotations

from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.flow.gate import Gate, GateTransition
from penstock.management import log_messages
from penstock.management.brief_spells import BLOCKS_AT_ONCE, CLOSINGS_AT_ONCE, Spell, Spells, SpellSum
from penstock.protocols.common.log_line import LogLine


class GateLines:
    """Log lines of the gates of one broker. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._closings = Spells(CLOSINGS_AT_ONCE)
        self._blocks = Spells(BLOCKS_AT_ONCE)

    def crossed(self, crossing: GateTransition) -> LogLine | None:
        """Return the line of a transition; None if it is told later, or summed."""
        return log_messages.crossed(crossing) if self._closings.cross(crossing) else None

    def blocked(self, producer: WaitingPublisher, gate: Gate, now: float) -> LogLine | None:
        """Return the line of a producer that the first gate blocks; None if it is told later, or summed."""
        told = self._blocks.begin((id(producer), 0), Spell(gate, now, producer))
        return log_messages.blocked(producer, gate) if told else None

    def unblocked(self, producer: WaitingPublisher, gate: Gate, now: float) -> LogLine | None:
        """Return the line of a producer that no gate blocks any more; None if its block is summed."""
        told = self._blocks.end((id(producer), 0), now)
        return log_messages.unblocked(producer, gate) if told else None

    def lasting(self, now: float) -> list[LogLine]:
        """Take the lines of closings and blocks that were not told and last."""
        lines = [log_messages.crossed(each.closing) for each in self._closings.lasting(now) if each.closing is not None]
        for each in self._blocks.lasting(now):
            if each.producer is not None:
                lines.append(log_messages.blocked(each.producer, each.gate))
        return lines

    def tick(self) -> list[LogLine]:
        """Take the lines of the sums of a second."""
        lines = [log_messages.closed_briefly(each) for each in self._closings.tick()]
        gates: dict[int, list[SpellSum]] = {}
        for each in self._blocks.tick():
            gates.setdefault(id(each.first.gate), []).append(each)
        return lines + [log_messages.blocked_briefly(sums) for sums in gates.values()]
