"""Windows of lists: all of a kind, some at a time, each thing once."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from penstock.management.listing import KINDS, Window, collected_steps, consumers_steps, window_steps
from tests.support.driven_connection import Dialogue, make_driver, make_full_driver


@pytest.fixture
def driver() -> BrokerDriver:
    return make_full_driver()


def window(driver: BrokerDriver, kind: str, vhost: VirtualHost | None, after: int, count: int) -> Window:
    return finish(window_steps(driver, kind, vhost, after, count))


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


@pytest.mark.parametrize("kind", KINDS)
def test_collected_items_are_those_of_one_window(driver: BrokerDriver, kind: str) -> None:
    for vhost in (None, driver.broker.vhosts["other"]):
        whole = window(driver, kind, vhost, 0, 1000)
        found = finish(collected_steps(driver, kind, vhost))
        assert [(item.name, item.vhost, item.subject) for item in found] == [
            (item.name, item.vhost, item.subject) for item in whole.items
        ]


@pytest.mark.parametrize("kind", ["connections", "channels"])
def test_connections_are_collected_a_share_a_turn_in_proportion_to_their_number(kind: str) -> None:
    driver = make_driver()

    def passes(connections: int) -> tuple[int, int, int]:
        for _ in range(connections):
            Dialogue(driver)
        driver.broker.work.limit = 0
        before = driver.broker.work.done
        steps = sum(1 for _ in collected_steps(driver, kind, None))
        cost = int(driver.broker.work.done - before)
        return steps, cost, sum(1 for _ in window_steps(driver, kind, None, 0, 10))

    few = passes(1_000)
    many = passes(3_000)
    assert few[0] >= 2
    assert few[2] >= 2
    assert many[0] <= 4 * few[0] + 1
    assert many[1] <= 4 * few[1] + 4


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
