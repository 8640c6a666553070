"""Answers on the control exchange that wait: for an event, or for its time, while others go on."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connections.control_request import ControlRequest
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.flow.wait import Wait, Waits
from penstock.management.node import Node
from penstock.management.operation import LOOKS, Answer, Noun, Operation, Waiting
from tests.support.control_requests import answers, request
from tests.support.driven_connection import Dialogue, make_driver


class Bell:
    """An operation that waits for a bell, and then answers whether it was rung."""

    def __init__(self, timeout_s: float = NEVER, how: str = LOOKS) -> None:
        self.waits: list[Wait] = []
        self.breaks = False
        self._timeout_s = timeout_s
        self.driver: BrokerDriver = make_driver()
        self.driver.begin(100.0)
        row = Operation("bell", self.run, (), tag="", how=how, audited=False)
        self.driver.control.add(Noun("bells", (row,)))
        self.driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
        self.client = Dialogue(self.driver)

    def run(self, node: Node, request: ControlRequest) -> Waiting:
        return Waiting(self._steps())

    def _steps(self) -> Waits[Answer]:
        wait = Wait(self._timeout_s)
        self.waits.append(wait)
        yield None
        yield wait
        if self.breaks:
            raise ValueError("a fault")
        if not wait.is_over:
            raise PreconditionFailed("nobody has rung")
        return {"rung": True}

    def ask(self) -> None:
        self.client.say(request("bell"))

    def answers(self) -> list[Any]:
        self.client.listen()
        return answers(self.driver)


@pytest.mark.parametrize("how", ["asks", "looks"])
def test_answer_follows_the_event_and_the_input_of_the_requester_waits(how: str) -> None:
    bell = Bell(how=how)
    bell.ask()
    assert (len(bell.waits), bell.answers()) == (1, [])
    assert bell.client.connection.busy == 1
    bell.waits[0].end()
    assert bell.client.connection.busy == 1, "the steps after the wait are still to be done"
    assert bell.answers() == [{"rung": True}]
    assert bell.client.connection.busy == 0


def test_request_of_another_connection_is_answered_during_a_wait() -> None:
    bell = Bell()
    bell.ask()
    other = Dialogue(bell.driver)
    other.say(request("list", kind="queues"))
    assert [[row["name"] for row in answer["items"]] for answer in bell.answers()] == [["answers"]]
    bell.waits[0].end()
    assert bell.answers()[-1] == {"rung": True}


def test_wait_ends_at_its_time_and_a_late_event_changes_nothing() -> None:
    bell = Bell(timeout_s=5.0)
    bell.ask()
    bell.client.listen(104.0)
    assert bell.answers() == []
    bell.client.listen(105.0)
    (answer,) = bell.answers()
    assert (answer["code"], answer["text"]) == (406, "nobody has rung")
    bell.waits[0].end()
    assert (len(bell.answers()), bell.client.connection.busy) == (1, 0)


def test_event_of_a_connection_that_has_ended_is_harmless() -> None:
    bell = Bell()
    bell.ask()
    bell.driver.disconnect(bell.client.connection)
    bell.waits[0].end()
    while bell.driver.run_turn():
        pass
    other = Dialogue(bell.driver)
    other.say(request("bell"))
    bell.waits[1].end()
    other.listen()
    assert {"rung": True} in answers(bell.driver)


def test_unexpected_error_of_a_step_is_answered_as_a_failure() -> None:
    bell = Bell()
    bell.breaks = True
    bell.ask()
    bell.waits[0].end()
    (answer,) = bell.answers()
    assert (answer["code"], bell.client.connection.busy) == (541, 0)
