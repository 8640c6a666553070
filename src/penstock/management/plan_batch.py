"""Plan of a batch: ranges of all queues of a cursor, which the answer to `cursor.plan` tells.

Each queue gets an equal share of rows and bytes, and of what those before it have left. A range may go beyond what is
in memory; then the batch waits for the disk, and the connection of the request is not read meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.admission import gates_of
from penstock.core.queue.arrival import visible_tail
from penstock.core.queue.cursor import Cursor, Position
from penstock.core.queue.pinned_room import most_to_plan
from penstock.core.queue.range_plan import PlanListener, RangePlan
from penstock.errors import BrokerError
from penstock.flow.level import UNLIMITED
from penstock.management.block_columns import left_out

if TYPE_CHECKING:
    from penstock.management.control_request import ControlRequest
    from penstock.management.cursor_api import CursorApi


class PlanBatch(PlanListener):
    """A plan of one batch."""

    def __init__(
        self,
        cursors: CursorApi,
        request: ControlRequest,
        cursor: Cursor,
        queues: list[str],
        deadline: float,
        disk: bool,
    ) -> None:
        """Without `disk` it ends with the memory."""
        self.cursors = cursors
        self.request = request
        self.cursor = cursor
        self.deadline = deadline
        """Time until which it may wait for a first message."""
        self.rows = 0
        self.bytes = 0
        """Number and bytes (charges) of its messages."""
        self._disk = disk
        self._waits: bool = False
        """True once it waits for the disk."""
        self._start = request.offsets("start")
        self._upto = request.offsets("upto")
        most = most_to_plan(cursor)
        self._most_rows = min(request.amount("rows", UNLIMITED), int(most.messages))
        self._most_bytes = min(request.amount("bytes", UNLIMITED), int(most.bytes))
        self._left = queues
        """Names of the queues that are to be planned; the first one is being planned."""
        self._range: RangePlan | None = None
        self._end: dict[str, object] = {}
        self._tail: dict[str, object] = {}
        self._messages: dict[str, object] = {}
        self._paged: list[str] = []
        self._least = request.amount("least", 0)
        """Number of messages that it waits for, unless it is pressed."""
        self._pressed: list[str] = []
        """Names of queues because of which it must not wait to become larger."""

    def begin(self) -> bool:
        """Plan. Return whether it is complete; otherwise `CursorApi.planned` is called when it is."""
        if self._go_on():
            return True
        self._waits = True
        if self.request.connection is not None:
            self.request.connection.busy += 1
        return False

    @override
    def on_read(self) -> None:
        if not self._waits:
            return
        try:
            self.cursors.check_holder(self.request)
            if not self._go_on():
                return
            self.cursors.planned(self)
        except BrokerError as error:
            self.cursors.control.fail(self.request, error)
        self._waits = False
        connection = self.request.connection
        if connection is not None:
            connection.busy -= 1
            connection.services.resume_input(connection)

    def _go_on(self) -> bool:
        while self._left:
            name = self._left[0]
            position = self.cursor.position(name)
            plan = self._range
            if plan is None:
                left = len(self._left)
                rows, size = self._most_rows, self._most_bytes
                plan = RangePlan(
                    self.cursor.begin_plan(name, self._start.get(name, int(position.settled))),
                    self._start.get(name, int(position.settled)),
                    UNLIMITED if rows == UNLIMITED else (rows - self.rows + left - 1) // left,
                    UNLIMITED if size == UNLIMITED else max((size - self.bytes) // left, 1),
                    self._upto.get(name, UNLIMITED),
                    self if self._disk else None,
                )
                self._range = plan
            if not plan.go_on():
                return False
            self._range = None
            del self._left[0]
            self._end[name] = int(plan.end)
            self._tail[name] = int(visible_tail(position.queue))
            self._messages[name] = int(plan.messages)
            if plan.waits:
                self._paged.append(name)
            start, upto = self._start.get(name, int(position.settled)), self._upto.get(name, UNLIMITED)
            if plan.waits or (self._least and _is_pressed(position, start, plan.end, upto)):
                self._pressed.append(name)
            self.rows += int(plan.messages)
            self.bytes += int(plan.bytes)
        return True

    def is_enough(self) -> bool:
        """Return whether it need not wait for more messages."""
        return self.rows > 0 and (self.rows >= self._least or len(self._pressed) > 0)

    def answer(self) -> dict[str, object]:
        """Return the answer once it is complete."""
        found: dict[str, object] = {"end": self._end, "tail": self._tail, "messages": self._messages}
        found |= {"paged": self._paged, "pressed": self._pressed}
        if self.request.flag("left_out"):
            found["left_out"] = {name: self._left_out(name) for name, rows in self._messages.items() if rows}
        epoch = int(self.cursors.broker.vhosts[self.cursor.vhost].epoch)
        return {**found, "rows": self.rows, "bytes": self.bytes, "epoch": epoch}

    def _left_out(self, name: str) -> list[str]:
        """Return the columns that the first message of its range has beside the default ones."""
        position = self.cursor.position(name)
        start, end = self._start.get(name, int(position.settled)), self._end[name]
        assert isinstance(end, int)
        return left_out(list(position.line.between(start, end, 1, UNLIMITED)), self.cursors.broker.formats)


def _is_pressed(position: Position, start: i64, end: i64, upto: i64) -> bool:
    """Return whether a plan from `start` to `end` must not wait to become larger.

    A producer of its queue is blocked, so nothing more may come before the messages are settled; or the plan ends
    because of its limits. One message tells the address of all.
    """
    for gate in gates_of(position.queue):
        if not gate.open or gate.in_line():
            return True
    for message in position.line.between(start, end, 1, UNLIMITED):
        if message.share is not None:
            gate = message.share.depth.gate
            if not gate.open or gate.in_line():
                return True
    return end < upto and end < position.newest()
