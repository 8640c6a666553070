"""Units of work: publishes of several producers and settlements of several sessions, committed together.

Theory of operation. A unit belongs to one connection. No change takes effect before the commit. Publishes are stored
with the queues of their routes, and count in the hold budget of the connection. Settlements are checked at once and
recorded. Their deliveries stay unsettled: they still count in the depth of their queue and in the prefetch, so a
rollback need not undo them.

One producer of the connection, the coordinator's, answers for all its units. Its outbox contains the held commits, its
hold deadline ends their wait, and its confirms number the answers to commits and rollbacks, in order. A commit passes
as a whole in one turn (core/publish/unit_commit.py). In confirm mode a refused commit is one refused confirm. Otherwise
it closes the session of that producer, as class tx of AMQP 0-9-1 requires (core/publish/unit_of_work.py).

A client may request another answer at the hold deadline (`Coordinator.keeps_refused`): the unit is open again, with all
its operations, and the client commits it again or rolls it back (decision 88). Commits that are held behind it are
refused with it, and all of them become part of the open unit, in order. A rollback that was requested behind a held
commit drops the commit when it is refused.

Several units may be open at a time. A delivery is settled in one of them only, so the coordinator records the tags.

The end of a session rolls back every unit that it, or one of its producers, took part in, as a whole. AMQP 1.0 (part 4)
requires this only for the end of the coordinator's link. But deliveries of an ended session return to their queues
(part 3): their settlements are lost, and committing only the rest would not be atomic. RabbitMQ has transactions in
AMQP 0-9-1 only, each of one channel, and rolls back when the channel closes. A single link may be closed within a unit:
its publishes stay part of the unit, as JMS requires when a MessageProducer is closed before the commit.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.core.consume.bulk_requeue import settle_batches
from penstock.core.consume.consumer import Batch
from penstock.core.consume.outcome import AddedHeaders, Outcome
from penstock.core.consume.session import Session
from penstock.core.publish import admission
from penstock.core.publish.admission import NOT_PREPAID
from penstock.core.publish.commit_delta import (
    RETURN_SIZE,
    SIZE_MOST,
    Settlement,
)
from penstock.core.publish.held import ENDED, HeldPublish
from penstock.core.publish.outbox import Held
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_commit import RowBatch, UnitCommit, UnitSums, sums_of
from penstock.core.publish.waiting_publisher import end_hold
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, PreconditionFailed, ResourceError
from penstock.flow.gate import ROLLED_BACK
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER

COMMIT_WORK: Final = 8
"""Units of work to judge a commit, in addition to the units of its method."""
SIZE_A_UNIT: Final = 2
"""Size of a commit that is summed up, or rolled back, with one unit of work."""
SETTLED_AT_ONCE: Final = 1_000
"""Deliveries of a range that are looked up together."""
COMMITS_HELD_MOST: Final = 4_096
"""Most held commits of a producer; held commits are refused together."""
ALL: Final = 0
"""The delivery tag that means all deliveries, with `multiple` (AMQP 0-9-1 section 1.8.3.13)."""


class SettledTags:
    """Deliveries of one session that units have settled and that are not in their queues yet."""

    __slots__ = ("session", "tags", "upto")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tags: set[int] = set()
        """Tags of held commits included."""
        self.upto: i64 = 0
        """All deliveries up to this tag are settled, in a unit or finally."""

    def discard(self, first: i64, last: i64) -> None:
        """Forget deliveries with the tags `first`..`last`, all of which units have settled."""
        if first == last:
            self.tags.discard(first)
        else:
            self.tags.difference_update(range(int(first), int(last) + 1))


class Coordinator:
    """The units of work of one connection for which one producer answers."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.keeps_refused: bool = False
        """True if a commit that is refused at its hold deadline leaves its unit open, for another attempt."""
        self.units: dict[int, UnitOfWork] = {}
        """Open units, by identity."""
        self.size: i64 = 0
        """Size of the open units and held commits together."""
        self.committed: i64 = 0
        """Number of commits requested so far."""
        self.renounced: i64 = 0
        """Number of the last commit behind which a rollback was requested: it is not committed again."""
        self._settled: dict[int, SettledTags] = {}
        """Provisional settlements by the identity of the session."""

    def begin(self) -> UnitOfWork:
        """Open a unit of work."""
        unit = UnitOfWork(self)
        self.units[id(unit)] = unit
        return unit

    def settled_tags(self, session: Session) -> SettledTags:
        """Return the provisional settlements of a session."""
        tags = self._settled.get(id(session))
        if tags is None:
            tags = SettledTags(session)
            self._settled[id(session)] = tags
        return tags

    def forget(self, settlements: list[Settlement]) -> None:
        """Forget provisional settlements that were rolled back."""
        for settlement in settlements:
            settled = self.settled_tags(settlement.session)
            settled.tags.discard(settlement.tag)
            settled.upto = 0

    def has_room(self, size: i64) -> bool:
        """Return whether the open units and held commits may grow by this size."""
        return self.size + size <= SIZE_MOST

    def reopen(self, units: list[UnitOfWork]) -> None:
        """Open units again whose commits were refused together: all become one unit, before later operations.

        Units behind which a rollback was requested are dropped.
        """
        holding = self.producer.hold_budget
        kept: list[UnitOfWork] = []
        for unit in units:
            if unit.number <= self.renounced:
                self.forget(unit.settlements)
                unit.leave_account()
                continue
            holding.take(unit.sums.bytes, unit.sums.messages)
            holding.uncommitted += unit.sums.bytes
            kept.append(unit)
        if not kept:
            return
        following = next(iter(self.units.values()), None)
        if following is None:
            following = kept.pop()
            self.units[id(following)] = following
        following.put_before(kept)

    def answer(self) -> None:
        """Number an answer that only waits for earlier answers."""
        withheld = self.producer.confirms
        if withheld.pending:
            withheld.withhold([], NEVER)
        else:
            withheld.published += 1
        self.producer.schedule_confirms()

    def roll_back_all(self, error: BrokerError) -> None:
        """Roll back every unit for a reason. Held commits are refused."""
        for unit in list(self.units.values()):
            unit.fail(error)
        withdrawn = self._held_commits()
        if withdrawn:
            outbox = self.producer.outbox
            remaining: deque[Held] = deque([held for held in outbox if not isinstance(held, UnitCommit)])
            first_changes = withdrawn[0] is outbox[0]
            self.producer.outbox = remaining
            for commit in withdrawn:
                self.producer.hold_budget.release(commit.charge, commit.messages)
                end_hold(self.producer, commit, ROLLED_BACK, str(error))
                commit.refuse(error)
            if first_changes:
                self.producer.rejoin_line(self.producer.broker.now)
            self.producer.after_release(self.producer.broker.now)

    def _held_commits(self) -> list[UnitCommit]:
        return [held for held in self.producer.outbox if isinstance(held, UnitCommit)]

    def end(self) -> None:
        """Roll back everything when the coordinator's session closes, held commits included."""
        for unit in list(self.units.values()):
            unit.drop()
        self.units.clear()
        producer = self.producer
        outbox = producer.outbox
        dropped = False
        while outbox and isinstance(outbox[len(outbox) - 1], UnitCommit):
            held = outbox.pop()
            producer.hold_budget.release(held.charge, held.messages)
            end_hold(producer, held, ENDED)
            dropped = True
        if dropped and not outbox:
            producer.rejoin_line(producer.broker.now)
        self._settled.clear()


class UnitOfWork:
    """Publishes and settlements until their commit or rollback."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.publishes: list[HeldPublish] = []
        self.settlements: list[Settlement] = []
        self.error: BrokerError | None = None
        """The reason of its rollback by the broker; None without one."""
        self.sums = UnitSums()
        """Sums of the publishes."""
        self.size: i64 = 0
        """The unit's part of the size that its coordinator counts; at most `SIZE_MOST`."""
        self.number: i64 = 0
        """Number of the unit's last commit at its coordinator; 0 before the first."""
        self.batch: RowBatch | None = None
        """The batch of a query that is published with the unit; usually None."""

    def add_publish(self, producer: Producer, route: Route, content: bytes, charge: i64) -> None:
        """Store a publish of any producer of the connection until the commit.

        Raises ContentTooLarge (311) if the message can never fit, ResourceError (506) beyond the hold budget of the
        connection or the largest commit, or the error of a unit that was rolled back. After an error only this publish
        is missing.
        """
        self._check_open()
        if route.control:
            return  # A request to the broker is not part of a unit, and was handled at once.
        holding = self.coordinator.producer.hold_budget
        never = admission.too_large_error(route, route.queues, charge, producer.broker.now)
        if never is not None:
            raise never
        if not holding.fits(charge):
            raise ResourceError(
                f"publish in a transaction refused: {holding.messages:,} publishes ({holding.bytes:,} bytes) are "
                f"held for this connection already, the limit is {holding.bound:,} bytes; nothing was applied"
            )
        size = self.sums.size_of(route)
        if not self.coordinator.has_room(size):
            raise self._size_error(f"publish to {len(route.queues):,} queues", size)
        prepaid = NOT_PREPAID if producer.credit is None else producer.credit.prepaid_for(route)
        held = HeldPublish(producer, route, content, charge, None, NEVER, prepaid)
        self.publishes.append(held)
        self.sums.add(held)
        self._grow(size)
        producer.broker.work.count(len(route.queues))
        holding.take(charge, 1)
        holding.uncommitted += charge

    def settle(self, session: Session, tag: i64, multiple: bool, outcome: Outcome) -> None:
        """Settle one delivery, or all up to and including `tag` (0: all), at the commit.

        Raises PreconditionFailed (406) for a tag that is unknown or settled in a unit already, ResourceError (506)
        beyond the largest commit, or the error of a unit that was rolled back.
        """
        self._check_open()
        settled = self.coordinator.settled_tags(session)
        first, last = tag, tag
        if multiple:
            first = settled.upto + 1
            if tag == ALL:
                last = session.unsettled.last_number()
        if (tag != ALL or not multiple) and (tag in settled.tags or not session.unsettled.deliveries(tag, tag)):
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        self.settle_range(session, first, last, outcome)
        if multiple:
            settled.upto = last

    def settle_range(
        self,
        session: Session,
        first: i64,
        last: i64,
        outcome: Outcome,
        added: AddedHeaders | None = None,
        most: i64 = UNLIMITED,
    ) -> i64:
        """Settle the deliveries with tags `first`..`last` at the commit; deliveries settled already are left out.

        At most `most` are settled; returns their number. Raises ResourceError (506) beyond the largest commit: the unit
        then lacks the rest, and must be dropped.
        """
        coordinator = self.coordinator
        tags = coordinator.settled_tags(session).tags
        size: i64 = 1 if outcome is Outcome.ACCEPTED else RETURN_SIZE
        settled: i64 = 0
        try:
            while settled < most:
                found = session.unsettled.deliveries(first, last, SETTLED_AT_ONCE)
                if not found:
                    break
                for number, queue, message in found:
                    if number in tags:
                        continue
                    if settled >= most:
                        break
                    if not coordinator.has_room(size):
                        raise self._size_error("settlement", size)
                    tags.add(number)
                    self.settlements.append(Settlement(session, number, queue, message, outcome, added))
                    self._grow(size)
                    settled += 1
                first = i64(found[len(found) - 1][0]) + 1
        finally:
            coordinator.producer.broker.work.count(settled)
        return settled

    def commit(self) -> bool:
        """Apply the unit, or hold it until all of it has room, or refuse it without any change.

        The answer is one more confirm of the coordinator's producer. Returns False, without effect, if that producer is
        closing.
        """
        producer = self.coordinator.producer
        broker = producer.broker
        broker.run_waiting()
        if producer.closing is not None:
            return False
        self._finish()
        coordinator = self.coordinator
        coordinator.committed += 1
        self.number = coordinator.committed
        commit = UnitCommit(self)
        broker.work.count(COMMIT_WORK + self.size // SIZE_A_UNIT)
        producer.hold_budget.uncommitted -= commit.charge
        if self.error is not None:
            commit.refuse(self.error)
            return True
        outbox = producer.outbox
        obstacle = commit.gate_for_new_publish(producer.own, broker.now, broker.turns.pending)
        can_fit = obstacle is not None or commit.never_fits() is None
        # Acknowledgements alone wait only for an earlier commit.
        behind = bool(outbox) and (commit.messages > 0 or isinstance(outbox[len(outbox) - 1], UnitCommit))
        if can_fit and (behind or obstacle is not None):
            if len(outbox) >= COMMITS_HELD_MOST:
                producer.hold_budget.release(commit.charge, commit.messages)
                commit.refuse(
                    ResourceError(
                        f"commit refused and rolled back: {len(outbox):,} of the session are held, the limit is "
                        f"{COMMITS_HELD_MOST:,}. Wait for the answers to earlier commits"
                    )
                )
                return True
            commit.deadline = producer.deadline_of(commit.queues)
            commit.pending = producer.confirms.hold(commit.deadline)
            producer.wait_in_line(commit, obstacle)
        else:
            producer.hold_budget.release(commit.charge, commit.messages)
            commit.admit()
        return True

    def rollback(self) -> bool:
        """Drop the publishes and settlements; the deliveries stay unsettled (as in RabbitMQ).

        The answer is one more confirm of the coordinator's producer. Returns False, without effect, if that producer is
        closing.
        """
        if self.coordinator.producer.closing is not None:
            return False
        self._finish()
        coordinator = self.coordinator
        coordinator.producer.broker.work.count(self.size // SIZE_A_UNIT)
        self.drop()
        coordinator.renounced = coordinator.committed
        coordinator.answer()
        return True

    def is_open(self) -> bool:
        """Return whether the unit may be committed: no commit or rollback was requested, or the commit was refused."""
        return self.error is None and id(self) in self.coordinator.units

    def put_before(self, earlier: list[UnitOfWork]) -> None:
        """Put the publishes and settlements of earlier units before its own."""
        publishes: list[HeldPublish] = []
        settlements: list[Settlement] = []
        for unit in [*earlier, self]:
            publishes += unit.publishes
            settlements += unit.settlements
        self.publishes = publishes
        self.settlements = settlements
        self.sums = sums_of(publishes)
        for unit in earlier:
            self.size += unit.size
            unit.size = 0

    def leave_account(self) -> None:
        """Stop counting in the size of the coordinator: the unit is applied, or rolled back."""
        self.coordinator.size -= self.size
        self.size = 0

    def fail(self, error: BrokerError) -> None:
        """Roll back an open unit: its commit will be refused with this error."""
        self.error = error
        self.drop()

    def drop(self) -> None:
        """Drop the publishes and settlements without an answer."""
        holding = self.coordinator.producer.hold_budget
        holding.uncommitted -= self.sums.bytes
        holding.release(self.sums.bytes, self.sums.messages)
        self.publishes = []
        self.sums = UnitSums()
        self.coordinator.forget(self.settlements)
        self.settlements = []
        self.leave_account()

    def _grow(self, size: i64) -> None:
        self.size += size
        self.coordinator.size += size

    def _size_error(self, subject: str, size: i64) -> ResourceError:
        """Return the error of a publish or a settlement that would make its commit too large."""
        return ResourceError(
            f"{subject} in a transaction refused: its size is {int(self.coordinator.size):,} with held commits, and "
            f"{int(size):,} more would pass the limit of {SIZE_MOST:,} (copies, queues, settlements); nothing was "
            "applied, commit more often"
        )

    def _finish(self) -> None:
        self.coordinator.units.pop(id(self), None)

    def _check_open(self) -> None:
        if self.error is not None:
            raise self.error


@mypyc_attr(allow_interpreted_subclasses=True)
class Transaction:
    """The transactional mode of a session and its producer: the open unit of work, and held commits."""

    def __init__(self, session: Session, producer: Producer) -> None:
        self.session = session
        self.producer = producer
        self.coordinator = Coordinator(producer)
        self.unit = self.coordinator.begin()
        producer.transaction = self
        producer.disable_fast_path()

    def add_publish(self, route: Route, content: bytes, charge: i64) -> None:
        """Store a publish until the commit; a publish that can never fit, or is beyond the limit, closes the
        session.
        """
        try:
            self.unit.add_publish(self.producer, route, content, charge)
        except BrokerError as error:
            self.producer.close(error)

    def settle(self, tag: i64, multiple: bool, outcome: Outcome) -> None:
        """See `UnitOfWork.settle`."""
        self.unit.settle(self.session, tag, multiple, outcome)

    def recover(self) -> None:
        """Requeue every delivery that no transaction of the session has settled (basic.recover).

        Many deliveries are requeued in later turns.
        """
        unsettled = self.session.unsettled
        batches: list[Batch] = []
        first: i64 = 1
        for tag in sorted(self.coordinator.settled_tags(self.session).tags):
            batches += unsettled.detach(first, tag - 1)
            first = tag + 1
        batches += unsettled.detach(first, unsettled.last_number())
        settle_batches(self.producer.broker, batches, Outcome.FAILED)

    def commit(self) -> None:
        """Apply the transaction, or hold it until all of it has room; or close the session without any change."""
        if self.unit.commit():
            self.unit = self.coordinator.begin()

    def rollback(self) -> None:
        """Drop the publishes and settlements; the deliveries stay unsettled (as in RabbitMQ)."""
        if self.unit.rollback():
            self.unit = self.coordinator.begin()

    def answer(self) -> None:
        """Number an answer that only waits for earlier answers."""
        self.coordinator.answer()

    def end(self) -> None:
        """Roll back all uncommitted operations when the session closes, held commits included."""
        self.coordinator.end()
