"""Histories of queues, virtual hosts and the node."""

from __future__ import annotations

from typing import Any

from penstock.describe import stats_sampler
from penstock.driver.driver import BrokerDriver
from penstock.flow.series import FINE, MINUTES, PERIODS_OF_5, SLOT_S
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, drain, publish, sampled


def of_queue(driver: BrokerDriver, tier: int, name: str = "q") -> Any:
    return stats_sampler.of_queue(driver.broker.vhosts["/"].queues[name], driver.stats, tier)


def test_history_has_rates_depths_and_the_time_that_the_gate_was_closed(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q", capacity_messages=10, queue_stop=5)
    client.say(publish("q", b"x") * 4)
    sampled(driver, 1)
    client.say(publish("q", b"x") * 6)
    sampled(driver, 2)
    driver.begin(2.5 * SLOT_S)
    client.say(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
    drain(driver, "q")
    sampled(driver, 3)
    sampled(driver, 4)
    found = of_queue(driver, FINE)
    assert (found["seconds"], found["end"]) == (5, 20_000)
    assert found["publish"] == [0.0, 0.8, 1.2, 0.0, 0.0]
    assert found["deliver_get"] == [0.0, 0.0, 0.0, 0.2, 0.0]
    assert found["messages"] == [0, 4, 10, 0, 0]
    assert found["bytes"][2] == 10 * 243
    assert found["closed"] == [0.0, 0.0, 1.0, 0.5, 0.0]


def test_longer_tiers_have_average_rates_and_the_highest_depth(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    for slot in range(1, 61):
        client.say(publish("q", b"x") * 2)
        sampled(driver, slot)
        if slot % 12 == 5:
            drain(driver, "q")
    minutes, periods = of_queue(driver, MINUTES), of_queue(driver, PERIODS_OF_5)
    assert minutes["publish"] == [round(22 / 60, 3), 0.4, 0.4, 0.4, 0.4, 0.4]
    assert minutes["messages"] == [12, 24, 24, 24, 24, 14]
    assert len(periods["publish"]) == 2
    assert periods["messages"][0] == 24


def test_queue_without_traffic_has_a_history_of_its_depth(driver: BrokerDriver) -> None:
    Dialogue(driver).declare("q")
    for slot in (1, 2):
        sampled(driver, slot)
    found = of_queue(driver, FINE)
    assert (found["publish"], found["messages"], found["closed"]) == ([0.0] * 3, [0] * 3, [0.0] * 3)


def test_virtual_host_and_node_have_the_sum_of_their_queues(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    for name in ("a", "b"):
        client.declare(name)
        client.say(publish(name, b"x") * 5)
    assert driver.stats.vhosts == {}
    before: Any = stats_sampler.of_sum(None, driver.stats, FINE)
    assert before["messages"] == [0]
    sampled(driver, 1)
    for counted in (driver.stats.vhosts["/"], driver.stats.node):
        found: Any = stats_sampler.of_sum(counted, driver.stats, FINE)
        assert (found["publish"], found["messages"], found["bytes"]) == ([0.0, 2.0], [0, 10], [0, 10 * 243])


def test_wall_clock_that_is_set_moves_no_entry(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    client.say(publish("q", b"x") * 5)
    sampled(driver, 1)
    before = of_queue(driver, FINE)
    driver.broker.wall_offset -= 86_400.0
    after = of_queue(driver, FINE)
    assert after["end"] == before["end"] - 86_400_000
    assert after["publish"] == before["publish"] == [0.0, 1.0]


def test_node_has_the_number_of_closed_gates(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    assert stats_sampler.closed_gates(driver.stats, FINE) == [0.0]
    for name in ("a", "b"):
        client.declare(name, capacity_messages=10, queue_stop=5)
        client.say(publish(name, b"x") * 4)
    sampled(driver, 1)
    client.say(publish("a", b"x") * 6)
    client.say(publish("b", b"x") * 6)
    sampled(driver, 2)
    drain(driver, "a")
    sampled(driver, 3)
    assert stats_sampler.closed_gates(driver.stats, FINE) == [0.0, 0.0, 2.0, 1.0]


def test_gate_of_the_operator_counts_while_its_queue_is_idle(driver: BrokerDriver) -> None:
    Dialogue(driver).declare("q")
    sampled(driver, 1)
    driver.broker.gates.block("queue", "/", "q", "")
    sampled(driver, 2)
    sampled(driver, 3)
    driver.broker.gates.unblock("queue", "/", "q")
    sampled(driver, 4)
    assert stats_sampler.closed_gates(driver.stats, FINE) == [0.0, 0.0, 1.0, 1.0, 0.0]
