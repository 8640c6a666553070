"""Queues and settings come back as far as they are still valid."""

from __future__ import annotations

import pytest

from penstock.core.queue.queue_settings import Settings
from penstock.core.routing.declarations import number_of
from penstock.driver.driver import BrokerDriver
from penstock.operations import vhosts
from penstock.persistence.metadata_records import QUEUE
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.restored_broker import journaled, kept, queue_of, say


@pytest.fixture
def driver() -> BrokerDriver:
    return journaled()


def of(driver: BrokerDriver, queue: str) -> Settings:
    return driver.broker.vhosts["/"].queues[queue].settings


def test_queue_that_the_settings_file_contradicts_comes_back_with_its_own_arguments(driver: BrokerDriver) -> None:
    queue_of(driver.broker.vhosts["/"], "q", capacity_messages=10)
    queue_of(driver.broker.vhosts["/"], "r")
    again = journaled()
    say(again, "queue", "#", by_file=True, stop_messages=50)
    assert at_once.restore(again.broker, kept(driver)) == [
        "vhost '/', queue 'q': stop-messages=50 (pattern '#', set by file) is above the capacity of 10 messages "
        "(capacity-messages=10, declared); stop must be at or below capacity; "
        "queue 'q' came back with its own arguments alone"
    ]
    assert (of(again, "q").thresholds.capacity.messages, of(again, "q").thresholds.stop.messages) == (10, 5)
    assert of(again, "r").thresholds.stop.messages == 50
    say(again, "queue", "q", stop_messages=5)  # What mends it counts at once.
    assert of(again, "q").thresholds.stop.messages == 5


def test_queue_whose_arguments_need_what_is_not_said_any_more_has_the_brokers_values(driver: BrokerDriver) -> None:
    say(driver, "queue", "q", dead_letter_exchange="x")
    queue_of(driver.broker.vhosts["/"], "q", dead_letter_routing_key="k")
    again = journaled()
    (told,) = at_once.restore(again.broker, [thing for thing in kept(driver) if thing.kind == QUEUE])
    assert "needs dead-letter-exchange, which is not set" in told
    assert told.endswith("queue 'q' came back with the broker's own values")
    assert of(again, "q").dead_letter_routing_key is None
    assert again.broker.vhosts["/"].queues["q"].arguments == {"dead-letter-routing-key": "k"}


def test_queue_of_arguments_that_are_not_known_any_more_comes_back(driver: BrokerDriver) -> None:
    queue = queue_of(driver.broker.vhosts["/"], "q")
    queue.arguments = {"stop-massages": 1, "x-max-priority": 300}
    again = journaled()
    told = at_once.restore(again.broker, kept(driver))
    assert [sentence.split("; ")[-1] for sentence in told] == [
        "queue 'q' came back with the broker's own values",
        "queue 'q' came back as an ordinary one",
    ]
    assert number_of(again.broker.vhosts["/"].queues["q"]) == number_of(queue)


def test_limits_that_contradict_the_settings_file_are_not_in_effect(driver: BrokerDriver) -> None:
    vhosts.declare_vhost(driver, "v")
    driver.broker.vhosts["/"].declare_exchange("x", "topic", {}, True, False, False)
    say(driver, "vhost", "v", stop_messages=50)
    say(driver, "address", "x", stop_messages=50)
    say(driver, "vhost", "w", stop_messages=50)
    again = journaled()
    words = {"capacity-messages": 10}
    said = [("vhost", "v", read_settings("vhost", "v", words)), ("address", "x", read_settings("address", "x", words))]
    at_once.replace_file(again.broker, said)
    told = at_once.restore(again.broker, kept(driver))
    assert [sentence.split("; ")[-1] for sentence in told] == [
        "what was set by command for vhost 'v' is not in effect",
        "exchange 'x' in vhost '/' came back without limits",
    ]
    assert again.broker.vhosts["/"].exchanges["x"].gates == []
    assert again.broker.gates.vhosts["v"].thresholds.capacity.messages == 10
    assert "stop-messages" in again.broker.table.entries_of("vhost", "w", "command")


def test_settings_that_are_not_known_any_more_leave_the_others_in_effect(driver: BrokerDriver) -> None:
    say(driver, "queue", "a", stop_messages=5, capacity_messages=10)
    things = [
        thing._replace(data=(thing.data or b"").replace(b'"stop-messages"', b'"stop-massages"'))
        for thing in kept(driver)
    ]
    again = journaled()
    (told,) = at_once.restore(again.broker, things)
    assert told.startswith("unknown setting stop-massages for scope queue")
    assert told.endswith("It was set by command, and is not in effect")
    assert list(again.broker.table.entries_of("queue", "a", "command")) == ["capacity-messages"]
