"""Window of a publisher: the messages without an outcome, their outcomes, and the room for the next one.

Theory of operation. `pending` has an entry for each message without an outcome, in the order of their numbers; the
first has the number `base`. An entry is a receipt, or only the message if `send_many` counts outcomes. An outcome that
arrives before that of an older message leaves None in its place (`ahead` counts these). So the entries are the messages
to send again after a reconnect, and the window bounds them.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.client.engine import outcomes as causes
from penstock.client.engine.connection import Engine
from penstock.client.engine.events import BLOCKED, UNBLOCKED, Event
from penstock.client.engine.headers import check_properties
from penstock.client.engine.messages import Forwarded, Message
from penstock.client.engine.outcomes import CONFIRMED, REFUSED, Blocked, Receipt
from penstock.client.engine.terms import PublisherTerms
from penstock.client.engine.waits import Line, Wait, Wakes
from penstock.markers import override

REFUSALS_MAX: Final = 100_000
"""Most refused messages that a result of `send_many` lists; `refused_count` counts all."""


class Refused:
    """Message of `send_many` that the broker refused: its index in the iterable, and the reason."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        self.reason = reason

    def __repr__(self) -> str:
        return f"Refused(index={self.index}, reason={self.reason!r})"


class SendResult:
    """Outcomes of a `send_many`, current at any time. `taken` is the number of messages taken from the iterable."""

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

    def settled(self, item: object, outcome: i64, index: i64, reason: str) -> None:
        """Count the outcome of a message."""
        if outcome == CONFIRMED:
            self.confirmed += 1
            return
        if outcome != REFUSED:
            self.unknown += 1
            return
        self.refused_count += 1
        if len(self.refused) < REFUSALS_MAX:
            self.refused.append(Refused(int(index), reason))

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
        """Index of the first message in its iterable."""


class Window(Line):
    """Messages without an outcome, and the line of calls that wait for room among them."""

    def __init__(self, wakes: Wakes, octets: int, max_rate: float) -> None:
        super().__init__(wakes, max_rate)
        self.window_octets: i64 = octets
        """Most bytes of messages without an outcome; -1 without a limit."""
        self.pending: list[object] = []
        self.base: i64 = 1
        self.ahead: i64 = 0
        self.octets: i64 = 0
        """Bytes of the messages without an outcome, if their number is limited."""
        self.runs: list[Run] = []
        self.reasons: dict[int, str] = {}
        """Reasons that arrived before the outcomes of their messages, by number."""
        self.confirmed_count: int = 0
        self.refused_count: int = 0
        self.unknown_count: int = 0
        """Number of messages whose outcome was lost with the connection."""
        self.returned_count: int = 0
        """Number of messages that reached no queue."""
        self.idle: list[Wait] = []
        """Waits until no message is without an outcome."""
        self.replay_at: i64 = -1
        """Index in `pending` of the next message to send again; -1 for none."""

    @property
    def unsettled_count(self) -> int:
        """Return the number of messages without an outcome."""
        return len(self.pending) - int(self.ahead)

    @property
    def unsettled(self) -> list[Receipt]:
        """Return the receipts without an outcome, the oldest first; `send_many` has no receipts."""
        return [item for item in self.pending if isinstance(item, Receipt)]

    def _add_run(self, first: i64, count: i64, result: SendResult) -> None:
        """Record that these numbers belong to a `send_many`."""
        last = self.runs[-1] if self.runs else None
        if last is not None and last.result is result and last.first + last.count == first:
            last.count += count
        else:
            self.runs.append(Run(first, count, result, result.taken))
        result.taken += int(count)
        result.open += count

    def settle(self, first: i64, last: i64, outcome: i64, reason: str = "") -> None:
        """Set the outcome of the messages with these numbers; existing outcomes do not change."""
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
        without_receipt: i64 = 0
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
                        without_receipt += 1
                        result.settled(item, state, index, why)
                if state == CONFIRMED:
                    self.confirmed_count += 1
                elif state == REFUSED:
                    self.refused_count += 1
                else:
                    self.unknown_count += 1
                if self.window_octets >= 0:
                    self.octets -= len(message) if isinstance(message, bytes) else _octets(message)
                pending[i] = None
                self.ahead += 1
            i += 1
            index += 1
        if without_receipt > 0 and result is not None:
            result.open -= without_receipt
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
            if self.replay_at >= 0:
                self.replay_at -= count  # Only messages that were sent again have an outcome.
            while self.runs and self.runs[0].first + self.runs[0].count <= self.base:
                del self.runs[0]
        if self.line:
            self.grant()
        if self.idle and not pending:
            self._end_idle()

    def _end_idle(self) -> None:
        idle, self.idle = self.idle, []
        for wait in idle:
            self.wakes.finish(wait)

    def begin_replay(self) -> None:
        """Number the messages without an outcome again, from 1, and send them before others."""
        replayed: list[object] = []
        runs: list[Run] = []
        number = self.base
        for item in self.pending:
            if item is not None:
                run = self._run_of(number)
                if run is not None:
                    index = run.index + number - run.first
                    new: i64 = len(replayed) + 1
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
                replayed.append(item)
            number += 1
        self.pending = replayed
        self.runs = runs
        self.ahead = 0
        self.base = 1
        self.reasons.clear()
        self.replay_at = 0 if replayed else -1

    def _run_of(self, number: i64) -> Run | None:
        for run in self.runs:
            if run.first <= number < run.first + run.count:
                return run
        return None


def _octets(message: object) -> int:
    return len(message.body) if isinstance(message, Message) else 0


UNLIMITED: Final = 1 << 62


class Room(Window):
    """Window, rate and permission of the broker; a protocol reports changes."""

    def __init__(self, engine: Engine, terms: PublisherTerms) -> None:
        super().__init__(engine, terms.window_bytes, terms.max_rate)
        self.engine = engine
        self.by_links: bool = engine.protocol == "amqp10"
        """True over AMQP 1.0, whose headers and properties differ from AMQP 0-9-1."""
        self.terms = terms
        self.window: i64 = terms.window
        self.credit: i64 = UNLIMITED
        """Messages that the broker allows; AMQP 0-9-1 has no such number."""
        self.may_write: bool = False
        """True if the publisher is attached, and not stopped."""
        self.is_attached: bool = False
        self.is_stopped: bool = False
        """True if the broker has stopped the publisher by channel.flow."""
        self.stopped_at: float = 0.0
        self.careful: i64 = UNLIMITED
        """Most messages without an outcome while the broker blocks the connection: the confirms since then, and 1."""
        self.error: Exception | None = None
        """Reason for the end; None before it."""
        self.info: Blocked | None = None
        """Last report of the broker about what blocks this publisher."""
        self.is_blocked: bool = False
        """True from the event that the broker blocks the publisher until the block ends."""
        self.blocked_count: int = 0
        """Number of these events."""

    # Implemented by a protocol

    def check_size(self, size: i64) -> None:
        """Raise `MessageTooLarge` for a message that the broker cannot accept."""

    def frames_left(self) -> i64:
        """Return the least number of messages that the session accepts."""
        return UNLIMITED

    def replay(self) -> None:
        """Send again as many messages as there is room for."""

    # Room

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
        if self.bucket is not None and self.is_slowed():
            return False
        return self.frames_left() > granted

    def cause(self, size: i64 = 0) -> str:
        """Return the cause that keeps a message from being sent."""
        taken = len(self.pending) - self.ahead + self.granted
        if not self.is_attached:
            return causes.OFFLINE if self.engine.lost_reason else causes.OPENING
        if self.is_stopped:
            return causes.CHANNEL_FLOW
        if self.credit <= self.granted:
            return causes.CREDIT
        if self.engine.blocked_reason and taken >= self.careful:
            return causes.CONNECTION_BLOCKED
        if self.engine.is_congested:
            return causes.SOCKET
        if self.replay_at >= 0:
            return causes.TURN  # Messages that are sent again.
        if taken >= self.window:
            return causes.WINDOW
        if self.window_octets >= 0 and taken > 0 and self.octets + self.granted_octets + size > self.window_octets:
            return causes.WINDOW_BYTES
        if self.bucket is not None and self.bucket.whole(self.wakes.now) <= self.granted:
            return causes.RATE
        return causes.TURN

    def describe(self, size: i64 = 0) -> Blocked:
        """Return the cause that keeps a message from being sent, with the broker's report about it."""
        cause, now = self.cause(size), self.wakes.now
        reason = causes.REASONS[cause]
        first = self.line.first
        since = now if first is None else first.since
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
        if cause == causes.RATE or cause == causes.OFFLINE or cause == causes.OPENING:
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
        """Check again whether messages may be written, after a change; hand over places if so."""
        is_open = self.is_attached and not self.is_stopped and not self.engine.is_congested
        self.may_write = is_open and self.error is None
        if is_open and self.replay_at >= 0:
            self.replay()  # Also for a closing publisher, which waits for outcomes.
        if self.line:
            self.grant()

    def note_blocked(self, is_blocked: bool) -> None:
        """Emit an event when the broker blocks this publisher, or the block ends."""
        if is_blocked != self.is_blocked:
            self.is_blocked = is_blocked
            self.blocked_count += 1 if is_blocked else 0
            reason = str(self.describe()) if is_blocked else ""
            self.engine.events.append(Event(BLOCKED if is_blocked else UNBLOCKED, self.target(), reason))

    def target(self) -> str:
        """Return the exchange or the queue of the publisher."""
        return self.terms.exchange or self.terms.key

    def check(self) -> None:
        """Raise the error that has ended the publisher."""
        if self.error is not None:
            raise self.error

    def size_of(self, message: object) -> int:
        """Return the bytes of a message's body.

        Raises `TypeError`, and if it can never be sent `MessageTooLarge`, or `ValueError` for a header or property.
        """
        if isinstance(message, bytes):
            size = len(message)
        elif isinstance(message, Message):
            size = len(message.body)
            if not isinstance(message, Forwarded) or message.head_for(self.engine.protocol) is None:
                check_properties(message.properties, self.by_links)
        else:
            raise TypeError(f"a message is bytes or a penstock.Message, not {type(message).__name__}")
        self.check_size(size)
        return size
