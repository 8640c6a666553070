"""The line of promotions: batches that have passed their gates enter their queues, one batch after another.

Theory of operation. A small batch enters in the step of its commit, if no other is before it. A large one takes a slice
of each turn as a chore does (flow/chores.py). What it needs was promised to it (promotion.py), so it never waits for
room. While it enters, nothing of the journal that is recorded after its beginning is written, so other publishers get
their confirms for stored messages at its end. That is why only one batch enters at a time, and why the next one begins
in a group of its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.journal import GROUP_BYTES
from penstock.core.publish.promotion import COPIES_A_UNIT, Promotion
from penstock.flow.chores import Chore
from penstock.flow.level import UNLIMITED
from penstock.flow.work import AT_ONCE

if TYPE_CHECKING:
    from penstock.core.publish.context import PublishContext


class PromotionLine(Chore):
    """Promotions that are decided, in their order; the first one may be entering."""

    def __init__(self, broker: PublishContext) -> None:
        super().__init__()
        self._broker = broker
        self._line: deque[Promotion] = deque()
        self._entering: bool = False
        """True while the first one is entering."""
        self._working: bool = False
        """True during `work`, whose end of one promotion may be the admission of another."""

    def add(self, promotion: Promotion) -> None:
        """Add a promotion whose commit has passed the gates; a small one enters at once if it is the first."""
        promotion.promise(self._broker.now)
        self._line.append(promotion)
        if len(self._line) == 1 and not self._working:
            self._broker.work.count(self.work(AT_ONCE // COPIES_A_UNIT, self._broker.now))
        if self._line:
            self._broker.turns.chores.add(self)

    @override
    def has_more(self) -> bool:
        return len(self._line) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        self._working = True
        spent = self._work(most, now)
        self._working = False
        return spent

    def _work(self, most: i64, now: float) -> i64:
        spent: i64 = 0
        while self._line and spent < most:
            promotion = self._line[0]
            if not self._entering and not self._begin(promotion, now):
                if self._line and self._line[0] is promotion:
                    break  # The journal has not closed the group with the end of the one before.
                spent += 1
                continue
            spent += promotion.enter(most - spent, now)
            if not promotion.has_more():
                self._end(promotion, now)
        return spent

    def finish(self) -> None:
        """Let all of them enter now: the broker stops."""
        while self._line:
            journal = self._broker.journal
            if journal is not None and not self._entering:
                journal.step()
            self.work(UNLIMITED // COPIES_A_UNIT, self._broker.now)

    def _begin(self, promotion: Promotion, now: float) -> bool:
        """Begin with the first one. Returns False if it is not entering: not yet, or it is over or refused."""
        commit = promotion.commit
        assert commit is not None
        if promotion.is_over():
            self._line.popleft()
            promotion.end(now)
            commit.pass_promoted()
            return False
        gone = promotion.error()
        if gone is not None:
            self._line.popleft()
            promotion.end(now)
            commit.refuse_promotion(gone)
            return False
        journal = self._broker.journal
        is_large = promotion.messages > AT_ONCE or promotion.bytes > GROUP_BYTES
        if journal is not None and is_large and not journal.series.begin(journal.open):
            return False
        self._entering = True
        promotion.begin(now)
        return True

    def _end(self, promotion: Promotion, now: float) -> None:
        """Show the batch, and answer."""
        self._line.popleft()
        self._entering = False
        promotion.end(now)
        commit = promotion.commit
        assert commit is not None
        commit.conclude(promotion.at_gates, self._broker.journal is not None)
        journal = self._broker.journal
        if journal is not None and journal.series.is_recorded():
            journal.series.end(journal.open)
