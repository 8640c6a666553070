"""What must be there after a restart, what may, and what must not: the history against what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from bench.crash.history import Copy, Fate, History, Settlement, Transaction, Violation
from bench.crash.promises import Promises
from bench.crash.topology import AGAIN, DEAD, LATER, MOVED

LATE_NS = 2_000_000_000
"""How long after its time an expired message may still be given out, in ns: brokers look at times in their own turn."""


class Found(NamedTuple):
    """A message that was there after the restart, in the order of its queue."""

    queue: str
    name: str
    redelivered: bool
    body: bytes
    number: int | None
    """Of its headers."""
    persistent: bool
    at: int
    """When it was delivered, in ns."""


class Must(Enum):
    """What a message has to be after a restart."""

    BE_THERE = "be there"
    BE_GONE = "be gone"
    EITHER = "either"


class Expected(NamedTuple):
    """What must be of a message, and why, in words."""

    must: Must
    why: str


@dataclass
class Verdict:
    """What was found of a round."""

    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    kept: list[tuple[Copy, Found]] = field(default_factory=list)
    """What is there, in the order in which it was found."""

    def blame(self, kind: str, text: str) -> None:
        """Note a promise that was broken."""
        self.violations.append(Violation(kind, text))


class Judge:
    """Judges one restart."""

    def __init__(self, history: History, promises: Promises, at: int) -> None:
        self._history = history
        self._promises = promises
        self._at = at
        """When everything had been drained, in ns."""
        self._wipes: dict[str, list[tuple[int, bool, int]]] = {}
        for wipe in history.wipes:
            sure = wipe.answered and promises.wipes
            self._wipes.setdefault(wipe.queue, []).append((wipe.begun, sure, wipe.ended))

    def judge(self, found: Iterable[Found]) -> Verdict:
        """Compare."""
        verdict = Verdict()
        there: dict[Copy, Found] = {}
        last: dict[tuple[str, str], Copy] = {}
        for one in found:
            copy = self._history.copies.get((one.queue, one.name))
            if one.queue == DEAD and not self._promises.dead_letters:
                verdict.counts["dead letters that are not judged"] += 1
                if copy is not None and copy not in there:
                    there[copy] = one
                    verdict.kept.append((copy, one))
                continue
            if copy is None:
                text = f"{one.queue} has {one.name!r}, which had left it before this round, or never was in it"
                verdict.blame("back", text)
                continue
            if copy in there:
                verdict.blame("duplicate", f"{one.name} is there twice: in {there[copy].queue} and in {one.queue}")
                continue
            there[copy] = one
            verdict.kept.append((copy, one))
            self._look_at(copy, one, verdict)
            before = last.get((one.queue, copy.publisher))
            if one.queue == copy.places[0] and one.queue not in (AGAIN, LATER):
                if before is not None and before.place > copy.place:
                    verdict.blame("order", f"{one.queue} has {before.name} before {copy.name}")
                last[one.queue, copy.publisher] = copy
        for copy in dict.fromkeys(self._history.copies.values()):
            self._expect(copy, there.get(copy), verdict)
        for transaction in self._history.transactions:
            self._halves(transaction, there, verdict)
        return verdict

    def _look_at(self, copy: Copy, one: Found, verdict: Verdict) -> None:
        where = f"{one.name} in {one.queue}"
        if one.body != copy.body():
            verdict.blame("altered", f"{where} has {len(one.body)} octets that are not the {copy.size} of its body")
        if one.persistent != copy.persistent or (copy.headers and one.number != copy.number):
            verdict.blame("altered", f"{where} has other properties than it was published with")
        settlement = copy.settlement
        if settlement is not None and settlement.stands() and one.queue == settlement.queue:
            self._look_at_settled(copy, settlement, one, verdict)
        elif copy.delivered == one.queue and not one.redelivered:
            verdict.counts["unacknowledged, back unmarked"] += 1
        self._look_at_times(copy, one, verdict)

    def _look_at_settled(self, copy: Copy, settlement: Settlement, one: Found, verdict: Verdict) -> None:
        if settlement.sure:
            verdict.blame("acknowledged back", f"{copy.name} is in {one.queue}: its acknowledgement was surely taken")
            return
        verdict.counts["acknowledged in doubt, back"] += 1
        if not one.redelivered:
            verdict.counts["acknowledged in doubt, back unmarked"] += 1
            if self._promises.marks:
                text = f"{one.name} was acknowledged in doubt, is back in {one.queue} and is not marked as redelivered"
                verdict.blame("unmarked", text)

    def _look_at_times(self, copy: Copy, one: Found, verdict: Verdict) -> None:
        if one.queue != copy.places[0] and copy.places[0] in (*MOVED, AGAIN):
            verdict.counts["transferred, found"] += 1
            return
        if one.queue == copy.places[0]:
            self._look_at_moves(copy, one, verdict)
            late = one.at - copy.taken - copy.lifetime
            if copy.lifetime and copy.taken and late > LATE_NS:
                verdict.blame("expired", f"{one.queue} gave out {one.name} {late / 1e9:.1f} s after it had expired")
        elif copy.delivered != one.queue and not (copy.settlement is not None and copy.settlement.rejected):
            if not copy.lifetime or one.at < copy.sent + copy.lifetime:
                verdict.blame("misplaced", f"{one.name} is in {one.queue}, but was not rejected and has not expired")

    def _look_at_moves(self, copy: Copy, one: Found, verdict: Verdict) -> None:
        for queue, begun in self._history.moves:
            if queue == one.queue and copy.taken and copy.taken < begun:
                verdict.blame("moved back", f"{one.name} is in {queue}, but a move of all of it was answered")
                return

    def _expect(self, copy: Copy, one: Found | None, verdict: Verdict) -> None:
        must, why = self.expected(copy)
        verdict.counts[must.value] += 1
        if must == Must.BE_THERE and one is None:
            verdict.blame("lost", f"{copy.name} is not in {' or '.join(copy.places)}: {why}")
        if must == Must.BE_GONE and one is not None and not (copy.settlement is not None and copy.settlement.sure):
            verdict.blame("back", f"{copy.name} is in {one.queue}: {why}")

    def expected(self, copy: Copy) -> Expected:
        """Return what must be of a message."""
        transaction, settlement = copy.transaction, copy.settlement
        if copy.places == (DEAD,) and not self._promises.dead_letters:
            return Expected(Must.EITHER, "it is a dead letter")
        if transaction is not None and transaction.fate in (Fate.OPEN, Fate.ROLLED_BACK):
            return Expected(Must.BE_GONE, f"{transaction.name} was {transaction.fate.value}")
        if not copy.persistent and self._promises.transients:
            return Expected(Must.BE_GONE, "it is transient, and the broker was killed")
        if settlement is not None and settlement.stands():
            return self._settled(copy, settlement)
        for begun, sure, ended in self._wipes.get(copy.places[0], ()):
            if ended and copy.sent > ended:
                continue
            if sure and copy.taken and copy.taken < begun:
                return Expected(Must.BE_GONE, "it was in the queue when that was purged or deleted, which was answered")
            return Expected(Must.EITHER, "a purge or deletion may have taken it")
        if copy.lifetime and self._at >= copy.sent + copy.lifetime:
            return self._expired(copy)
        return self._held(copy, "and nobody acknowledged it")

    def _settled(self, copy: Copy, settlement: Settlement) -> Expected:
        if settlement.rejected and settlement.queue != copy.places[-1]:
            if self._promises.dead_letters:
                return self._held(copy, "and it was rejected, which makes it a dead letter")
            return Expected(Must.EITHER, "it was rejected")
        if settlement.sure:
            return Expected(Must.BE_GONE, "its acknowledgement was surely taken")
        return Expected(Must.EITHER, "it was acknowledged, in doubt")

    def _expired(self, copy: Copy) -> Expected:
        if len(copy.places) == 1 or not self._promises.dead_letters:
            return Expected(Must.EITHER, "it may have expired")
        return self._held(copy, "and it has expired, which makes it a dead letter")

    def _held(self, copy: Copy, besides: str) -> Expected:
        if not copy.persistent:
            return Expected(Must.EITHER, "it is transient")
        if copy.transaction is not None and copy.transaction.fate == Fate.COMMITTED:
            return Expected(Must.BE_THERE, f"{copy.transaction.name} was committed {besides}")
        if copy.taken:
            return Expected(Must.BE_THERE, f"it was confirmed {besides}")
        return Expected(Must.EITHER, "it was not confirmed")

    def _halves(self, transaction: Transaction, there: dict[Copy, Found], verdict: Verdict) -> None:
        """A transaction in doubt: nothing may show that it took effect where something shows that it did not."""
        if transaction.fate != Fate.SENT:
            return
        done: list[str] = []
        undone: list[str] = []
        for copy in transaction.published:
            if not copy.persistent or copy.lifetime:
                continue
            if copy in there:
                done.append(f"{copy.name} is there")
            elif copy.settlement is None:
                undone.append(f"{copy.name} is not there")
        for copy in transaction.settled:
            if copy.settlement is None or copy.settlement.transaction is not transaction or copy.lifetime:
                continue
            if copy in there:
                undone.append(f"{copy.name} was acknowledged in it and is back")
            elif copy.persistent and copy.taken:
                done.append(f"{copy.name} was acknowledged in it and is gone")
        verdict.counts["transactions in doubt, " + ("taken" if done else "not taken")] += 1
        if done and undone:
            verdict.counts["transactions by halves"] += 1
            if self._promises.transactions:
                verdict.blame("half transaction", f"{transaction.name} was not answered: {done[0]}, but {undone[0]}")


def carry_on(history: History, verdict: Verdict) -> None:
    """Make what was found the beginning of the next round: it is in the broker now, and nothing else is."""
    history.copies.clear()
    history.wipes.clear()
    history.moves.clear()
    history.transactions.clear()
    history.violations.clear()
    for copy, one in verdict.kept:
        if one.queue != copy.places[0] and copy.places[0] != AGAIN:
            copy.publisher, copy.place, copy.lifetime = f"dead letters in {one.queue}", one.at, 0
            copy.places = copy.places[copy.places.index(one.queue) :]
        copy.taken = copy.taken or one.at
        copy.due = 0  # The witness has it sent now.
        copy.settlement = copy.transaction = None
        copy.delivered = one.queue
    history.add(copy for copy, _ in verdict.kept)
