"""What is told of very much is made a share of work a turn, and waits for nothing but what was asked before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.settings import changes
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE
from penstock.protocols.amqp091.content_frames import body_of
from penstock.setting_names import read_settings
from penstock.wire.amqp091.codec import Properties
from tests.support.driven_connection import Dialogue, make_driver, publish

MANY = 3_000


MOST_A_STEP = 300
"""Units by which the last step of a turn may pass the share."""


def with_queues() -> BrokerDriver:
    driver = make_driver()
    for number in range(MANY):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    return driver


def with_patterns() -> BrokerDriver:
    driver = make_driver()
    said = [("queue", f"p{n}.#", read_settings("queue", f"p{n}.#", {"hold-deadline": 5})) for n in range(MANY)]
    changes.set_all(driver.broker, said)
    return driver


def request(operation: str, **fields: object) -> bytes:
    properties = Properties(reply_to="answers")
    return publish(operation, json.dumps(fields).encode(), properties=properties, exchange="penstock.control")


def answers(driver: BrokerDriver) -> list[Any]:
    """Return the answers so far."""
    queue = driver.broker.vhosts["/"].queues["answers"]
    return [json.loads(body_of(message.content)) for message in queue.ready_queue.messages()]


def turns_until_answered(driver: BrokerDriver, data: bytes) -> list[int]:
    """Ask; return the units of work that each turn took which told something."""
    driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
    client = Dialogue(driver)
    driver.scheduler.begin_turn()
    driver.scheduler.receive(client.connection, data)
    found: list[int] = []
    while not answers(driver):
        assert client.connection.busy
        before = int(driver.broker.work.done)
        driver.run_turn()
        found.append(int(driver.broker.work.done) - before)
    return found


@pytest.mark.parametrize(
    ("make", "operation", "fields", "least"),
    [
        (with_queues, "status", {}, 3),
        (with_queues, "list", {"kind": "queues"}, 3),
        (with_patterns, "settings.list", {}, 5),
    ],
)
def test_an_answer_of_very_many_things_is_made_a_share_a_turn(
    make: Callable[[], BrokerDriver], operation: str, fields: dict[str, object], least: int
) -> None:
    driver = make()
    turns = turns_until_answered(driver, request(operation, **fields))
    assert len(turns) >= least
    assert max(turns) <= SHARE + MOST_A_STEP
