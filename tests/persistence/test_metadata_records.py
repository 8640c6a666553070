"""Which definitions are stored, kind by kind."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, NotFound
from penstock.flow.work import finish
from penstock.operations import vhosts
from penstock.operations.definitions_import import import_steps
from penstock.persistence.metadata_records import (
    BINDING,
    BLOCK,
    EXCHANGE,
    PARAMETER,
    POLICY,
    QUEUE,
    SETTINGS,
    VHOST,
)
from penstock.settings.read import read_settings
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support import at_once
from tests.support.driven_connection import Dialogue
from tests.support.restored_broker import Declared, journaled, kinds, queue_of
from tests.support.topology_changes import ask


@pytest.fixture
def driver() -> BrokerDriver:
    return journaled()


@pytest.fixture
def vhost(driver: BrokerDriver) -> VirtualHost:
    return driver.broker.vhosts["/"]


@pytest.fixture
def store(driver: BrokerDriver) -> Declared:
    return Declared(driver)


def test_durable_queue_that_the_broker_named_is_kept_and_an_exclusive_one_is_not(
    driver: BrokerDriver, store: Declared
) -> None:
    client = Dialogue(driver)
    client.say(method_frame(1, spec.QUEUE_DECLARE, durable=True))
    client.say(method_frame(1, spec.QUEUE_DECLARE, durable=True, exclusive=True))
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="mine", durable=True, exclusive=True))
    assert kinds(store) == [QUEUE]
    again, _ = store.restored()
    assert [name.startswith("amq.gen-") for name in again.broker.vhosts["/"].queues] == [True]


def test_auto_deleted_queue_waits_for_its_next_consumer_to_leave(vhost: VirtualHost, store: Declared) -> None:
    session = Session()
    queue = vhost.declare_queue("q", {}, True, True, None, None)
    vhost.gates.broker.consume(session, Consumer("c", session, queue, False, False, 0))
    store.write()
    again, _ = store.restored()
    back = again.broker.vhosts["/"].queues["q"]
    again.run_turn()
    assert not back.deleted
    again.broker.consume(session, Consumer("c", session, back, False, False, 0))
    again.broker.cancel(session, "c")
    assert back.deleted
    store.driver = again
    assert kinds(store) == []


def test_time_that_a_queue_may_be_unused_counts_anew_from_the_restart(vhost: VirtualHost, store: Declared) -> None:
    vhost.gates.broker.begin(1000.0)
    vhost.gates.broker.touch_queue(queue_of(vhost, "q", x_expires=5000))
    store.write()
    again, _ = store.restored()  # Its clock begins at 0.
    queue = again.broker.vhosts["/"].queues["q"]
    for now, there in ((4.9, True), (5.1, False)):
        again.begin(now)
        again.run_turn()
        assert queue.deleted is not there
    store.driver = again
    assert kinds(store) == []


def test_auto_deleted_exchange_goes_with_its_last_binding(vhost: VirtualHost, store: Declared) -> None:
    queue = queue_of(vhost, "q")
    vhost.declare_exchange("x", "topic", {}, True, True, False)
    vhost.bind("x", queue, None, "k", {"n": 1})
    vhost.bind("x", queue, None, "k", {"n": True})
    assert kinds(store) == [BINDING, BINDING, EXCHANGE, QUEUE]
    vhost.unbind("x", queue, None, "k", {"n": True})
    assert kinds(store) == [BINDING, EXCHANGE, QUEUE]
    vhost.gates.broker.delete_queue(queue)
    assert kinds(store) == []


def test_exchange_takes_the_bindings_of_both_directions_with_it(vhost: VirtualHost, store: Declared) -> None:
    middle = vhost.declare_exchange("x", "topic", {}, True, False, False)
    vhost.bind("amq.topic", None, middle, "#", {})
    vhost.bind("x", queue_of(vhost, "q"), None, "#", {})
    assert kinds(store) == [BINDING, BINDING, EXCHANGE, QUEUE]
    vhost.delete_exchange("x", False)
    assert kinds(store) == [QUEUE]


def test_virtual_host_of_the_settings_file_is_not_kept_and_one_that_was_made_is(
    driver: BrokerDriver, store: Declared
) -> None:
    assert vhosts.declare_vhost(driver, "/") is False
    assert kinds(store) == []
    vhosts.declare_vhost(driver, "made")
    assert kinds(store) == [VHOST]
    again, _ = store.restored()
    assert list(again.broker.vhosts) == ["/", "made"]
    store.driver = again
    vhosts.delete_vhost(again, "made")
    assert kinds(store) == []


def test_virtual_host_takes_everything_with_it(driver: BrokerDriver, store: Declared) -> None:
    vhosts.declare_vhost(driver, "made")
    vhost = driver.broker.vhosts["made"]
    queue = queue_of(vhost, "q")
    exchange = vhost.declare_exchange("x", "topic", {}, True, False, False)
    vhost.bind("amq.fanout", queue, None, "", {})
    vhost.bind("amq.fanout", None, exchange, "", {})
    vhost.bind("x", None, exchange, "", {})
    ask(driver, vhost, "cursor.attach", cursor="c", queues=["q"])
    ask(driver, vhost, "block", queue="q")
    ask(driver, vhost, "block", vhost="made")
    assert len(kinds(store)) == 9
    vhosts.delete_vhost(driver, "made")
    assert kinds(store) == []
    driver.run_turn()
    assert driver.broker.gates.operator_gates == {}


def test_import_that_is_taken_back_leaves_nothing(driver: BrokerDriver, store: Declared) -> None:
    text = """{"vhosts": [{"name": "new"}],
      "exchanges": [{"name": "x", "vhost": "new", "type": "topic", "durable": true}],
      "queues": [{"name": "q", "vhost": "new", "durable": true}],
      "bindings": [{"source": "x", "vhost": "new", "destination": "q", "destination_type": "queue"},
        {"source": "x", "vhost": "new", "destination": "none", "destination_type": "queue"}],
      "parameters": [{"component": "shovel", "name": "s", "vhost": "new", "value": {}}],
      "global_parameters": [{"name": "cluster_name", "value": "c"}],
      "settings": [{"scope": "queue", "pattern": "a", "settings": {"max-length": 3}}],
      "policies": [{"name": "p", "vhost": "new", "pattern": "^a$", "definition": {"max-length": 3}}]}"""
    with pytest.raises(BrokerError, match="no queue 'none'"):
        finish(import_steps(driver, text.encode(), None))
    assert kinds(store) == []


def test_what_is_set_by_command_is_kept_and_what_the_file_says_is_not(driver: BrokerDriver, store: Declared) -> None:
    words = read_settings("queue", "a", {"capacity-messages": 5, "overflow": "reject"})
    at_once.replace_file(driver.broker, [("queue", "a", words)])
    assert kinds(store) == []
    at_once.set_named(driver.broker, "queue", "a", stop_messages=2)
    at_once.set_named(driver.broker, "broker", "", stop_percent=75.5, resume_percent="50")
    assert kinds(store) == [SETTINGS, SETTINGS]
    again, _ = store.restored()
    assert [word.describe() for word in again.broker.table.entries_of("queue", "a", "command").values()] == [
        "stop-messages=2"
    ]
    assert again.broker.table.entries_of("queue", "a", "file") == {}
    assert again.broker.table.entries_of("broker", "", "command")["resume-percent"].raw == "50"
    at_once.remove(driver.broker, "queue", "a", [])
    assert kinds(store) == [SETTINGS]


def test_settings_that_are_refused_are_not_kept(driver: BrokerDriver, vhost: VirtualHost, store: Declared) -> None:
    queue_of(vhost, "q", capacity_messages=5)
    at_once.set_named(driver.broker, "queue", "q", stop_messages=4)
    store.write()
    with pytest.raises(BrokerError, match="above the capacity"):
        at_once.set_named(driver.broker, "queue", "q", stop_messages=6)
    assert kinds(store) == [QUEUE, SETTINGS]
    again, _ = store.restored()
    assert again.broker.vhosts["/"].queues["q"].thresholds.stop.messages == 4


def test_what_the_operator_blocked_stays_blocked_with_his_reason(
    driver: BrokerDriver, vhost: VirtualHost, store: Declared
) -> None:
    queue_of(vhost, "q")
    ask(driver, vhost, "block", queue="q", reason="the mill is being cleaned")
    ask(driver, vhost, "block", user="guest")
    ask(driver, vhost, "block", address="amq.topic")
    assert kinds(store) == [BLOCK, BLOCK, BLOCK, QUEUE]
    again, _ = store.restored()
    queue = again.broker.vhosts["/"].queues["q"]
    assert [gate.open for gate in queue.gates if gate.kind == "operator"] == [False]
    assert again.broker.gates.operator_gates[("queue", "/", "q")].reason == "the mill is being cleaned"
    ask(again, again.broker.vhosts["/"], "unblock", queue="q")
    store.driver = again
    assert kinds(store) == [BLOCK, BLOCK, QUEUE]


def test_blocked_connection_is_another_after_a_restart(
    driver: BrokerDriver, vhost: VirtualHost, store: Declared
) -> None:
    client = Dialogue(driver)
    ask(driver, vhost, "block", connection=str(client.connection.number))
    assert len(driver.broker.gates.operator_gates) == 1
    assert kinds(store) == []


def test_what_is_blocked_and_not_there_any_more_can_be_unblocked(
    driver: BrokerDriver, vhost: VirtualHost, store: Declared
) -> None:
    vhost.declare_queue("t", {}, False, False, None, None)
    ask(driver, vhost, "block", queue="t")
    store.write()
    again, _ = store.restored()
    assert "t" not in again.broker.vhosts["/"].queues
    ask(again, again.broker.vhosts["/"], "unblock", queue="t")
    store.driver = again
    assert kinds(store) == []
    with pytest.raises(NotFound, match="queue 't' is not blocked by the operator"):
        again.broker.gates.unblock("queue", "/", "t")


def test_policies_parameters_and_attributes_of_a_vhost_come_back(driver: BrokerDriver, store: Declared) -> None:
    text = """{"vhosts": [{"name": "new", "metadata": {"description": "d", "tags": ["t"]}}],
      "queues": [{"name": "q", "vhost": "new", "durable": true}],
      "exchanges": [{"name": "q.x", "vhost": "new", "type": "topic", "durable": true}],
      "parameters": [{"component": "shovel", "name": "s", "vhost": "new", "value": {"uri": ["a", null, 1.5]}},
        {"component": "operator_policy", "name": "o", "vhost": "new",
         "value": {"pattern": ".*", "definition": {"expires": 99000}, "priority": 2, "apply-to": "queues"}}],
      "global_parameters": [{"name": "cluster_name", "value": "c"}],
      "policies": [{"name": "p", "vhost": "new", "pattern": "^q", "priority": 7,
        "definition": {"max-length": 3, "alternate-exchange": "lost", "ha-mode": "all"}}]}"""
    finish(import_steps(driver, text.encode(), None))
    assert sorted(set(kinds(store))) == sorted([EXCHANGE, PARAMETER, POLICY, QUEUE, VHOST])
    again, remarks = store.restored()
    assert remarks == []
    vhost = again.broker.vhosts["new"]
    queue = vhost.queues["q"]
    assert queue.settings.policies.definition() == {
        "max-length": 3, "alternate-exchange": "lost", "ha-mode": "all", "expires": 99000,
    }  # fmt: skip
    assert (int(queue.settings.length.messages), vhost.exchanges["q.x"].alternate) == (3, "lost")
    assert vhost.metadata == {"metadata": {"description": "d", "tags": ["t"]}}
    parameter = again.broker.table.parameters.get("shovel", "new", "s")
    assert parameter.value == {"uri": ["a", None, 1.5]}
    assert [each.value for each in again.broker.table.parameters.global_ones()] == ["c"]
    vhosts.delete_vhost(driver, "new")
    assert kinds(store) == [PARAMETER]
