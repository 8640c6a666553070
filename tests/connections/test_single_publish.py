"""Single publishes without a channel, at a gate that stays closed."""

from __future__ import annotations

from penstock.connections.single_publish import ORIGINS_MOST, SinglePublish
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue


def send(driver: BrokerDriver) -> SinglePublish:
    publication = SinglePublish(driver.single_publishes, access_of(driver.broker), "here")
    publication.send(driver.broker.vhosts["/"], "", "q", Properties(), b"x")
    return publication


def at(driver: BrokerDriver, now: float) -> None:
    driver.begin(now)
    driver.run_turn()


def test_single_messages_in_a_loop_do_not_fill_the_zone_of_a_closed_gate(driver: BrokerDriver) -> None:
    at(driver, 100.0)
    Dialogue(driver).declare("q", capacity_messages=10, stop_messages=0, hold_deadline=5)
    queue = driver.broker.vhosts["/"].queues["q"]
    first, second = send(driver), send(driver)
    assert (queue.messages, len(second.producer.outbox)) == (2, 0), "under way when the gate closed"
    at(driver, 104.0)
    third = send(driver)
    assert (queue.messages, len(third.producer.outbox)) == (3, 0)
    at(driver, 105.0)
    fourth = send(driver)
    assert (queue.messages, len(fourth.producer.outbox)) == (3, 1)
    assert not fourth.known.is_over
    at(driver, 110.0)
    assert all(publication.known.is_over for publication in (first, second, third, fourth))
    assert fourth.known.timeout_s == 2 * 5.0
    assert [publication.refusal for publication in (first, second, third)] == [""] * 3
    assert (fourth.retriable, "refused after its hold deadline of 5 s" in fourth.refusal) == (True, True)
    queue.purge(driver.broker.now)
    driver.run_turn()
    fifth = send(driver)
    assert (queue.messages, len(fifth.producer.outbox)) == (1, 0)


def test_users_that_published_once_are_forgotten_but_for_the_last_thousand(driver: BrokerDriver) -> None:
    at(driver, 100.0)
    Dialogue(driver).declare("q", capacity_messages=1, stop_messages=0)
    send(driver).give_up()
    waiting = send(driver)
    publishes, connections = driver.single_publishes, driver.broker.gates.connections
    others = len(connections)
    first = publishes.origin("user 0")
    for number in range(1, ORIGINS_MOST + 500):
        publishes.origin(f"user {number}")
    assert len(connections) == others - 1 + ORIGINS_MOST
    assert publishes.origin("guest") is waiting.producer.origin, "its publish waits"
    assert publishes.origin("user 0") is not first
    waiting.give_up()
    driver.broker.vhosts["/"].queues["q"].purge(driver.broker.now)


def test_user_that_publishes_again_keeps_the_rate(driver: BrokerDriver) -> None:
    at(driver, 100.0)
    publishes = driver.single_publishes
    busy = publishes.origin("busy")
    for number in range(2 * ORIGINS_MOST):
        publishes.origin(f"user {number}")
        assert publishes.origin("busy") is busy
