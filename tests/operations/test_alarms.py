"""Operations of alarms: the list on both planes, its rights, and the test of the web hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from penstock.access.permission import MONITORING
from penstock.access.user import User
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.management.alarms import GATE, KINDS, MEMORY, AlarmListener
from penstock.operations.table import CONTROL
from tests.support.access_of import access_of
from tests.support.driven_connection import make_driver
from tests.support.job_calls import Asker, turn
from tests.support.operation_calls import ask

RESULT: Row = {"url": "http://127.0.0.1:1", "status": 200, "ms": 3, "answer": "ok", "error": None}


class Answering(AlarmListener):
    """Web hook that answers a test when the test lets it."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Row], None]] = []

    @override
    def view(self) -> Row | None:
        return {"url": "http://127.0.0.1:1", "error": None}

    @override
    def test(self, then: Callable[[Row], None]) -> None:
        self.waiting.append(then)


class AtOnce(Answering):
    """Web hook whose test has its result at once."""

    @override
    def test(self, then: Callable[[Row], None]) -> None:
        then(RESULT)


def asked(driver: BrokerDriver, operation: str, user: str = "guest") -> Any:
    """Ask for an operation as a user."""
    return ask(driver, operation, {}, access=access_of(driver.broker, user))


def raised(driver: BrokerDriver) -> None:
    driver.alarms.begin_round()
    driver.alarms.find(GATE, "/", "queue orders", "queue orders is full", "consume")
    driver.alarms.end_round(30.0)


@pytest.mark.parametrize("operation", ["alarm.list", "GET /penstock/alarms"])
def test_list_has_alarms_with_their_node_and_counts_of_all_kinds(operation: str) -> None:
    driver = make_driver(now=100.0)
    assert asked(driver, operation) == {
        "alarms": [], "counts": dict.fromkeys([kind.name for kind in KINDS], 0), "omitted": 0, "hook": None,
    }  # fmt: skip
    raised(driver)
    answer = asked(driver, operation)
    (alarm,) = answer["alarms"]
    assert (alarm["node"], alarm["kind"], alarm["text"], alarm["action"]) == (
        driver.name, "gate", "queue orders is full", "consume",
    )  # fmt: skip
    assert answer["counts"]["gate"] == 1


def test_list_hides_alarms_of_virtual_hosts_that_the_user_may_not_enter() -> None:
    driver = make_driver(now=100.0)
    monitor = User("monitor", None, [MONITORING])
    driver.broker.access.restore_user(monitor)
    raised(driver)
    driver.alarms.find(MEMORY, "", "memory", "the memory is used up")
    answer = asked(driver, "alarm.list", "monitor")
    assert [row["kind"] for row in answer["alarms"]] == ["memory"]
    assert answer["counts"]["gate"] == 1


def test_list_needs_monitoring_and_the_test_an_administrator() -> None:
    assert (CONTROL["alarm.list"].tag, CONTROL["alarm.test"].tag) == ("monitoring", "administrator")


@pytest.mark.parametrize("operation", ["alarm.test", "POST /penstock/alarms/test"])
def test_hook_test_without_a_hook_is_refused(operation: str) -> None:
    with pytest.raises(PreconditionFailed, match=r"\[alarm-hook\]"):
        asked(make_driver(), operation)


def test_hook_test_over_the_control_exchange_is_answered_when_the_result_comes() -> None:
    driver = make_driver()
    hook = Answering()
    driver.alarms.listener = hook
    asker = Asker(driver)
    asker.send("alarm.test")
    for _ in range(3):
        turn(driver)
    assert asker.answers() == []
    (then,) = hook.waiting
    then(RESULT)
    turn(driver)
    assert asker.answers() == [RESULT]


def test_hook_test_over_http_waits_for_the_result() -> None:
    driver = make_driver()
    driver.alarms.listener = AtOnce()
    assert asked(driver, "POST /penstock/alarms/test") == RESULT
    assert asked(driver, "alarm.list")["hook"] == {"url": "http://127.0.0.1:1", "error": None}
