"""A party that gates can block: by which it is blocked now, and what their books say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import Gate, Waiter
from penstock.flow.gate_stats import BlockStats
from penstock.flow.timers import CLOSE_ENOUGH_S

if TYPE_CHECKING:
    from penstock.core.broker import Broker


@mypyc_attr(allow_interpreted_subclasses=True)
class Blockable(Waiter):
    """What a producer is, as far as the gates' books are concerned."""

    def __init__(self, broker: Broker, name: str) -> None:
        super().__init__()
        self.broker = broker
        self.name = name
        """Who it is, for people: connection, channel and client."""
        self.came: float = broker.now
        """When it came: monotonic seconds."""
        self.gates: dict[int, Gate] = {}
        """The gates that it is blocked by, by identity."""
        self._books: dict[int, Gate] = {}
        """The gates that have an entry about it in their books."""
        self._withheld_by: Gate | None = None
        """The gate that withholds something of it and will release it, if that has just been noted."""
        self._entry_of: Gate | None = None
        """The gate whose book was looked into last, and what it says about it: messages meet the same gate in rows."""
        self._entry: BlockStats | None = None

    def blocked(self) -> bool:
        """Return whether a gate on its road is closed, or it waits for its turn."""
        return bool(self.gates)

    def mark_blocked(self, gate: Gate) -> None:
        """It met a closed gate, or stands in the line of one; told once for as long as that lasts."""
        gate.block(self)
        if id(gate) not in self.gates:
            self.gates[id(gate)] = gate
            self.entry(gate).begin(self.broker.now)
            self.broker.emit_blocked(self, gate)

    def mark_withheld(self, gate: Gate) -> None:
        """A gate withholds something of it until it opens."""
        if gate is not self._withheld_by:
            self.mark_blocked(gate)
            gate.expect(self)
            self._withheld_by = gate

    def mark_unblocked(self, gate: Gate, now: float) -> None:
        """A gate does not block it any more."""
        self._withheld_by = None
        gate.unblock(self)
        if self.gates.pop(id(gate), None) is not None:
            self.entry(gate).end(now)
            self.broker.emit_unblocked(self, gate)

    def is_stopped_at(self, gate: Gate, patience_s: float) -> bool:
        """Return whether it has waited a whole hold deadline (seconds) at a gate. See `BlockStats.is_stopped`.

        Rates are left out: their gates close with every message, and hold what comes.
        """
        closed_since = gate.stats.since
        if closed_since is None or gate.frequent:
            return False
        if id(gate) in self.gates:
            return self.entry(gate).is_stopped(closed_since, patience_s, self.broker.now)
        return self.came > closed_since and closed_since + patience_s <= self.broker.now + CLOSE_ENOUGH_S

    def mark_stops(self) -> None:
        """Have it told by which gates it is stopped now; once for each time that the gate closes."""
        for gate in self.gates.values():
            entry = self.entry(gate)
            if entry.stopped_in != gate.stats.transitions and self.is_stopped_at(gate, entry.patience_s):
                entry.stopped_in = gate.stats.transitions
                entry.stops += 1
                self.broker.emit_stopped(self, gate, entry.patience_s)

    def entry(self, gate: Gate) -> BlockStats:
        """Return its entry in the book of a gate, made at first use."""
        entry = self._entry
        if entry is None or gate is not self._entry_of:
            self._books[id(gate)] = gate
            entry = gate.stats.entry(id(self), self.name)
            entry.came = self.came
            self._entry_of = gate
            self._entry = entry
        return entry

    def stories(self) -> list[tuple[Gate, BlockStats]]:
        """Return the gates that have ever blocked it or refused it something, with what their books say about it."""
        return [(gate, gate.stats.entry(id(self), self.name)) for gate in self._books.values()]

    # What the books say about it; charges are in bytes

    def count_held(self, gate: Gate, charge: i64, messages: i64) -> None:
        """Count publishes that have to wait outside."""
        entry = self.entry(gate)
        entry.held += int(messages)
        entry.held_bytes += int(charge)

    def count_withheld(self, gate: Gate, charge: i64) -> None:
        """Count a message that went in behind a closed gate, unconfirmed."""
        entry = self.entry(gate)
        entry.withheld += 1
        entry.withheld_bytes += int(charge)

    def count_refused(self, gate: Gate, cause: str, charge: i64, why: str = "") -> None:
        """Count a publish that did not go in and never will, and have it told; see `PublishRefused` for the causes."""
        entry = self.entry(gate)
        entry.refused += 1
        entry.refused_bytes += int(charge)
        self.broker.emit_publish_refused(self, gate, cause, charge, why)

    def count_late(self, late: list[PendingConfirm]) -> None:
        """Count confirmations that go out at their deadline, each at the first gate that kept it back."""
        counts: dict[int, int] = {}
        gates: list[Gate] = []
        for pending in late:
            gate = pending.obstacle()
            if gate is not None:
                if id(gate) not in counts:
                    gates.append(gate)
                counts[id(gate)] = counts.get(id(gate), 0) + pending.publishes()
        for gate in gates:
            self.entry(gate).late += counts[id(gate)]
            self.broker.emit_confirmed_late(self, gate, counts[id(gate)])

    def leave_gates(self, now: float) -> None:
        """It goes away: nothing of it stays in any line, its entries become summaries."""
        if self.gate is not None:
            self.gate.forget(self)
        for gate in list(self._books.values()):
            gate.forget(self)
            gate.stats.depart(id(self), now)
        for gate in list(self.gates.values()):
            self.broker.emit_unblocked(self, gate)
        self._books.clear()
        self._entry = None
        self._entry_of = None
        self._withheld_by = None
        self.gates.clear()
