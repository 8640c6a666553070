"""Look-up of offsets by time: the answer to `cursor.find`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.core.queue.arrival import visible_tail
from penstock.core.queue.cursor import earliest_offset
from penstock.core.queue.indexed_ready_queue import REACH_WORK
from penstock.core.queue.queue import Queue
from penstock.core.queue.range_plan import PlanListener
from penstock.core.queue.time_search import TimeSearch
from penstock.flow.work import Steps
from penstock.protocols.common.authorization import check_read_queue

if TYPE_CHECKING:
    from penstock.management.control_api import ControlApi
    from penstock.management.control_request import ControlRequest


class TimeLookup(PlanListener):
    """Searches of one request, one queue after the other."""

    def __init__(self, control: ControlApi, request: ControlRequest) -> None:
        """Read the request. Raises NotFound (404) for a queue that does not exist."""
        self._control = control
        self._request = request
        since_us = request.number("timestamp")
        wall_offset = control.broker.wall_offset
        queues: list[Queue] = []
        for name in request.names("queues"):
            check_read_queue(request.access, name)
            queues.append(request.vhost.queue(name, request.connection))
        self._left = [TimeSearch(queue, since_us, wall_offset, self) for queue in reversed(queues)]
        self._found: dict[str, object] = {}
        self._waits: bool = False
        """True once it waits for the disk."""

    def steps(self) -> Steps[dict[str, object] | None]:
        """Search as far as the memory; returns None if the answer comes when the disk was read."""
        work = self._control.broker.work
        for search in self._left:
            while not search.reach():
                work.done += REACH_WORK
                if work.used_up():
                    yield
        if self._go_on():
            return {"found": self._found}
        self._waits = True
        if self._request.connection is not None:
            self._request.connection.busy += 1
        return None

    @override
    def on_read(self) -> None:
        if not self._waits or not self._go_on():
            return
        self._waits = False
        self._control.reply(self._request, "application/json", json.dumps({"found": self._found}).encode())
        connection = self._request.connection
        if connection is not None:
            connection.busy -= 1
            connection.services.resume_input(connection)

    def _go_on(self) -> bool:
        while self._left:
            search = self._left[len(self._left) - 1]
            if not search.go_on():
                return False
            self._left.pop()
            queue = search.queue
            self._found[queue.name] = {
                "offset": int(search.offset),
                "arrived": None if search.arrived_us < 0 else int(search.arrived_us),
                "earliest": int(earliest_offset(queue)),
                "tail": int(visible_tail(queue)),
            }
        return True
