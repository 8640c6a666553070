"""Room of a publisher: whether a message may be written now, and what keeps it from that otherwise."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.client.engine import blocked as causes
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.connection import Engine
from penstock.client.engine.events import BLOCKED, UNBLOCKED, Event
from penstock.client.engine.messages import Message
from penstock.client.engine.terms import PublisherTerms
from penstock.client.engine.window import Window
from penstock.flow.timers import NEVER
from penstock.flow.token_bucket import TokenBucket, smooth
from penstock.markers import override

UNLIMITED: Final = 1 << 62


class Room(Window):
    """Window, rate and what the broker allows; a protocol says when that changes."""

    def __init__(self, engine: Engine, terms: PublisherTerms) -> None:
        super().__init__(engine, terms.window_bytes)
        self.engine = engine
        self.terms = terms
        self.window: i64 = terms.window
        self.credit: i64 = UNLIMITED
        """Messages that the broker lets it send; AMQP 0-9-1 has no such number."""
        self.may_write: bool = False
        """True if it is attached, and nothing has stopped it."""
        self.is_attached: bool = False
        self.is_stopped: bool = False
        """True if the broker has stopped it by channel.flow."""
        self.stopped_at: float = 0.0
        self.careful: i64 = UNLIMITED
        """Most messages without an outcome while the broker blocks the connection: the confirms since then, and 1."""
        self.error: Exception | None = None
        """Reason for its end; None before it."""
        self.bucket: TokenBucket | None = None
        if terms.max_rate > 0:
            rate, burst = smooth(terms.max_rate)
            self.bucket = TokenBucket(rate, burst, saves=False)
        self.info: Blocked | None = None
        """Last words of the broker about what blocks this publisher."""
        self.is_blocked: bool = False
        """True after the event that the broker blocks it, until it does not any more."""
        self.blocked_count: int = 0
        """Number of these events."""

    # What a protocol does

    def check_size(self, size: i64) -> None:
        """Raise `MessageTooLarge` for a message that the broker cannot take."""

    def frames_left(self) -> i64:
        """Return how many messages the session takes at least."""
        return UNLIMITED

    def replay(self) -> None:
        """Send again what there is room for."""

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
        bucket = self.bucket
        if bucket is not None and bucket.whole(self.wakes.now) <= granted:
            if self.line:
                self.wakes.timers.add(self, bucket.ready_at(self.wakes.now))
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
            self.replay()
        if self.line:
            self.grant()

    def note_blocked(self, is_blocked: bool) -> None:
        """Tell by an event that the broker stops this publisher, or lets it go on."""
        if is_blocked != self.is_blocked:
            self.is_blocked = is_blocked
            self.blocked_count += 1 if is_blocked else 0
            reason = str(self.describe()) if is_blocked else ""
            self.wakes.events.append(Event(BLOCKED if is_blocked else UNBLOCKED, self.target(), reason))

    def target(self) -> str:
        """Return the exchange that it publishes to, or the queue."""
        return self.terms.exchange or self.terms.key

    def check(self) -> None:
        """Raise the error that has ended it."""
        if self.error is not None:
            raise self.error

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
