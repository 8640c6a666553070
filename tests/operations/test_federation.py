"""Looks of federation's links: consumers that wait at an empty queue, and bindings of an exchange."""

from __future__ import annotations

import pytest

from penstock.access.permission import Permission
from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.settings.table import Parameter
from penstock.driver.driver import BrokerDriver
from penstock.operations.federation import BINDINGS_MOST, ROOM_MOST
from tests.support.access_of import access_of
from tests.support.job_calls import Asker
from tests.support.operation_calls import ask


@pytest.fixture
def queue(driver: BrokerDriver) -> Queue:
    return driver.broker.vhosts["/"].declare_queue("q", {}, False, False, None, None)


def consume(driver: BrokerDriver, queue: Queue, prefetch: int = 0, priority: int = 0, tag: str = "c") -> None:
    session = Session()
    driver.broker.consume(session, Consumer(tag, session, queue, False, False, prefetch, priority=priority))


def room(driver: BrokerDriver) -> object:
    return Asker(driver).ask("federation.look", queue="q")["room"]


def test_queue_without_consumers_has_no_room(driver: BrokerDriver, queue: Queue) -> None:
    assert room(driver) == 0


def test_queue_has_the_room_of_its_waiting_consumers(driver: BrokerDriver, queue: Queue) -> None:
    consume(driver, queue, 3)
    consume(driver, queue, 4, priority=2, tag="d")
    assert room(driver) == 7
    consume(driver, queue, tag="e")
    assert room(driver) == ROOM_MOST


def test_links_of_others_are_no_waiting_consumers(driver: BrokerDriver, queue: Queue) -> None:
    consume(driver, queue, 5, priority=-1)
    assert room(driver) == 0


def test_queue_with_messages_has_no_room(driver: BrokerDriver, queue: Queue) -> None:
    broker = driver.broker
    route = broker.vhosts["/"].route("", "q", True)
    broker.vhosts["/"].resolve(route, {})
    consume(driver, queue, 3)
    Producer(broker, "p", HoldBudget(1 << 30)).publish(route, broker.formats.encode(Properties(), b"1"), 300)
    access, look = access_of(broker, "guest"), {"queue": "q"}
    assert ask(driver, "federation.look", look, access=access) == {"room": 0}  # Its delivery is in the next turn.
    driver.run_turn()
    assert ask(driver, "federation.look", look, access=access) == {"room": 2}


def test_bindings_are_told_once_each_until_they_change(driver: BrokerDriver, queue: Queue) -> None:
    vhost = driver.broker.vhosts["/"]
    vhost.declare_exchange("x", "topic", {}, True, False, False)
    other = vhost.declare_queue("q2", {}, False, False, None, None)
    vhost.bind("x", queue, None, "a.#", {})
    vhost.bind("x", other, None, "a.#", {})
    vhost.bind("x", queue, None, "a.#", {"x-bound-from": [{"hops": 1}]})
    vhost.bind("x", None, vhost.exchange("amq.fanout"), "b", {})
    asker = Asker(driver)
    answer = asker.ask("federation.look", exchange="x")
    assert answer["bindings"] == [["a.#", {}], ["a.#", {"x-bound-from": [{"hops": 1}]}], ["b", {}]]
    seen = answer["version"]
    assert asker.ask("federation.look", exchange="x", seen=seen) == {"version": seen}
    vhost.unbind("x", queue, None, "a.#", {})
    changed = asker.ask("federation.look", exchange="x", seen=seen)
    assert changed["version"] != seen
    assert len(changed["bindings"]) == 3


def test_exchange_declared_anew_has_another_version(driver: BrokerDriver) -> None:
    vhost, asker = driver.broker.vhosts["/"], Asker(driver)
    vhost.declare_exchange("x", "topic", {}, True, False, False)
    seen = asker.ask("federation.look", exchange="x")["version"]
    vhost.delete_exchange("x", False)
    vhost.declare_exchange("x", "topic", {}, True, False, False)
    assert asker.ask("federation.look", exchange="x", seen=seen)["version"] != seen


def test_exchange_with_too_many_bindings_is_refused(driver: BrokerDriver, queue: Queue) -> None:
    vhost = driver.broker.vhosts["/"]
    for number in range(BINDINGS_MOST + 1):
        vhost.bind("amq.topic", queue, None, f"k.{number}", {})
    answer = Asker(driver).ask("federation.look", exchange="amq.topic")
    assert answer["text"].startswith("exchange 'amq.topic' in vhost '/' has more than 10,000 bindings")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "name exactly one of queue, exchange; given are none"),
        ({"queue": "q", "exchange": "x"}, "name exactly one of queue, exchange"),
        ({"queue": "gone"}, "no queue 'gone'"),
        ({"exchange": "gone"}, "no exchange 'gone'"),
        ({"exchange": ""}, "default exchange"),
    ],
)
def test_look_at_nothing_is_refused(driver: BrokerDriver, queue: Queue, fields: dict[str, object], says: str) -> None:
    assert says in Asker(driver).ask("federation.look", **fields)["text"]


def test_look_needs_the_permission_to_read(driver: BrokerDriver, queue: Queue) -> None:
    access = driver.broker.access
    access.put_user("reader", None, ["management"])
    access.set_permission("reader", "/", Permission("", ".*", "^other$"))
    asker = Asker(driver)
    asker.client.connection.access = access_of(driver.broker, "reader")
    for fields in ({"queue": "q"}, {"exchange": "amq.topic"}):
        assert asker.ask("federation.look", **fields)["code"] == 403


def test_policy_set_names_upstreams_that_are_missing(driver: BrokerDriver, queue: Queue) -> None:
    fields = {"name": "p", "pattern": "^q$", "definition": {"federation-upstream": "up"}}
    sentences = Asker(driver).ask("policy.set", **fields)["sentences"]
    assert sentences[0] == "it applies to queue q"
    assert sentences[-1].startswith("federation-upstream=up names no upstream of vhost '/' yet")
    parameter = Parameter("federation-upstream", "/", "up", {"uri": "amqp://host"})
    driver.broker.table.parameters.put(parameter)
    assert Asker(driver, "b").ask("policy.set", **fields)["sentences"] == ["it applies to queue q"]
