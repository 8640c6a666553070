"""The status of the broker, made a share of work a turn."""

from __future__ import annotations

from tests.support.control_requests import MANY, answers, request, with_queues
from tests.support.driven_connection import Dialogue


def test_who_asks_for_the_status_does_not_wait_for_a_change_of_thousands_of_queues() -> None:
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
