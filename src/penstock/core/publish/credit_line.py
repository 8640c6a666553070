"""Links whose credit changes in a turn: those to review, and those whose senders are to be notified.

A link that used credit, or that began to ask for more, is reviewed once at the beginning of the next turn. Then its
used credit is settled in one step, and it is granted more, or waits for that. A link that was granted credit is
notified once at the end of the turn, with all that it was granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.core.publish.sender_credit import SenderCredit

REVIEWED_A_TURN: Final = 1000
"""Most links that are reviewed in a turn; the others follow in the next one."""
REVIEW_WORK: Final = 3
"""Units of work of a review."""


class CreditLine:
    """The links of all connections whose credit changes."""

    def __init__(self) -> None:
        self._to_review: list[SenderCredit] = []
        self._changed: list[SenderCredit] = []

    def add(self, credit: SenderCredit) -> None:
        """Review a link in the next turn; the caller knows that it is not listed yet."""
        self._to_review.append(credit)

    def add_changed(self, credit: SenderCredit) -> None:
        """Notify a sender at the end of the turn; the caller knows that it is not listed yet."""
        self._changed.append(credit)

    def pending(self) -> bool:
        """Return whether links are to be reviewed."""
        return len(self._to_review) > 0

    def review(self) -> i64:
        """Review the links of this turn; returns the units of work."""
        found = self._to_review
        if not found:
            return 0
        self._to_review = found[REVIEWED_A_TURN:]
        del found[REVIEWED_A_TURN:]
        for credit in found:
            credit.review()
        return REVIEW_WORK * len(found)

    def take_changed(self) -> list[SenderCredit]:
        """Take the links whose senders are to be notified."""
        found = self._changed
        if found:
            self._changed = []
            for credit in found:
                credit.is_changed = False
        return found
