"""Retention of an ordinary queue: messages that were settled with success stay readable in a stream beside the queue.

Theory of operation. A queue with `retain-time` or `retain-bytes` has a *companion*: a stream named NAME.retained, whose
limits are these settings. A message that a consumer or every cursor has settled is appended to the companion by the
same call that removes it from its queue. So both changes are in one journal group, and a crash neither loses nor
doubles the message. Reading, offsets, segments and the account of the disk are those of any stream. The order and the
times of the companion are those of the settlements: a reader from a time on misses no message that arrived later.

Settlements are never held. The companion's unwritten bytes are bounded by the deliveries instead: above the bound of
streams, or that of all companions, the queue delivers nothing until a write (`QueueRoom.pause`). Retention yields to
consumers: while a gate of the disk is closed, the companion makes room for messages by dropping its own oldest
segments. A message that finds no room there is not retained. Nor is one that is settled while the store cannot be
written and the unwritten bytes are at their bound. Such messages are counted and logged (`RetentionGap`).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.journal import Journal
from penstock.core.journal.write_shares import WriteListener
from penstock.core.message import Message
from penstock.core.queue.context import QueueContext, Retainer, RetentionGap
from penstock.core.queue.cursor_state import trim_settled
from penstock.core.queue.pager import UNWRITTEN_BYTES
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.stream_log import log_of
from penstock.core.queue.types import AUTO_DELETE, EXCLUSIVE, NON_DURABLE, QUEUE_TYPE, STREAM, Features
from penstock.errors import PreconditionFailed, ResourceLocked
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from penstock.settings.table import ARGUMENT, RETENTIONS

SUFFIX: Final = ".retained"
"""End of the name of a companion; its beginning is the name of the queue."""
RETAINED_FROM: Final = "x-retained-from"
"""Argument of a companion: the name of its queue. It distinguishes a companion from other queues of such a name."""
MAX_AGE: Final = "x-max-age"
MAX_BYTES: Final = "x-max-length-bytes"
ALL_UNWRITTEN_BYTES: Final = 16 * UNWRITTEN_BYTES
"""Unwritten bytes of all companions of a broker, above which each queue waits that has any of them."""
LIMITS: Final[tuple[str, ...]] = (MAX_AGE, MAX_BYTES)
"""Arguments of a companion that follow the settings of its queue."""


class Retention(WriteListener, Retainer):
    """The retention of one queue, while it has a companion."""

    def __init__(self, broker: QueueContext, queue: Queue, stream: Queue, journal: Journal) -> None:
        self.broker = broker
        self.queue = queue
        self.stream = stream
        """The companion."""
        self.journal = journal
        self.retained: i64 = 0
        """Messages that were retained since the start."""
        self.left_out: i64 = 0
        """Messages that were settled and not retained since the start."""
        self.gap: RetentionGap | None = None
        """The gap that has not ended yet; None as a rule."""
        self._log = log_of(stream)
        self._log.owner = self
        self._unwritten: i64 = 0
        """Unwritten bytes of the companion that `Journal.retained` includes."""
        self._freed: i64 = 0
        """Bytes (charges) of segments that were dropped while a gate of the disk is closed, and not used since."""
        queue.retention = self

    # Retaining

    @override
    def retain(self, messages: list[Message | None], now: float) -> None:
        log, stream = self._log, self.stream
        if not log.storage.vhost_usage.all_open and not self._makes_room(messages, now):
            return
        count: i64 = 0
        for message in messages:
            if message is not None:
                stream.tail += 1
                log.add(message.envelope, message.content, message.charge, stream.tail, now)
                count += 1
        self.retained += count
        if self.gap is not None:
            self._end_gap()
        stream.update_gate(now)
        self._count()
        many = log.unwritten_bytes > UNWRITTEN_BYTES or self.journal.retained > ALL_UNWRITTEN_BYTES
        if many and not self.is_behind() and not self.journal.disk.is_failing():
            self.journal.behind.append(self)
            self.queue.reserved.pause(True)

    def _count(self) -> None:
        """Count the unwritten bytes of the companion among those of all."""
        unwritten = self._log.unwritten_bytes
        self.journal.retained += unwritten - self._unwritten
        self._unwritten = unwritten

    def _makes_room(self, messages: list[Message | None], now: float) -> bool:
        """Return whether messages may be appended while a gate of the disk is closed, or has waiters.

        What waits for a store that cannot be written is in memory, up to the bound of unwritten bytes.
        """
        gate: Gate | None = None
        for each in self._log.storage.vhost_usage.gates:
            if not each.open and gate is None:
                gate = each
        if gate is None:
            self._freed = 0
            return True
        count: i64 = 0
        size: i64 = 0
        for message in messages:
            if message is not None:
                count += 1
                size += message.charge
        if self.journal.disk.is_failing():
            if self._log.unwritten_bytes + size <= UNWRITTEN_BYTES:
                return True
        else:
            if self._freed < size:
                self._freed += self._log.drop_oldest(size - self._freed)
            if self._freed >= size:
                self._freed -= size
                return True
        self.left_out += count
        gap = self.gap
        if gap is None:
            gap = RetentionGap(self.queue, _cause(gate), now)
            self.gap = gap
            self.broker.emit_gap(gap)
        gap.messages += count
        gap.bytes += size
        gap.until = now
        return False

    def _end_gap(self) -> None:
        gap = self.gap
        self.gap = None
        if gap is not None:
            gap.ended = True
            self.broker.emit_gap(gap)

    # Pauses of the queue's deliveries

    @override
    def is_behind(self) -> bool:
        return self.queue.reserved.is_paused()

    @override
    def on_written(self) -> None:
        self._count()
        if self._unwritten * 2 <= UNWRITTEN_BYTES and self.is_behind():
            self.journal.behind.remove(self)
            self.on_taken()

    @override
    def on_taken(self) -> None:
        """Go on with the deliveries: the companion was written, or the store cannot be written."""
        queue = self.queue
        queue.reserved.pause(False)
        trim_settled(queue, self.broker.now)
        self.broker.schedule_delivery(queue)

    # End

    @override
    def end(self) -> None:
        """End the retention; the companion stays as it is."""
        if self.is_behind():
            self.journal.behind.remove(self)
            self.on_taken()
        self._end_gap()
        self.journal.retained -= self._unwritten
        self._unwritten = 0
        self._log.owner = None
        self.queue.retention = None


def _cause(gate: Gate) -> str:
    """Return the condition of a closed gate."""
    owner = gate.owner
    return f"{gate.kind} {gate.name} is closed" if owner is None else owner.describe_refusal()


def retention_of(queue: Queue) -> Retention | None:
    """Return the retention of a queue; None without one."""
    retention = queue.retention
    return retention if isinstance(retention, Retention) else None


def retention_into(stream: Queue) -> Retention | None:
    """Return the retention whose companion a queue is; None for any other queue."""
    if not stream.features.type.retains or stream.pager is None:
        return None
    owner = log_of(stream).owner
    return owner if isinstance(owner, Retention) else None


def end_retention(queue: Queue) -> None:
    """End the retentions of a queue that is deleted: its own, or that of which it is the companion."""
    own, other = retention_of(queue), retention_into(queue)
    if own is not None:
        own.end()
    if other is not None:
        other.end()


# Companions


def companion_name(queue: str) -> str:
    """Return the name of a queue's companion."""
    return queue + SUFFIX


def is_companion(stream: Queue, queue: str) -> bool:
    """Return whether a queue is the companion of the queue with this name, which may not exist any more."""
    return stream.features.type.retains and stream.arguments.get(RETAINED_FROM) == queue


def companion_arguments(queue: str, settings: Settings) -> dict[str, object]:
    """Return the arguments of a queue's companion."""
    arguments: dict[str, object] = {QUEUE_TYPE: STREAM.name, RETAINED_FROM: queue}
    if settings.retain_time_s != NEVER:
        arguments[MAX_AGE] = f"{settings.retain_time_s:.3f}".rstrip("0").rstrip(".") + "s"
    if settings.retain_bytes != UNLIMITED:
        arguments[MAX_BYTES] = int(settings.retain_bytes)
    return arguments


def bar_to_retention(features: Features, durable: bool, auto_delete: bool, exclusive: bool) -> str:
    """Return the word for what a queue is that cannot retain; empty for a queue that can."""
    if features.type.retains:
        return features.type.name
    if exclusive:
        return EXCLUSIVE
    if not durable:
        return NON_DURABLE
    return AUTO_DELETE if auto_delete else ""


def bar_of(queue: Queue) -> str:
    """Return the word for what a queue is that cannot retain; empty for a queue that can."""
    return bar_to_retention(queue.features, queue.durable, queue.auto_delete, queue.owner is not None)


def describe_setting(settings: Settings) -> str:
    """Return the limits of what is retained, as a clause."""
    arguments = companion_arguments("", settings)
    age, size = arguments.get(MAX_AGE), arguments.get(MAX_BYTES)
    clauses = [] if age is None else [f"retain-time={age}"]
    return " and ".join(clauses if size is None else [*clauses, f"retain-bytes={size:,}"])


def check_retention(name: str, settings: Settings, bar: str, stores: bool) -> None:
    """Raise PreconditionFailed (406) for a queue that cannot retain, if its own arguments ask for it, and for every
    queue on a broker without a store.
    """
    if not settings.retains:
        return
    for setting in RETENTIONS:
        given = settings.given.get(setting)
        if bar and given is not None and given.origin == ARGUMENT and not given.none:
            raise PreconditionFailed(
                f"queue '{name}': {given.describe()} is for durable queues that last, and this one is {bar}; leave "
                "it out"
            )
    if not stores and not bar:
        raise without_store(f"queue '{name}'", describe_setting(settings))


def without_store(subject: str, setting: str) -> PreconditionFailed:
    """Return the error for retention on a broker without a store."""
    return PreconditionFailed(
        f"{subject}: {setting} needs a data directory, and this broker keeps everything in memory; start it with --data"
    )


def check_companion(name: str, settings: Settings, other: Queue | None) -> None:
    """Raise PreconditionFailed (406) if another queue has the name of a queue's companion."""
    if other is not None and not is_companion(other, name):
        raise PreconditionFailed(
            f"queue '{name}': {describe_setting(settings)} retains settled messages in a stream "
            f"'{companion_name(name)}', and vhost '{other.vhost}' has another queue of this name; delete it, or unset "
            "the setting"
        )


def check_unused(stream: Queue) -> None:
    """Raise ResourceLocked (405) for the deletion of a companion whose queue still retains."""
    retention = retention_into(stream)
    if retention is not None:
        owner = retention.queue
        raise ResourceLocked(
            f"queue '{stream.name}' in vhost '{stream.vhost}' retains what queue '{owner.name}' has settled, by "
            f"{describe_setting(owner.settings)}; unset it, or delete queue '{owner.name}', before"
        )
