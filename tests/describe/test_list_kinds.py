"""Lists of a kind: complete, collected a share a turn."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import KINDS, QUEUES_AT_ONCE, Item
from penstock.describe.lists import collected_steps
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from tests.support.driven_connection import Dialogue, make_driver, make_full_driver


@pytest.fixture
def driver() -> BrokerDriver:
    return make_full_driver()


KIND = {kind.name: kind for kind in KINDS}


def collected(driver: BrokerDriver, kind: str, vhost: VirtualHost | None = None) -> list[Item]:
    return finish(collected_steps(driver, KIND[kind], vhost))


@pytest.mark.parametrize("kind", KIND)
def test_collected_items_are_those_of_each_virtual_host(driver: BrokerDriver, kind: str) -> None:
    whole = [(item.vhost, item.subject) for item in collected(driver, kind)]
    parts = [
        (item.vhost, item.subject) for vhost in driver.broker.vhosts.values() for item in collected(driver, kind, vhost)
    ]
    assert whole == parts
    assert len(whole) == len(set(whole))


@pytest.mark.once
@pytest.mark.parametrize("kind", ["connections", "channels"])
def test_connections_are_collected_a_share_a_turn_in_proportion_to_their_number(kind: str) -> None:
    driver = make_driver()

    def passes(connections: int) -> tuple[int, int]:
        for _ in range(connections):
            Dialogue(driver)
        driver.broker.work.limit = 0
        before = driver.broker.work.done
        steps = sum(1 for _ in collected_steps(driver, KIND[kind], None))
        return steps, int(driver.broker.work.done - before)

    few = passes(1_000)
    many = passes(3_000)
    assert few[0] >= 2
    assert many[0] <= 4 * few[0] + 1
    assert many[1] <= 4 * few[1] + 4


def test_list_of_one_virtual_host_has_its_own_objects(driver: BrokerDriver) -> None:
    other = driver.broker.vhosts["other"]
    assert [item.name for item in collected(driver, "queues", other)] == [f"q{number}" for number in range(5)]
    assert len(collected(driver, "bindings", other)) == 5 + 5
    assert collected(driver, "connections", other) == []
    assert len(collected(driver, "channels", driver.broker.vhosts["/"])) == 3


def test_bindings_to_exchanges_are_listed(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["other"]
    binding = vhost.bind("x", None, vhost.exchange("amq.fanout"), "k", {})
    assert collected(driver, "bindings", vhost)[-1].subject is binding


MANY = 3_000


@pytest.mark.once
def test_consumers_are_found_among_thousands_of_queues_a_share_a_turn() -> None:
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    channel = Dialogue(driver).connection.engine.session(1)
    for number in range(MANY):
        queue = vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        if number % 100 == 0:
            driver.broker.consume(channel, Consumer(f"c{number}", channel, queue, False, False, 0))
    driver.broker.work.limit = 0
    passes = sum(1 for _ in collected_steps(driver, KIND["consumers"], None))
    assert passes >= MANY // QUEUES_AT_ONCE
    assert len(collected(driver, "consumers")) == MANY // 100
