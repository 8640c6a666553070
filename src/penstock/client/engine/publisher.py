"""Publisher of the client: room, the line of waiting calls, time-outs and warnings.

Theory of operation. A message is written in one step with its entry in the window: there is no wait between the
encoding and the return of `publish`. So a call that is cancelled, or times out, in `place` has written nothing.
Messages without an outcome stay in the window (`window.py`), and are sent again after a reconnect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from penstock.client.engine import outcomes as causes
from penstock.client.engine.connection import Engine, Unit
from penstock.client.engine.events import PUBLISHER_CLOSED, REPLAY_UNCERTAIN, WARNING, Event
from penstock.client.engine.lane import PublisherLane, new_lane
from penstock.client.engine.messages import Message
from penstock.client.engine.outcomes import (
    CONFIRMED,
    PENDING,
    REFUSED,
    UNKNOWN,
    Blocked,
    ConfirmTimeout,
    FlowControlTimeout,
    Receipt,
    ReplayUncertain,
)
from penstock.client.engine.terms import PublisherTerms
from penstock.client.engine.waits import Call, Steps, Wait
from penstock.client.engine.window import UNLIMITED, Room, SendResult
from penstock.client.errors import ClientError, LinkClosed
from penstock.flow.timers import NEVER
from penstock.markers import override

REFUSED_BEFORE: Final = "refused before the connection was lost"
MARK_LOST: Final = "the connection was lost, and the broker does not know any more what it took"
"""Reasons of outcomes that a mark decides, or that its loss leaves unknown."""
HOLD_DEADLINE: Final = "penstock:hold-deadline"
"""Property of a broker: milliseconds after which it refuses a held message."""
WITHDRAWN_WITHIN: Final = 5.0
"""Most seconds of the wait for the answer to a withdrawal and the outcome after it."""
ASKED_AGAIN: Final = 1.0
"""Least seconds of this wait, and the wait at a silent broker, which may answer in a moment."""


class PublisherCore(Room):
    """Publisher of one protocol; a protocol writes messages and sets when it may."""

    def __init__(self, engine: Engine, terms: PublisherTerms) -> None:
        super().__init__(engine, terms)
        self.is_closing: bool = False
        self.notice_at: float = NEVER
        self.sends: i64 = 0
        """Calls of `send` that wait for an outcome."""
        self.lane: PublisherLane | None = new_lane(engine.terms.producer, terms, engine.tally)
        """Lane at Penstock; None without one."""
        self.results: list[SendResult] = []
        """Results of `send_many` that are awaited."""
        self.waits: int = 0
        """Number of messages that had to wait for room."""
        self.waited: float = 0.0
        """Total seconds that these messages have waited."""
        self.timed_out: int = 0
        """Number of messages that were not sent before their time-out."""
        self.replayed: int = 0
        """Messages that were sent again after a loss of the connection."""
        self.unit: Unit | None = None
        """Transaction of the messages, whose commit decides their outcome. None outside of a transaction."""

    # Implemented by a protocol

    def attach(self) -> None:
        """Begin with the present transport."""
        raise NotImplementedError

    def write(self, body: bytes) -> None:
        """Write a message with this body and no own properties."""
        raise NotImplementedError

    def write_message(self, message: Message) -> None:
        """Write a message; raises before anything is written."""
        raise NotImplementedError

    def ask_room(self) -> None:
        """Report to the broker that messages wait for credit."""

    def withdraw(self, number: int) -> Call | None:
        """Request that the broker returns a message that it may hold; None if that is impossible."""
        return None

    def ask_why(self) -> None:
        """Request the reason why the broker blocks this publisher, if it can answer and does not report it by
        itself.
        """

    def block(self, is_blocked: bool) -> None:
        """Record that the broker blocks the connection, or does not any more."""

    def detach(self) -> None:
        """Begin to close the channel or link."""
        raise NotImplementedError

    # Publishing

    def publish(self, message: object) -> Receipt:
        """Write a message and return its receipt; the caller has a place, or has checked that it fits."""
        receipt = Receipt(self, message, self.wakes.now)
        self._write(message)
        self.pending.append(receipt)
        if self.line:
            self.grant()  # Calls that arrived while this one was woken have their turn now.
        return receipt

    def _write(self, message: object) -> None:
        if not self.engine.is_scheduled:
            self.engine.is_scheduled = True
            self.engine.schedule(False)
        size: i64 = 0
        if isinstance(message, bytes):
            self.write(message)
            size = len(message)
        elif isinstance(message, Message):
            self.write_message(message)
            size = len(message.body)
        else:
            raise TypeError(f"a message is bytes or a penstock.Message, not {type(message).__name__}")
        self.credit -= 1
        if self.window_octets >= 0:
            self.octets += size
        if self.bucket is not None:
            self.bucket.take(1.0, self.wakes.now)

    def try_publish(self, message: object) -> Receipt | Blocked:
        """Write a message if there is room now; otherwise return the reason for the wait. Raises `LinkClosed`,
        `ConnectionLost`.
        """
        self.check()
        size = self.size_of(message)
        return self.publish(message) if self.is_free(size) else self.describe(size)

    def place(self, size: i64, timeout: float | None = None) -> Steps[None]:
        """Wait for a place, at most `timeout` seconds (None: the time-out of the publisher).

        Nothing was written if it raises `FlowControlTimeout`, or is cancelled. The caller publishes at once afterwards.
        """
        limit = self.terms.wait_failure if timeout is None else timeout
        wait = Wait(self.wakes.now + limit, size)
        self.waits += 1
        self.stand(wait)
        if self.credit <= 0 and self.is_attached:
            self.ask_room()
        self._expect_notice(limit)
        try:
            while True:
                yield wait
                wait.check()
                if wait.expired:
                    self.timed_out += 1
                    raise FlowControlTimeout(limit, self.describe(size))
                if self.take(wait):
                    return
                self.check()
                if self.credit <= 0 and self.is_attached:
                    self.ask_room()  # The broker has revoked its credit meanwhile.
                    self.engine.wake_output()
        except BaseException:
            self.leave(wait)
            raise
        finally:
            self.waited += self.wakes.now - wait.since

    def publish_now(self, message: object) -> Receipt | None:
        """Publish a message of bytes if it fits now; None otherwise, and for other messages."""
        if isinstance(message, bytes) and self.error is None and self.is_free(len(message)):
            return self.publish(message)
        return None

    def publishing(self, message: object, timeout: float | None = None) -> Steps[Receipt]:
        """Wait for room, and publish."""
        self.check()
        size = self.size_of(message)
        if not self.is_free(size):
            yield from self.place(size, timeout)
        return self.publish(message)

    def sending(self, message: object, timeout: float | None = None) -> Steps[Receipt]:
        """Wait for room, publish, and wait for the outcome, at most `timeout` seconds together.

        Without a `timeout` each of the two waits has the time-out of the publisher. In a transaction the outcome of a
        message is decided by the commit, and is not awaited here.
        """
        self.check()
        size = self.size_of(message)
        limit = self.terms.wait_failure if timeout is None else timeout
        deadline = self.wakes.now + limit
        if not self.is_free(size):
            yield from self.place(size, timeout)
        receipt = self.publish(message)
        if self.unit is not None:
            return receipt
        if timeout is None:
            deadline = self.wakes.now + limit
        wait = Wait(deadline)
        wait.since = self.wakes.now
        receipt.sender = wait
        self.sends += 1
        if wait.deadline < self.due:
            self._arm_at(wait.deadline)
        if self.notice_at == NEVER:
            self._expect_notice(limit)
        try:
            yield wait
        finally:
            self.sends -= 1
            receipt.sender = None
        if wait.expired and receipt.outcome == PENDING:
            blocked = self.describe()
            yield from self._withdrawing(receipt, limit)
            if receipt.outcome == PENDING:
                raise ConfirmTimeout(limit, blocked, receipt)
            if receipt.outcome == REFUSED and receipt.withdrawn:
                self.timed_out += 1
                raise FlowControlTimeout(limit, blocked)
        return receipt.check()

    def _withdrawing(self, receipt: Receipt, limit: float) -> Steps[None]:
        """Withdraw a message that the broker may hold, if the broker supports it: a nack means that it is in no queue.

        The wait is as long as for the message (`limit` in seconds), and at least `ASKED_AGAIN`. For a broker that has
        sent nothing since the message was written, the wait is `ASKED_AGAIN`.
        """
        engine = self.engine
        is_silent = engine.heart.heard_at <= receipt.sent_at
        deadline = engine.now + (ASKED_AGAIN if is_silent else max(min(limit, WITHDRAWN_WITHIN), ASKED_AGAIN))
        number = self.base + self.pending.index(receipt)
        call = self.withdraw(int(number))
        if call is None:
            return
        wait = Wait()
        receipt.sender = wait
        try:
            answer = yield from engine.waiting(call, deadline - engine.now)
            receipt.withdrawn = answer.get("withdrawn") is True
            if receipt.outcome == PENDING:
                yield from engine.until(wait, max(deadline - engine.now, 0.0))
        except ClientError:
            return  # The outcome stays unknown, until the receipt has it.
        finally:
            receipt.sender = None

    def withdrawing(self, timeout: float) -> Steps[int]:
        """Withdraw all messages that the broker holds, and return their number: each is in no queue, and refused.

        0 at brokers without withdrawal. Waits for at most `timeout` seconds.
        """
        engine = self.engine
        deadline = engine.now + timeout
        calls: list[tuple[object, Call]] = []
        number = int(self.base)
        for item in list(self.pending):
            if item is not None:
                call = self.withdraw(number)
                if call is None:
                    return 0
                calls.append((item, call))
            number += 1
        count = 0
        for item, call in calls:
            answer = yield from engine.waiting(call, max(deadline - engine.now, 0.0))
            is_withdrawn = answer.get("withdrawn") is True
            count += is_withdrawn
            if isinstance(item, Receipt):
                item.withdrawn = is_withdrawn
        return count

    # send_many

    def publish_some(self, items: Sequence[object], start: i64, result: SendResult) -> i64:
        """Publish as many messages as there is room for, without receipts; return the index of the first message
        left.
        """
        stop: i64 = len(items)
        if self.line or self.granted > 0 or not self.may_write or self.replay_at >= 0:
            return start
        first: i64 = self.base + len(self.pending)
        taken = len(self.pending) - self.ahead
        room = min(min(self.window, self.careful) - taken, min(self.credit, self.frames_left()))
        if self.bucket is not None:
            room = min(room, self.bucket.whole(self.wakes.now))
        if stop - start > room:
            stop = start + max(room, 0)
        limit = self.window_octets if self.window_octets >= 0 else UNLIMITED
        octets = self.octets
        pending = self.pending
        i = start
        try:
            while i < stop:
                item = items[i]
                size = len(item) if isinstance(item, bytes) else self.size_of(item)
                if octets + size > limit and len(pending) > self.ahead:
                    break
                self._write(item)
                octets += size
                pending.append(item)
                i += 1
        finally:  # A message that cannot be encoded is an error; earlier messages are sent.
            if i > start:
                self._add_run(first, i - start, result)
        return i

    def publish_in(self, item: object, result: SendResult) -> None:
        """Publish one message without a receipt; the caller has a place, or has checked that it fits."""
        self._write(item)
        self.pending.append(item)
        self._add_run(self.base + len(self.pending) - 1, 1, result)
        if self.line:
            self.grant()

    def sending_slice(self, items: Sequence[object], result: SendResult, timeout: float | None) -> Steps[None]:
        """Publish some messages of a `send_many`, waiting for room."""
        self.check()
        at = self.publish_some(items, 0, result)
        while at < len(items):
            yield from self.place(self.size_of(items[at]), timeout)
            self.publish_in(items[at], result)
            at = self.publish_some(items, at + 1, result)

    def finishing(self, result: SendResult, timeout: float | None) -> Steps[SendResult]:
        """Wait for the outcomes of a `send_many`; raises `ConfirmTimeout` when none has arrived for `timeout`
        seconds.
        """
        limit = self.terms.wait_failure if timeout is None else timeout
        while result.open > 0 and self.unit is None:
            result.moved_at = max(result.moved_at, self.wakes.now)
            wait = Wait(self.wakes.now + limit)
            wait.since = self.wakes.now
            result.wait = wait
            self.results.append(result)
            self._arm_at(wait.deadline)
            self._expect_notice(limit)
            try:
                yield wait
            finally:
                result.wait = None
                self.results.remove(result)
            if wait.expired and result.open > 0 and self.wakes.now - result.moved_at >= limit:
                raise ConfirmTimeout(limit, self.describe())
        return result

    # Warnings and time-outs

    @override
    def settle(self, first: i64, last: i64, outcome: i64, reason: str = "") -> None:
        if self.careful != UNLIMITED and outcome == CONFIRMED:
            self.careful += last - first + 1
        super().settle(first, last, outcome, reason)

    @override
    def on_deadline(self, now: float) -> float:
        following = self.expire(now)
        if self.sends > 0:
            for item in self.pending:
                if isinstance(item, Receipt) and item.sender is not None:
                    wait = item.sender
                    if wait.deadline <= now:
                        wait.expired = True
                        self.wakes.finish(wait)
                    elif wait.deadline < following:
                        following = wait.deadline
        for result in self.results:
            waiting = result.wait
            if waiting is not None and not waiting.done:
                if waiting.deadline <= now:
                    waiting.expired = True
                    self.wakes.finish(waiting)
                else:
                    following = min(following, waiting.deadline)
        if self.notice_at <= now:
            self._notice(now)
        following = min(following, self.notice_at)
        bucket = self.bucket
        if self.line:
            self.grant()
            if bucket is not None and self.line:
                following = min(following, max(bucket.ready_at(now), now + 0.001))
        return following

    def _expect_notice(self, limit: float) -> None:
        """Check this wait at half of its time: most waits end earlier, and need no question to the broker."""
        if self.notice_at == NEVER and self.terms.notify_period > 0:
            self.notice_at = self.wakes.now + min(self.terms.notify_period, limit) / 2
            self._arm_at(self.notice_at)
            if self.is_stopped:
                self.ask_why()

    def _arm_at(self, when: float) -> None:
        self.wakes.timers.add(self, when)

    def _notice(self, now: float) -> None:
        """Warn of the longest wait, and request the reason from the broker again."""
        since, count = self._longest_wait()
        if count == 0:
            self.notice_at = NEVER
            return
        period = self.terms.notify_period
        self.notice_at = now + period
        passed = now - since
        if passed < period * 0.99:
            self.notice_at = since + period
            self.ask_why()
            return
        seconds = round(passed / period) * period
        description = self.describe()
        why = (
            "due to broker enforced flow control"
            if description.cause in causes.ENFORCED
            else "because it cannot be sent"
        )
        if description.cause == causes.RATE:
            return
        others = f"; {count - 1} more wait" if count > 1 else ""
        text = f"Message send delayed by {seconds:g}s {why}: {description}{others}"
        self.engine.events.append(Event(WARNING, self.target(), text))
        self.ask_why()

    def _longest_wait(self) -> tuple[float, int]:
        """Return since when the longest wait lasts, and the number of waiting calls."""
        since, count = NEVER, len(self.line)
        first = self.line.first
        if first is not None:
            since = first.since
        waits = [result.wait for result in self.results]
        if self.sends > 0:
            waits += [item.sender for item in self.pending if isinstance(item, Receipt)]
        for wait in waits:
            if wait is not None and not wait.done:
                count += 1
                since = min(since, wait.since)
        return since, count

    # Replay

    def go_on(self) -> None:
        """Continue without a lane: all messages without an outcome are sent again."""
        if self.lane is not None:
            self.lane.is_begun = False
        self._begin_replaying()

    def go_on_from(self, is_known: bool, taken: i64, refused: list[int]) -> None:
        """Continue at the mark of the lane: messages covered by the mark have their outcome, the rest is sent again."""
        lane = self.lane
        assert lane is not None
        if lane.is_begun and is_known:
            self.settle_by_mark(lane, taken, refused)
        elif lane.is_begun and self.unsettled_count > 0:
            self._doubt()
        lane.is_begun = True
        lane.taken = taken
        self._begin_replaying()

    def settle_by_mark(self, lane: PublisherLane, taken: i64, refused: list[int]) -> None:
        """Set the outcomes of the messages that the mark of the lane covers."""
        for number in refused:
            if number - lane.taken >= self.base:
                self.settle(number - lane.taken, number - lane.taken, REFUSED, REFUSED_BEFORE)
        if taken - lane.taken >= self.base:
            self.settle(self.base, taken - lane.taken, CONFIRMED)

    def _begin_replaying(self) -> None:
        self.is_attached = True
        self._check_deadline()
        self.begin_replay()
        self.review()

    def _check_deadline(self) -> None:
        """Warn, once a connection, if a time-out is longer than the broker's hold deadline."""
        deadline = self.engine.server.get(HOLD_DEADLINE)
        limit, tally = self.terms.wait_failure, self.engine.tally
        if (
            isinstance(deadline, int)
            and 0 < deadline < limit * 1000
            and self.terms.is_wait_chosen
            and not tally.has_warned
        ):
            tally.has_warned = True
            waits = "has no limit" if limit == NEVER else f"is {limit:g} s"
            text = (
                f"flow_control_wait_failure {waits}, and the broker's hold deadline {deadline / 1000:g} s: "
                f"it refuses a message that it holds before this client gives up"
            )
            self.engine.events.append(Event(WARNING, self.target(), text))

    def _doubt(self) -> None:
        """Handle that the broker has lost the mark: whether it accepted the open messages is unknown."""
        becomes = "sent again, and may be there twice" if self.terms.sends_uncertain else "unknown and not sent again"
        text = f"ReplayUncertain: {MARK_LOST}; {self.unsettled_count} messages are {becomes}"
        self.engine.events.append(Event(REPLAY_UNCERTAIN, self.target(), text, tuple(self.unsettled)))
        if not self.terms.sends_uncertain:
            self.give_up(ReplayUncertain(None, MARK_LOST), MARK_LOST)

    # Ends

    @override
    def replay(self) -> None:
        pending = self.pending
        n: i64 = len(pending)
        if not self.engine.is_scheduled:
            self.engine.is_scheduled = True
            self.engine.schedule(False)
        while self.replay_at < n and self.credit > 0 and self.frames_left() > 0:
            item = pending[self.replay_at]
            message = item.message if isinstance(item, Receipt) else item
            if isinstance(message, bytes):
                self.write(message)
            elif isinstance(message, Message):
                self.write_message(message)
            self.credit -= 1
            self.replay_at += 1
            self.replayed += 1
        if self.replay_at >= n:
            self.replay_at = -1
        elif self.credit <= 0:
            self.ask_room()

    def lose(self) -> None:
        """Handle a loss of the connection that will be retried. A transaction ends with it."""
        if self.unit is not None:
            self.end(self.unit.lost(), "")
            return
        self.note_blocked(False)
        self.is_attached = False
        self.is_stopped = False
        self.careful = UNLIMITED
        self.info = None
        self.review()

    def stop(self, error: Exception, text: str) -> None:
        """Accept no more messages: waits for room fail with `error`. Messages under way are not affected."""
        if self.error is None:
            self.error = error
            if isinstance(error, LinkClosed) and self.unit is None:
                self.engine.events.append(Event(PUBLISHER_CLOSED, self.target(), text))
        self.is_attached = False
        self.may_write = False
        self.fail_line(error)

    def end(self, error: Exception, text: str) -> None:
        """End: waits for room fail with `error`, and outcomes of messages under way are unknown, with the reason
        `text`.
        """
        self.stop(error, text)
        unit = self.unit
        if self.pending and unit is None:
            self.give_up(LinkClosed(error.code, text) if isinstance(error, LinkClosed) else None, text)
        elif self.pending and unit is not None and unit.is_over():
            self.settle_all(unit.outcome(), str(unit.error))
        self._end_idle()
        self.engine.forget_publisher(self)

    def give_up(self, cause: ClientError | None, reason: str) -> None:
        """Set the outcome of all messages without one to unknown; waiting for it raises `cause`.

        Without a `cause` waiting raises `ConnectionLost`. A message that had been returned is refused.
        """
        receipts = self.unsettled
        self.settle_all(UNKNOWN, reason)
        for receipt in receipts:
            if receipt.outcome == UNKNOWN:
                receipt.cause = cause

    def refuse_from(self, first: i64, cause: ClientError, others: ClientError, reason: str) -> None:
        """Refuse the message with the number `first`, because of which the broker ended the publisher, and later
        messages.

        Waiting for its outcome raises `cause`, and for the outcomes of the others `others`.
        """
        pending = self.pending
        at: i64 = max(first - self.base, 0)
        items = pending[at:]
        self.settle(self.base + at, self.base + len(pending) - 1, REFUSED, reason)
        for item in items:
            if isinstance(item, Receipt):
                item.cause = cause
            if item is not None:
                cause = others

    def settle_all(self, outcome: i64, reason: str) -> None:
        """Set this outcome for all messages without one."""
        self.settle(self.base, self.base + len(self.pending) - 1, outcome, reason)

    def counts(self) -> list[int]:
        """Return the values of `PublisherCounters`, except the seconds, in order."""
        settled = self.confirmed_count + self.refused_count + self.unknown_count
        outcomes = [self.confirmed_count, self.refused_count, self.unknown_count, self.returned_count]
        waits = [self.waits, self.timed_out, self.blocked_count, self.replayed]
        return [settled + self.unsettled_count, *outcomes, *waits]

    def draining(self, timeout: float | None = None) -> Steps[bool]:
        """Wait until every message has its outcome, at most `timeout` seconds; return whether all have.

        In a transaction there is no wait, because the commit decides the outcomes.
        """
        limit = self.terms.wait_failure if timeout is None else timeout
        if len(self.pending) - self.ahead > 0 and self.unit is None:
            wait = Call("drain")
            self.idle.append(wait)
            yield from self.engine.until(wait, limit)
        return self.unsettled_count == 0

    def closing(self, timeout: float | None = None) -> Steps[list[Receipt]]:
        """Accept no more messages, wait for outcomes, and close; return the receipts without an outcome."""
        if self.error is not None:
            yield from self.draining(timeout)  # An ended publisher may still request outcomes.
            return []
        self.is_closing = True
        error = LinkClosed(None, "the publisher is closed")
        self.fail_line(error)
        self.error = error
        yield from self.draining(timeout)
        left = self.unsettled if self.unit is None else []
        self.detach()
        self.end(error, "the publisher was closed before an answer came")
        return left
