"""Control operations on a broker with thousands of objects, and the turns that their answers take."""

from __future__ import annotations

import json
from typing import Any

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.operations.table import CONTROL
from penstock.protocols.amqp091.content_frames import body_of
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.driven_connection import Dialogue, make_driver, publish

MANY = 3_000


def with_queues() -> BrokerDriver:
    driver = make_driver()
    for number in range(MANY):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    return driver


def with_patterns() -> BrokerDriver:
    driver = make_driver()
    said = [("queue", f"p{n}.#", read_settings("queue", f"p{n}.#", {"hold-deadline": 5})) for n in range(MANY)]
    at_once.set_all(driver.broker, said)
    return driver


def request(operation: str, **fields: object) -> bytes:
    properties = Properties(reply_to="answers")
    return publish(operation, json.dumps(fields).encode(), properties=properties, exchange="penstock.control")


def known_to(operation: str, **fields: object) -> dict[str, object]:
    """Return those of the fields that an operation has."""
    return {name: value for name, value in fields.items() if name in CONTROL[operation].fields}


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


def answer_to(driver: BrokerDriver, operation: str, **fields: object) -> Any:
    """Ask as a client does, and make turns until the answer is there."""
    vhost = driver.broker.vhosts["/"]
    if "answers" not in vhost.queues:
        vhost.declare_queue("answers", {}, False, False, None, None)
    seen = len(answers(driver))
    client = Dialogue(driver)
    driver.scheduler.begin_turn()
    driver.scheduler.receive(client.connection, request(operation, **fields))
    while len(answers(driver)) == seen:
        driver.run_turn()
    return answers(driver)[-1]
