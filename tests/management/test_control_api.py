"""What is told of very much is made a share of work a turn, and waits for nothing but what was asked before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.settings import changes
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE, WorkMeter, finish
from penstock.management.answer_text import text_steps
from penstock.management.listing import consumers_steps, window
from penstock.management.totals import totals_steps
from penstock.protocols.amqp091.content_frames import body_of
from penstock.setting_names import read_settings
from penstock.wire.amqp091.codec import Properties
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.turn_costs import turn_costs

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


def test_settings_of_all_patterns_are_told_whole() -> None:
    driver = with_patterns()
    turns_until_answered(driver, request("settings.list"))
    (answer,) = answers(driver)
    assert [entry["pattern"] for entry in answer["settings"]] == sorted(f"p{number}.#" for number in range(MANY))


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


def test_an_answer_in_steps_is_the_text_of_the_answer_at_once() -> None:
    answer: dict[str, object] = {"a": list(range(1000)), 'b"': [], "c": {"d": [None, "é"]}, "e": [[1], [2]], "f": None}
    assert finish(text_steps(answer, WorkMeter())) == json.dumps(answer).encode()


def test_consumers_are_found_among_thousands_of_queues_a_share_a_turn() -> None:
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    channel = Dialogue(driver).connection.engine.session(1)
    for number in range(MANY):
        queue = vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        if number % 100 == 0:
            driver.broker.consume(channel, Consumer(f"c{number}", channel, queue, False, False, 0))
    driver.broker.work.limit = 0
    passes = sum(1 for _ in consumers_steps(driver, None, 0, 1000))
    assert passes >= MANY // 500
    assert window(driver, "consumers", None, 0, 1000).total == MANY // 100


def test_what_the_overview_sums_up_is_counted_a_share_a_turn() -> None:
    driver = make_driver()
    for number in range(40):
        vhost = driver.broker.add_vhost(f"v{number}")
        for each in range(1500):
            vhost.declare_queue(f"q{each}", {}, False, False, None, None)
    turns, totals = turn_costs(driver.broker.work, totals_steps(driver))
    assert len(turns) >= 2
    assert max(turns) <= SHARE + MOST_A_STEP
    assert totals["object_totals"]["queues"] == 60_000
