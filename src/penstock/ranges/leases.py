"""Leases: the present messages of queues, pinned for a batch read. A lease removes nothing, and expires by itself.

A lease has a cursor of its own that is in no list, is not stored, and never settles anything. On a queue that a cursor
can read it keeps all messages, as any cursor that lags behind. On others (with consumers, or with overflow policy
drop-head) it keeps nothing: messages that leave the queue meanwhile are not read. The answer says which case holds.
Each request for a block gives a lease its whole time again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typing_extensions import override

from penstock.core.broker import Broker
from penstock.core.queue.cursor_state import CursorState, Position
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, NotFound, PreconditionFailed, ResourceError
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.authorization import check_read_cursor, check_read_queue
from penstock.protocols.common.control_request import ControlRequest
from penstock.ranges.columns import left_out
from penstock.ranges.cursors import Cursor, earliest_offset

LEASES_MAX: Final = 1_000
"""Most leases of all virtual hosts."""
TIMEOUT_MS: Final = 300_000
TIMEOUT_MS_MAX: Final = 3_600_000
"""Milliseconds without a request after which a lease ends: without a wish, and at most."""


class Lease(TimerHandler):
    """One lease."""

    def __init__(self, leases: Leases, number: int, vhost: VirtualHost, asker: str, timeout_s: float) -> None:
        super().__init__()
        self.vhost = vhost
        self.cursor = Cursor(vhost.name, f"lease {number} of {asker}")
        """Its positions are at 0, so that nothing that comes back to a queue counts as settled."""
        self.cursor.is_lease = True
        self.timeout_s = timeout_s
        self.until: float = NEVER
        """Time at which it ends."""
        self._leases = leases
        self._number = number

    @override
    def on_deadline(self, now: float) -> float:
        if now < self.until:
            return self.until
        self._leases.end(self._number)
        return NEVER


class Leases:
    """Leases by number."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._leases: dict[int, Lease] = {}
        self._count: int = 0

    def open(self, request: ControlRequest) -> dict[str, object]:
        """Pin the messages of queues, or of those that a cursor subscribes to; return the offsets of each.

        With `partial` queues that cannot be read are left out and listed in the answer.
        """
        named = request.fields.get("cursor") is not None
        reader = self._reader(request) if named else None
        if request.fields.get("queues") is None and reader is not None:
            names = [name for name, position in reader.positions.items() if not position.left]
        else:
            names = request.names("queues", 0 if request.flag("partial") else 1)
        timeout_ms = request.amount("timeout_ms", TIMEOUT_MS)
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise PreconditionFailed(f"'timeout_ms' must be from 1 to {TIMEOUT_MS_MAX}, not {timeout_ms}")
        if len(self._leases) >= LEASES_MAX:
            raise ResourceError(
                f"there are {LEASES_MAX} leases, the most that there may be; wait until batch reads have ended"
            )
        queues, refused = named_queues(request, names, _check_order)
        self._count += 1
        lease = Lease(self, self._count, request.vhost, request.asker(), timeout_ms / 1000)
        self._leases[self._count] = lease
        offsets = {queue.name: self._pin(lease.cursor, queue, reader) for queue in queues}
        self._touch(lease)
        answer: dict[str, object] = {"lease": self._count, "queues": offsets, "refused": refused}
        if request.flag("left_out"):
            formats = self._broker.formats
            answer["left_out"] = {
                name: left_out(list(position.line.between(0, UNLIMITED, 1, UNLIMITED)), formats)
                for name, position in lease.cursor.positions.items()
            }
        return answer

    def close(self, request: ControlRequest) -> dict[str, object]:
        """End a lease."""
        check_read_cursor(request.access, self._lease(request).cursor)
        self.end(request.number("lease"))
        return {}

    def cursor(self, request: ControlRequest) -> Cursor:
        """Return the cursor of a lease, which has its whole time again. Raises NotFound (404)."""
        lease = self._lease(request)
        self._touch(lease)
        return lease.cursor

    def end(self, number: int) -> None:
        """End a lease by its number."""
        lease = self._leases.pop(number)
        self._broker.timers.drop(lease)
        shared = [position.shared for position in lease.cursor.positions.values()]
        queues = [position.queue for position in lease.cursor.positions.values()]
        lease.cursor.delete(self._broker.now)
        for queue, ready in zip(queues, shared, strict=True):
            if not queue.cursors and queue.ready_queue is ready:
                queue.ready_queue = ready.dissolve()

    def forget(self, vhost: VirtualHost) -> None:
        """End the leases of a virtual host that is being deleted."""
        for number in [number for number, lease in self._leases.items() if lease.vhost is vhost]:
            self.end(number)

    def _reader(self, request: ControlRequest) -> CursorState:
        name = request.text("cursor")
        cursor = request.vhost.cursors.get(name)
        if cursor is None:
            raise NotFound(f"no cursor '{name}' in vhost '{request.vhost.name}'; leave it out to read what is there")
        return cursor

    def _lease(self, request: ControlRequest) -> Lease:
        number = request.number("lease")
        lease = self._leases.get(number)
        if lease is None or lease.vhost is not request.vhost:
            raise NotFound(
                f"lease {number} has ended, because nothing was read under it for its time, or the broker was "
                "restarted; read again, with a longer leaseTimeout if that is too short"
            )
        return lease

    def _touch(self, lease: Lease) -> None:
        lease.until = self._broker.now + lease.timeout_s
        self._broker.timers.add(lease, lease.until)

    def _pin(self, cursor: Cursor, queue: Queue, reader: CursorState | None) -> dict[str, object]:
        """Pin a queue if possible; return its offsets, and the reason if it is not pinned."""
        earliest = earliest_offset(queue)
        reason = ""
        if not queue.cursors:
            try:
                cursor.check_new(queue, {queue.name: "earliest"})
            except BrokerError as error:
                reason = str(error)
        cursor.positions[queue.name] = Position(queue, 0)
        if not reason:
            queue.cursors.append(cursor)
            if queue.consumers:
                reason = f"queue '{queue.name}' has {len(queue.consumers)} consumers, which go on"
        settled = None if reader is None else reader.positions.get(queue.name)
        return {
            "earliest": int(earliest),
            "tail": int(visible_tail(queue)),
            "settled": None if settled is None or settled.queue is not queue else int(settled.settled),
            "unpinned": reason,
        }


def _check_order(queue: Queue) -> None:
    if queue.features.max_priority:
        raise PreconditionFailed(
            f"queue '{queue.name}' has priorities, so its messages are not in the order of their sequences; "
            "consume or browse it"
        )


def named_queues(
    request: ControlRequest, names: list[str], check: Callable[[Queue], None]
) -> tuple[list[Queue], dict[str, object]]:
    """Return the queues of these names that may be read and pass a check.

    Others are refused, or returned with the reason if the request has `partial`.
    """
    queues: list[Queue] = []
    refused: dict[str, object] = {}
    for name in names:
        try:
            check_read_queue(request.access, name)
            queue = request.vhost.queue(name, request.connection)
            check(queue)
            queues.append(queue)
        except BrokerError as error:
            if not request.flag("partial"):
                raise
            refused[name] = str(error)
    return queues, refused
