"""Answers on the control exchange of operations whose steps wait for events, such as a page on the disk.

The steps run with those of other requests. During a wait they are in no line, so others go on, and the input of the
requester's connection waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.connections.control_request import ControlRequest
from penstock.errors import BrokerError
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.wait import Wait, Waits
from penstock.flow.work import Steps
from penstock.management.json_reader import text_steps
from penstock.management.operation import LOOKS, Answer, Operation

if TYPE_CHECKING:
    from penstock.management.control_api import ControlApi


class WaitingAnswer(TimerHandler):
    """One request whose answer follows after waits."""

    def __init__(self, control: ControlApi, row: Operation, request: ControlRequest, steps: Waits[Answer]) -> None:
        super().__init__()
        self._control = control
        self._row = row
        self._request = request
        self._steps = steps
        self._waits_on: Wait | None = None

    def go_on(self) -> None:
        """Carry out steps until the answer, or the next wait."""
        node = self._control.node
        if self._row.how == LOOKS:
            node.start_asking(self._until_wait(), self._request.connection, True)
        else:
            node.start_asking(self._until_wait(), self._request.connection)

    def _until_wait(self) -> Steps[None]:
        control, request = self._control, self._request
        answer: Answer = None
        try:
            while True:
                try:
                    wait = next(self._steps)
                except StopIteration as end:
                    answer = end.value
                    break
                if wait is None:
                    yield
                elif not wait.is_over:
                    self._begin_wait(wait)
                    return
            assert isinstance(answer, dict)
            body = yield from text_steps(answer, control.broker.work)
            control.reply(request, "application/json", body)
        except BrokerError as error:
            control.fail(request, error)
        except Exception as unexpected:
            failure = control.node.failures.report(f"control operation '{self._row.name}'", unexpected)
            control.fail(request, failure)

    def _begin_wait(self, wait: Wait) -> None:
        self._request.begin_wait()
        self._waits_on = wait
        if wait.timeout_s != NEVER:
            broker = self._control.broker
            broker.timers.add(self, broker.now + wait.timeout_s)
        wait.subscribe(lambda: self._end_wait(wait))

    def _end_wait(self, wait: Wait) -> None:
        if self._waits_on is not wait:
            return  # Its time was up before the event.
        self._waits_on = None
        self._control.broker.timers.drop(self)
        self.go_on()
        self._request.end_wait()

    @override
    def on_deadline(self, now: float) -> float:
        if self._waits_on is not None:
            self._end_wait(self._waits_on)
        return NEVER
