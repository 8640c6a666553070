"""Control operations with long answers: a share of work a turn, and in order with earlier requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE
from tests.support.control_requests import MANY, answers, request, turns_until_answered, with_patterns, with_queues
from tests.support.driven_connection import Dialogue

MOST_A_STEP = 300
"""Units by which the last step of a turn may pass the share."""


@pytest.mark.parametrize(
    ("make", "operation", "fields", "least"),
    [
        (with_queues, "status", {}, 3),
        (with_queues, "list", {"kind": "queues"}, 3),
        (with_patterns, "settings.list", {}, 5),
    ],
)
def test_answer_of_very_many_objects_is_made_a_share_a_turn(
    make: Callable[[], BrokerDriver], operation: str, fields: dict[str, object], least: int
) -> None:
    driver = make()
    turns = turns_until_answered(driver, request(operation, **fields))
    assert len(turns) >= least
    assert max(turns) <= SHARE + MOST_A_STEP


def test_status_does_not_wait_for_a_change_of_thousands_of_queues() -> None:
    driver = with_queues()
    for number in range(3 * MANY):
        driver.broker.vhosts["/"].declare_queue(f"more{number}", {}, False, False, None, None)
    change = request("settings.set", scope="queue", pattern="#", settings={"hold-deadline": 7})
    driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
    first, second = Dialogue(driver), Dialogue(driver)
    driver.scheduler.begin_turn()
    driver.scheduler.receive(first.connection, change)
    driver.scheduler.receive(second.connection, request("status"))
    while not answers(driver):
        assert first.connection.busy
        assert second.connection.busy
        driver.run_turn()
    assert "turns" in answers(driver)[0]
