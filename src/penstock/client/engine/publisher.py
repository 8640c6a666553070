"""Publisher of the client: the window of unconfirmed messages, the line of those that wait, and outcomes.

Theory of operation. `pending` has an entry for each message without an outcome, in the order of their numbers; the
first has the number `base`. An entry is a receipt, or the message alone where `send_many` counts outcomes. An outcome
that comes before that of an older message leaves None behind (`ahead` counts these). So the entries are what has to be
sent again after a reconnect, and the window bounds them.

A message is written in one step with its entry: between the encoding and the return of `publish` nothing waits. So a
call that is cancelled, or times out, in `place` has written nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.client.engine import blocked as causes
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.connection import Engine
from penstock.client.engine.messages import Message
from penstock.client.engine.receipt import CONFIRMED, PENDING, REFUSED, UNKNOWN, Receipt
from penstock.client.engine.terms import PublisherTerms
from penstock.client.engine.waits import Call, Line, Steps, Wait
from penstock.client.errors import ConfirmTimeout, FlowControlTimeout, LinkClosed
from penstock.flow.timers import NEVER
from penstock.flow.token_bucket import TokenBucket, smooth

UNLIMITED: Final = 1 << 62
REFUSALS_MAX: Final = 100_000
"""Most refused messages that a result of `send_many` lists; `refused_count` has them all."""


class Refused:
    """Message of `send_many` that the broker refused: its index in the iterable, and the reason."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        self.reason = reason

    def __repr__(self) -> str:
        return f"Refused(index={self.index}, reason={self.reason!r})"


class SendResult:
    """Outcomes of a `send_many`, true at any time. `taken` is how many messages it took from the iterable."""

    def __init__(self) -> None:
        self.taken: int = 0
        self.confirmed: int = 0
        self.refused_count: int = 0
        self.unknown: int = 0
        """Messages whose outcome was lost with the connection."""
        self.refused: list[Refused] = []
        """The refused messages, at most 100,000."""
        self.open: i64 = 0
        self.moved_at: float = 0.0
        """Time of the last outcome."""
        self.wait: Wait | None = None

    @property
    def under_way(self) -> int:
        """Return the number of messages that were sent and have no outcome yet."""
        return int(self.open)

    @property
    def ok(self) -> bool:
        """Return whether every message that was taken is confirmed."""
        return self.confirmed == self.taken

    def __repr__(self) -> str:
        return (
            f"<SendResult of {self.taken}: {self.confirmed} confirmed, {self.refused_count} refused, "
            f"{self.unknown} unknown, {self.under_way} under way>"
        )


class Run:
    """Consecutive numbers of the messages of one `send_many`."""

    def __init__(self, first: i64, count: i64, result: SendResult, index: i64) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.result = result
        self.index: i64 = index
        """Index of the first in its iterable."""


class PublisherCore(Line):
    """Publisher of one protocol; a protocol writes messages and says when it may."""

    def __init__(self, engine: Engine, terms: PublisherTerms) -> None:
        super().__init__(engine)
        self.engine = engine
        self.terms = terms
        self.window: i64 = terms.window
        self.window_octets: i64 = terms.window_bytes
        self.pending: list[object] = []
        self.base: i64 = 1
        self.ahead: i64 = 0
        self.octets: i64 = 0
        """Octets of the messages without an outcome, if their number is limited."""
        self.runs: deque[Run] = deque()
        self.reasons: dict[int, str] = {}
        """Reasons that came before the outcomes of their messages, by number."""
        self.credit: i64 = UNLIMITED
        """Messages that the broker lets it send; AMQP 0-9-1 has no such number."""
        self.may_write: bool = False
        """Whether it is attached, and nothing has stopped it."""
        self.is_attached: bool = False
        self.is_stopped: bool = False
        """Whether the broker has stopped it by channel.flow."""
        self.stopped_at: float = 0.0
        self.careful: i64 = UNLIMITED
        """Most messages without an outcome while the broker blocks the connection: the confirms since then, and 1."""
        self.replay_at: i64 = -1
        """Index in `pending` of the next message that has to be sent again; -1 for none."""
        self.error: Exception | None = None
        """Why it has ended."""
        self.is_closing: bool = False
        self.bucket: TokenBucket | None = None
        if terms.max_rate > 0:
            rate, burst = smooth(terms.max_rate)
            self.bucket = TokenBucket(rate, burst, saves=False)
        self.confirmed_count: int = 0
        self.refused_count: int = 0
        self.delayed_count: int = 0
        """Messages that had to wait for room."""
        self.info: Blocked | None = None
        """What the broker said last about what blocks this publisher."""
        self.notice_at: float = NEVER
        self.sends: i64 = 0
        """Calls of `send` that wait for an outcome."""
        self.results: list[SendResult] = []
        """Results that are waited for."""
        self.idle: list[Wait] = []
        """Waits for the moment at which no message is without an outcome."""

    # What a protocol does

    def write(self, body: bytes) -> None:
        """Write a message with this body and nothing of its own."""
        raise NotImplementedError

    def write_message(self, message: Message) -> None:
        """Write a message; raises before it has written anything."""
        raise NotImplementedError

    def check_size(self, size: i64) -> None:
        """Raise `MessageTooLarge` for a message that the broker cannot take."""

    def frames_left(self) -> i64:
        """Return how many messages the session takes at least."""
        return UNLIMITED

    def ask_room(self) -> None:
        """Tell the broker that messages wait for credit."""

    def ask_why(self) -> None:
        """Ask the broker what blocks this publisher, if it can say so and does not by itself."""

    def block(self, is_blocked: bool) -> None:
        """Note that the broker blocks the connection, or does not any more."""

    def detach(self) -> None:
        """Begin to close the channel or link."""
        raise NotImplementedError

    # Room

    @property
    def unsettled_count(self) -> int:
        """Return the number of messages without an outcome."""
        return len(self.pending) - int(self.ahead)

    @property
    def unsettled(self) -> list[Receipt]:
        """Return the receipts without an outcome, the oldest first; `send_many` has no receipts."""
        return [item for item in self.pending if isinstance(item, Receipt)]

    @override
    def fits(self, size: i64) -> bool:
        if not self.may_write:
            return False
        granted = self.granted
        taken = len(self.pending) - self.ahead + granted
        if taken >= self.window or taken >= self.careful or granted >= self.credit or self.replay_at >= 0:
            return False
        if self.window_octets >= 0 and taken > 0 and self.octets + self.granted_octets + size > self.window_octets:
            return False
        bucket = self.bucket
        if bucket is not None and bucket.whole(self.wakes.now) <= granted:
            if self.line:
                self._arm_at(bucket.ready_at(self.wakes.now))
            return False
        return self.frames_left() > granted

    @override
    def ready_at(self) -> float:
        return NEVER if self.bucket is None else self.bucket.ready_at(self.wakes.now)

    def cause(self, size: i64 = 0) -> str:
        """Return what keeps a message from being sent."""
        taken = len(self.pending) - self.ahead + self.granted
        if not self.is_attached or self.replay_at >= 0:
            return causes.OFFLINE
        if self.is_stopped:
            return causes.CHANNEL_FLOW
        if self.credit <= self.granted:
            return causes.CREDIT
        if self.engine.blocked_reason and taken >= self.careful:
            return causes.CONNECTION_BLOCKED
        if self.engine.is_congested:
            return causes.SOCKET
        if taken >= self.window:
            return causes.WINDOW
        if self.window_octets >= 0 and taken > 0 and self.octets + self.granted_octets + size > self.window_octets:
            return causes.WINDOW_BYTES
        if self.bucket is not None and self.bucket.whole(self.wakes.now) <= self.granted:
            return causes.RATE
        return causes.TURN

    def describe(self, size: i64 = 0) -> Blocked:
        """Return what keeps a message from being sent, with what the broker has said about it."""
        cause, now = self.cause(size), self.wakes.now
        reason = causes.REASONS[cause]
        since = self.line[0].since if self.line else now
        if cause == causes.CHANNEL_FLOW or cause == causes.CREDIT:
            since = self.stopped_at
        elif cause == causes.CONNECTION_BLOCKED:
            since = self.engine.blocked_at
            reason = f"{reason}: {self.engine.blocked_reason}"
        elif cause == causes.OFFLINE:
            since = self.engine.lost_at
            reason = f"{reason}: {self.engine.lost_reason}" if self.engine.lost_reason else reason
        elif (cause == causes.WINDOW or cause == causes.WINDOW_BYTES) and self.engine.blocked_reason:
            reason = f"{reason}: {self.engine.blocked_reason}"
        if cause == causes.RATE or cause == causes.OFFLINE:
            bucket = self.bucket
            after = None if bucket is None else max(bucket.ready_at(now) - now, 0.0)
            return Blocked(cause, reason, now - since, retry_after=after)
        info = self.info
        if info is None:
            return Blocked(cause, reason, now - since, self._queue())
        reason = f"{reason}: {info.reason}" if info.reason else reason
        queue = info.queue or self._queue()
        figures = (info.depth, info.stop, info.resume, info.capacity, info.retry_after)
        return Blocked(cause, reason, now - since, queue, *figures)

    def _queue(self) -> str | None:
        return self.terms.key if not self.terms.exchange and self.terms.key else None

    def review(self) -> None:
        """Find out anew whether messages may be written, after a change; hand over places if so."""
        self.may_write = self.is_attached and not self.is_stopped and not self.engine.is_congested
        self.may_write = self.may_write and self.error is None
        if self.may_write and self.replay_at >= 0:
            self._replay()
        if self.line:
            self.grant()

    # Publishing

    def publish(self, message: object) -> Receipt:
        """Write a message and return its receipt; the caller has a place, or has seen that it fits."""
        receipt = Receipt(self, message, self.wakes.now)
        self._write(message)
        self.pending.append(receipt)
        if self.line:
            self.grant()  # Who came while this one was woken has its turn now.
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

    def check(self) -> None:
        """Raise the error that has ended it."""
        if self.error is not None:
            raise self.error

    def try_publish(self, message: object) -> Receipt | Blocked:
        """Write a message if there is room now; what blocks it otherwise. Raises `LinkClosed`, `ConnectionLost`."""
        self.check()
        size = self.size_of(message)
        return self.publish(message) if self.is_free(size) else self.describe(size)

    def size_of(self, message: object) -> int:
        """Return the octets of a message's body. Raises `TypeError`, and `MessageTooLarge` if it can never be sent."""
        if isinstance(message, bytes):
            size = len(message)
        elif isinstance(message, Message):
            size = len(message.body)
        else:
            raise TypeError(f"a message is bytes or a penstock.Message, not {type(message).__name__}")
        self.check_size(size)
        return size

    def place(self, size: i64, timeout: float | None = None) -> Steps[None]:
        """Wait for a place, at most `timeout` seconds (None: the time-out of the publisher).

        Nothing was written if it raises `FlowControlTimeout`, or is cancelled. The caller publishes at once after it.
        """
        limit = self.terms.wait_failure if timeout is None else timeout
        wait = Wait(self.wakes.now + limit, size)
        self.delayed_count += 1
        self.stand(wait)
        if self.credit <= 0 and self.is_attached:
            self.ask_room()
        self._expect_notice()
        try:
            while True:
                yield wait
                wait.check()
                if wait.expired:
                    raise FlowControlTimeout(limit, self.describe(size))
                if self.take(wait):
                    return
        except BaseException:
            self.leave(wait)
            raise

    def publish_now(self, message: object) -> Receipt | None:
        """Publish a message of bytes if it fits now; None otherwise, and for others."""
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
        """Wait for room, publish, and wait for the outcome, each at most `timeout` seconds."""
        self.check()
        size = self.size_of(message)
        if not self.is_free(size):
            yield from self.place(size, timeout)
        receipt = self.publish(message)
        limit = self.terms.wait_failure if timeout is None else timeout
        wait = Wait(self.wakes.now + limit)
        wait.since = self.wakes.now
        receipt.sender = wait
        self.sends += 1
        if wait.deadline < self.due:
            self._arm_at(wait.deadline)
        if self.notice_at == NEVER:
            self._expect_notice()
        try:
            yield wait
        finally:
            self.sends -= 1
            receipt.sender = None
        if wait.expired and receipt.outcome == PENDING:
            raise ConfirmTimeout(limit, self.describe(), receipt)
        return receipt.check()

    # send_many

    def publish_some(self, items: Sequence[object], start: i64, result: SendResult) -> i64:
        """Publish as many messages as there is room for, without receipts; return the index of the first left."""
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
        finally:  # One that cannot be encoded is an error; those before it are sent.
            if i > start:
                self._add_run(first, i - start, result)
        return i

    def _publish_in(self, item: object, result: SendResult) -> None:
        """Publish one message of a `send_many` that has a place."""
        self._write(item)
        self.pending.append(item)
        self._add_run(self.base + len(self.pending) - 1, 1, result)
        if self.line:
            self.grant()

    def _add_run(self, first: i64, count: i64, result: SendResult) -> None:
        """Note that these numbers belong to a `send_many`."""
        last = self.runs[-1] if self.runs else None
        if last is not None and last.result is result and last.first + last.count == first:
            last.count += count
        else:
            self.runs.append(Run(first, count, result, result.taken))
        result.taken += int(count)
        result.open += count

    def sending_slice(self, items: Sequence[object], result: SendResult, timeout: float | None) -> Steps[None]:
        """Publish some messages of a `send_many`, waiting for room."""
        self.check()
        at = self.publish_some(items, 0, result)
        while at < len(items):
            yield from self.place(self.size_of(items[at]), timeout)
            self._publish_in(items[at], result)
            at = self.publish_some(items, at + 1, result)

    def finishing(self, result: SendResult, timeout: float | None) -> Steps[SendResult]:
        """Wait for the outcomes of a `send_many`; raises `ConfirmTimeout` when none has come for `timeout` seconds."""
        limit = self.terms.wait_failure if timeout is None else timeout
        while result.open > 0:
            result.moved_at = max(result.moved_at, self.wakes.now)
            wait = Wait(self.wakes.now + limit)
            wait.since = self.wakes.now
            result.wait = wait
            self.results.append(result)
            self._arm_at(wait.deadline)
            self._expect_notice()
            try:
                yield wait
            finally:
                result.wait = None
                self.results.remove(result)
            if wait.expired and result.open > 0 and self.wakes.now - result.moved_at >= limit:
                raise ConfirmTimeout(limit, self.describe())
        return result

    # Outcomes

    def settle(self, first: i64, last: i64, outcome: i64, reason: str = "") -> None:
        """Set the outcome of the messages with these numbers; those that have one keep it."""
        if self.careful != UNLIMITED and outcome == CONFIRMED:
            self.careful += last - first + 1
        if not self.runs:
            self._settle_range(first, last, outcome, reason, None, 0)
        else:
            for run in list(self.runs):
                if run.first > first:
                    self._settle_range(first, min(last, run.first - 1), outcome, reason, None, 0)
                    first = run.first
                stop = run.first + run.count - 1
                if first <= stop and first <= last:
                    index = run.index + first - run.first
                    self._settle_range(first, min(last, stop), outcome, reason, run.result, index)
                    first = stop + 1
                if first > last:
                    break
            if first <= last:
                self._settle_range(first, last, outcome, reason, None, 0)
        self._drop_settled()

    def _settle_range(
        self, first: i64, last: i64, outcome: i64, reason: str, result: SendResult | None, index: i64
    ) -> None:
        """Settle numbers that belong to one `send_many`, whose index begins at `index`, or to none."""
        pending = self.pending
        i = first - self.base
        if i < 0:
            index -= i
            i = 0
        stop: i64 = min(last - self.base + 1, len(pending))
        plain: i64 = 0
        has_reasons = len(self.reasons) > 0
        while i < stop:
            item = pending[i]
            if item is not None:
                state, why = outcome, reason
                if has_reasons and int(self.base + i) in self.reasons:
                    why = self.reasons.pop(int(self.base + i))
                    state = REFUSED
                if isinstance(item, Receipt):
                    self._set_outcome(item, state, why)
                    message = item.message
                    if state == CONFIRMED:
                        item.message = None
                else:
                    message = item
                    if result is not None:
                        plain += 1
                        if state == CONFIRMED:
                            result.confirmed += 1
                        elif state == REFUSED:
                            result.refused_count += 1
                            if len(result.refused) < REFUSALS_MAX:
                                result.refused.append(Refused(int(index), why))
                        else:
                            result.unknown += 1
                if state == CONFIRMED:
                    self.confirmed_count += 1
                else:
                    self.refused_count += 1
                if self.window_octets >= 0:
                    self.octets -= len(message) if isinstance(message, bytes) else _octets(message)
                pending[i] = None
                self.ahead += 1
            i += 1
            index += 1
        if plain > 0 and result is not None:
            result.open -= plain
            result.moved_at = self.wakes.now
            if result.open == 0 and result.wait is not None:
                self.wakes.finish(result.wait)

    def _set_outcome(self, receipt: Receipt, outcome: i64, reason: str) -> None:
        receipt.outcome = outcome
        if outcome != CONFIRMED:
            receipt.reason = reason
        if receipt.sender is not None:
            self.wakes.finish(receipt.sender)
        if receipt.futures is not None or receipt.callbacks is not None:
            self.wakes.woken.append(receipt)

    def _drop_settled(self) -> None:
        pending = self.pending
        count: i64 = 0
        n: i64 = len(pending)
        while count < n and pending[count] is None:
            count += 1
        if count > 0:
            del pending[:count]
            self.base += count
            self.ahead -= count
            while self.runs and self.runs[0].first + self.runs[0].count <= self.base:
                self.runs.popleft()
        if self.line:
            self.grant()
        if self.idle and not pending:
            self._end_idle()

    def _end_idle(self) -> None:
        idle, self.idle = self.idle, []
        for wait in idle:
            self.wakes.finish(wait)

    # Warnings and time-outs

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

    def _expect_notice(self) -> None:
        if self.notice_at == NEVER and self.terms.notify_period > 0:
            self.notice_at = self.wakes.now + self.terms.notify_period
            self._arm_at(self.notice_at)
            if self.may_write or self.is_stopped:
                self.ask_why()

    def _arm_at(self, when: float) -> None:
        self.wakes.timers.add(self, when)

    def _notice(self, now: float) -> None:
        """Warn of the longest wait, and ask the broker again for the reason."""
        since, count = self._longest_wait()
        if count == 0:
            self.notice_at = NEVER
            return
        period = self.terms.notify_period
        self.notice_at = now + period
        passed = now - since
        if passed < period * 0.99:
            self.notice_at = since + period
            return
        seconds = round(passed / period) * period
        found = self.describe()
        why = "due to broker enforced flow control" if found.cause in causes.ENFORCED else "because it cannot be sent"
        if found.cause == causes.RATE:
            return
        others = f"; {count - 1} more wait" if count > 1 else ""
        self.engine.notices.append(f"Message send delayed by {seconds:g}s {why}: {found}{others}")
        self.ask_why()

    def _longest_wait(self) -> tuple[float, int]:
        """Return since when the longest wait lasts, and how many calls wait."""
        since, count = NEVER, len(self.line)
        if self.line:
            since = self.line[0].since
        waits = [result.wait for result in self.results]
        if self.sends > 0:
            waits += [item.sender for item in self.pending if isinstance(item, Receipt)]
        for wait in waits:
            if wait is not None and not wait.done:
                count += 1
                since = min(since, wait.since)
        return since, count

    # The ends

    def begin_replay(self) -> None:
        """Number the messages without an outcome anew, from 1, and send them again before others."""
        kept: list[object] = []
        runs: deque[Run] = deque()
        number = self.base
        for item in self.pending:
            if item is not None:
                run = self._run_of(number)
                if run is not None:
                    index = run.index + number - run.first
                    new: i64 = len(kept) + 1
                    last = runs[-1] if runs else None
                    if (
                        last is not None
                        and last.result is run.result
                        and last.first + last.count == new
                        and last.index + last.count == index
                    ):
                        last.count += 1
                    else:
                        runs.append(Run(new, 1, run.result, index))
                kept.append(item)
            number += 1
        self.pending = kept
        self.runs = runs
        self.ahead = 0
        self.base = 1
        self.reasons.clear()
        self.replay_at = 0 if kept else -1

    def _run_of(self, number: i64) -> Run | None:
        for run in self.runs:
            if run.first <= number < run.first + run.count:
                return run
        return None

    def _replay(self) -> None:
        """Send again what there is credit for."""
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
        if self.replay_at >= n:
            self.replay_at = -1
        elif self.credit <= 0:
            self.ask_room()

    def lose(self) -> None:
        """Note that the connection is lost, and will be tried again."""
        self.is_attached = False
        self.is_stopped = False
        self.careful = UNLIMITED
        self.info = None
        self.review()

    def end(self, error: Exception, text: str) -> None:
        """End it: what waits for room fails with `error`, and what is under way is unknown, with `text` as reason."""
        if self.error is None:
            self.error = error
        self.is_attached = False
        self.may_write = False
        self.fail_line(error)
        if self.pending:
            self.settle(self.base, self.base + len(self.pending) - 1, UNKNOWN, text)
        self._end_idle()

    def draining(self, timeout: float | None = None) -> Steps[bool]:
        """Wait until every message has its outcome, at most `timeout` seconds; return whether all have."""
        limit = self.terms.wait_failure if timeout is None else timeout
        if len(self.pending) - self.ahead > 0:
            wait = Call("drain")
            self.idle.append(wait)
            yield from self.engine.until(wait, limit)
        return self.unsettled_count == 0

    def closing(self, timeout: float | None = None) -> Steps[list[Receipt]]:
        """Take no more messages, wait for outcomes, and close; return the receipts that are left without one."""
        if self.error is not None:
            return []
        self.is_closing = True
        error = LinkClosed(None, "the publisher is closed")
        self.fail_line(error)
        self.error = error
        yield from self.draining(timeout)
        left = self.unsettled
        self.error = None
        self.detach()
        self.end(error, "the publisher was closed before an answer came")
        self.engine.forget_publisher(self)
        return left


def _octets(message: object) -> int:
    return len(message.body) if isinstance(message, Message) else 0
