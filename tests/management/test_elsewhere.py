"""Elsewhere: a broker that is alone answers itself, and one with an elsewhere waits for the answer of others."""

from __future__ import annotations

import pytest
from typing_extensions import override

from penstock.connections.control_request import ControlRequest
from penstock.errors import NotFound
from penstock.flow.wait import Wait, Waits
from penstock.management.elsewhere import Elsewhere, ImportParts, PartsWork
from penstock.management.operation import Answer, Operation
from penstock.operations.table import CONTROL
from tests.support.control_requests import answers, request
from tests.support.driven_connection import Dialogue, make_driver


class Others(Elsewhere):
    """Other brokers that answer for users."""

    def __init__(self) -> None:
        self.wait = Wait()
        self.asked: list[str] = []
        self.error: NotFound | None = None

    @override
    def asks(self, row: Operation, request: ControlRequest) -> Waits[Answer] | None:
        return self._steps(row) if row.name.startswith("user.") else None

    def _steps(self, row: Operation) -> Waits[Answer]:
        self.asked.append(row.name)
        yield self.wait
        if self.error is not None:
            raise self.error
        return {"from": "elsewhere"}


def test_request_waits_for_the_answer_of_others_and_others_go_on() -> None:
    driver, others = make_driver(), Others()
    driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
    driver.control.elsewhere = others
    asking = Dialogue(driver)
    asking.say(request("user.list"))
    assert (others.asked, answers(driver)) == (["user.list"], [])
    assert asking.connection.busy == 1
    Dialogue(driver).say(request("health"))
    assert [each["status"] for each in answers(driver)] == ["ok"]
    others.wait.end()
    asking.listen()
    assert answers(driver)[-1] == {"from": "elsewhere"}
    assert asking.connection.busy == 0


def test_error_of_others_is_that_of_the_request() -> None:
    driver, others = make_driver(), Others()
    driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
    driver.control.elsewhere = others
    others.error = NotFound("no user 'ada'")
    others.wait.end()
    Dialogue(driver).say(request("user.delete", name="ada"))
    assert answers(driver) == [{"code": 404, "name": "not-found", "text": "no user 'ada'"}]


def test_request_that_is_refused_here_is_not_passed_on() -> None:
    driver, others = make_driver(), Others()
    driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
    driver.control.elsewhere = others
    Dialogue(driver).say(request("user.delete", nam="ada"))
    assert "user.delete has no field 'nam'" in answers(driver)[0]["text"]
    assert others.asked == []


def test_interfaces_answer_nothing_themselves() -> None:
    with pytest.raises(NotImplementedError):
        Elsewhere().asks(CONTROL["health"], ControlRequest(None, None))
    with pytest.raises(NotImplementedError):
        ImportParts().begin({}, "", [], None, "", "", lambda: None)
    assert PartsWork().answers == []
