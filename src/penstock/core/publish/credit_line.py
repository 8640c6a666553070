"""Links whose credit changes in a turn: links to review, waiting links, and links whose senders must be notified.

A link that used credit, or that began to ask for more, is reviewed once at the beginning of the next turn. Then its
used credit is settled in one step, and the link is granted more, or waits. A link that was granted credit is notified
once at the end of the turn, with the sum of its grants. A change of the topology may remove the gate where a link waits
from its road, so all waiting links of that virtual host are reviewed.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.credit_state import CreditCounts, CreditState
from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.hold_room import HoldShare
from penstock.core.routing.topology import Topology
from penstock.flow.gate import Waiter
from penstock.flow.reserved_room import Party

REVIEWED_A_TURN: Final = 1000
"""Most links that are reviewed in a turn; the others follow in the next turn."""
REVIEW_WORK: Final = 3
"""Units of work of a review."""


class CreditedLink(Waiter):
    """A link whose sender has credit: the credit left, and whether to review or notify the link."""

    def __init__(
        self, line: CreditLine, vhost: Topology, window: CreditWindow, hold: HoldShare, party: Party | None, now: float
    ) -> None:
        super().__init__(party, True)
        self.line = line
        self.vhost = vhost
        self.window = window
        self.hold = hold
        self.credit: i64 = 0
        """Messages that were granted and have not arrived: the sender may still send them."""
        self.counts = CreditCounts()
        self.state: CreditState = CreditState.IN_USE
        self.used_at: float = now
        """Time of the last grant or settled message: monotonic seconds."""
        self.is_listed: bool = False
        """True if the link is to be reviewed in the next turn."""
        self.is_changed: bool = False
        """True if the sender is to be notified at the end of this turn."""

    def schedule_review(self) -> None:
        """Review the link in the next turn."""
        if not self.is_listed and self.state is not CreditState.CLOSED:
            self.is_listed = True
            self.line.add(self)

    def notify(self) -> None:
        """Notify the sender at the end of this turn."""
        if not self.is_changed:
            self.is_changed = True
            self.line.add_changed(self)

    def review(self) -> None:
        """Settle the used credit, and request more if there is demand. The line calls this once a turn."""
        raise NotImplementedError

    def settle(self, now: float) -> None:
        """Release the room of the messages that arrived since the last call."""
        raise NotImplementedError

    def recall(self, beyond_share: bool, now: float) -> None:
        """Release idle room; see `RoomHolder.recall`."""
        raise NotImplementedError

    def report_blocked(self) -> None:
        """Report the gate at which the link waits, if its sender has no credit: once for each wait."""
        raise NotImplementedError

    def announce(self) -> None:
        """Write the present credit to the client. The driver calls this at the end of a turn."""
        raise NotImplementedError


class WaitingLinks:
    """The links of one virtual host that wait for credit."""

    __slots__ = ("vhost", "epoch", "links")

    def __init__(self, vhost: Topology) -> None:
        self.vhost = vhost
        self.epoch: i64 = vhost.epoch
        """Epoch of the topology in which the links' roads were last looked up."""
        self.links: dict[int, CreditedLink] = {}
        """Links by identity."""


class CreditLine:
    """The links of all connections whose credit changes."""

    def __init__(self) -> None:
        self._to_review: list[CreditedLink] = []
        self._changed: list[CreditedLink] = []
        self._began_to_wait: list[CreditedLink] = []
        self._waiting: dict[str, WaitingLinks] = {}
        """Waiting links by virtual host."""

    def add(self, credit: CreditedLink) -> None:
        """Review a link in the next turn; the caller knows that the link is not listed yet."""
        self._to_review.append(credit)

    def add_changed(self, credit: CreditedLink) -> None:
        """Notify a sender at the end of the turn; the caller knows that the sender is not listed yet."""
        self._changed.append(credit)

    def begin_wait(self, credit: CreditedLink) -> None:
        """Add a link that waits at a gate, or that moves to another gate."""
        vhost = credit.vhost
        waiting = self._waiting.get(vhost.name)
        if waiting is None or waiting.vhost is not vhost:
            waiting = WaitingLinks(vhost)
            self._waiting[vhost.name] = waiting
        waiting.links[id(credit)] = credit
        self._began_to_wait.append(credit)

    def end_wait(self, credit: CreditedLink) -> None:
        """Remove a link that stopped waiting."""
        waiting = self._waiting.get(credit.vhost.name)
        if waiting is not None and waiting.links.pop(id(credit), None) is not None and not waiting.links:
            del self._waiting[credit.vhost.name]

    def pending(self) -> bool:
        """Return whether links are to be reviewed."""
        return len(self._to_review) > 0

    def review(self) -> i64:
        """Review the links of this turn; returns the units of work."""
        if self._waiting:
            for waiting in self._waiting.values():
                if waiting.epoch != waiting.vhost.epoch:
                    waiting.epoch = waiting.vhost.epoch
                    for credit in waiting.links.values():
                        credit.schedule_review()
        to_review = self._to_review
        if not to_review:
            return 0
        self._to_review = to_review[REVIEWED_A_TURN:]
        del to_review[REVIEWED_A_TURN:]
        for credit in to_review:
            credit.review()
        return REVIEW_WORK * len(to_review)

    def report_blocked(self) -> None:
        """Report the links that began to wait in this turn, and still have no credit."""
        waiting = self._began_to_wait
        if waiting:
            self._began_to_wait = []
            for credit in waiting:
                credit.report_blocked()

    def take_changed(self) -> list[CreditedLink]:
        """Take the links whose senders must be notified."""
        changed = self._changed
        if changed:
            self._changed = []
            for credit in changed:
                credit.is_changed = False
        return changed
