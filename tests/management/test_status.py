"""The status of the broker, made a share of work a turn."""

from __future__ import annotations

import json
from typing import Any

from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.content_frames import body_of
from penstock.wire.amqp091.codec import Properties
from tests.support.driven_connection import Dialogue, make_driver, publish

MANY = 3_000


def with_queues() -> BrokerDriver:
    driver = make_driver()
    for number in range(MANY):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    return driver


def request(operation: str, **fields: object) -> bytes:
    properties = Properties(reply_to="answers")
    return publish(operation, json.dumps(fields).encode(), properties=properties, exchange="penstock.control")


def answers(driver: BrokerDriver) -> list[Any]:
    """Return the answers so far."""
    queue = driver.broker.vhosts["/"].queues["answers"]
    return [json.loads(body_of(message.content)) for message in queue.ready_queue.messages()]


def test_who_asks_for_the_status_does_not_wait_for_a_change_of_thousands_of_queues() -> None:
    driver = with_queues()
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
