"""Windows of lists: all of a kind, some at a time, each thing once."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.driver.driver import BrokerDriver
from penstock.management.listing import KINDS, consumers_steps, window
from tests.support.driven_connection import Dialogue, make_driver, make_full_driver


@pytest.fixture
def driver() -> BrokerDriver:
    return make_full_driver()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_windows_one_after_the_other_are_the_whole_list(driver: BrokerDriver, kind: str, size: int) -> None:
    whole = window(driver, kind, None, 0, 1000)
    found = []
    after: int | None = 0
    while after is not None:
        part = window(driver, kind, None, after, size)
        assert part.total == whole.total
        found += part.items
        after = part.end()
    assert [(item.name, item.vhost, item.subject) for item in found] == [
        (item.name, item.vhost, item.subject) for item in whole.items
    ]
    assert len(found) == whole.total


def test_list_of_one_virtual_host_has_its_own_things(driver: BrokerDriver) -> None:
    other = driver.broker.vhosts["other"]
    assert [item.name for item in window(driver, "queues", other, 0, 99).items] == [f"q{number}" for number in range(5)]
    assert window(driver, "bindings", other, 0, 1).total == 5 + 5
    assert window(driver, "connections", other, 0, 99).total == 0
    assert window(driver, "channels", driver.broker.vhosts["/"], 0, 99).total == 3


MANY = 3_000


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
