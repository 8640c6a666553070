"""What cannot come back as it was keeps nothing else from coming back, and is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from penstock.core.journal.durability import number_of
from penstock.core.settings import changes
from penstock.core.settings.queue_settings import Settings
from penstock.driver.driver import BrokerDriver
from penstock.management import vhost_admin
from penstock.persistence.metadata_codec import VERSION
from penstock.persistence.metadata_records import BINDING, QUEUE
from penstock.persistence.restore_metadata import restore
from penstock.setting_names import read_settings
from penstock.store.records import MetadataRecord
from tests.profiles import examples
from tests.support.restored_broker import Declared, journaled, queue_of
from tests.support.topology_changes import furnish


@pytest.fixture
def driver() -> BrokerDriver:
    return journaled()


def say(driver: BrokerDriver, scope: str, pattern: str, by_file: bool = False, **settings: object) -> None:
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    words = read_settings(scope, pattern, given)
    if by_file:
        changes.replace_file(driver.broker, [(scope, pattern, words)])
    else:
        changes.set_settings(driver.broker, scope, pattern, words)


def kept(driver: BrokerDriver) -> list[MetadataRecord]:
    store = Declared(driver)
    store.write()
    return store.things()


def of(driver: BrokerDriver, queue: str) -> Settings:
    return driver.broker.vhosts["/"].queues[queue].settings


def test_a_queue_that_the_settings_file_contradicts_comes_back_with_its_own_arguments(driver: BrokerDriver) -> None:
    queue_of(driver.broker.vhosts["/"], "q", capacity_messages=10)
    queue_of(driver.broker.vhosts["/"], "r")
    again = journaled()
    say(again, "queue", "#", by_file=True, stop_messages=50)
    assert restore(again, kept(driver)) == [
        "vhost '/', queue 'q': stop-messages=50 (pattern '#', set by file) is above the capacity of 10 messages "
        "(capacity-messages=10, declared); stop must be at or below capacity; "
        "queue 'q' came back with its own arguments alone"
    ]
    assert (of(again, "q").thresholds.capacity.messages, of(again, "q").thresholds.stop.messages) == (10, 5)
    assert of(again, "r").thresholds.stop.messages == 50
    say(again, "queue", "q", stop_messages=5)  # What mends it counts at once.
    assert of(again, "q").thresholds.stop.messages == 5


def test_a_queue_whose_arguments_need_what_is_not_said_any_more_has_the_brokers_values(driver: BrokerDriver) -> None:
    say(driver, "queue", "q", dead_letter_exchange="x")
    queue_of(driver.broker.vhosts["/"], "q", dead_letter_routing_key="k")
    again = journaled()
    (told,) = restore(again, [thing for thing in kept(driver) if thing.kind == QUEUE])
    assert "needs a dead-letter-exchange, and there is none" in told
    assert told.endswith("queue 'q' came back with the broker's own values")
    assert of(again, "q").dead_letter_routing_key is None
    assert again.broker.vhosts["/"].queues["q"].arguments == {"dead-letter-routing-key": "k"}


def test_a_queue_of_arguments_that_are_not_known_any_more_comes_back(driver: BrokerDriver) -> None:
    queue = queue_of(driver.broker.vhosts["/"], "q")
    queue.arguments = {"stop-massages": 1, "x-max-priority": 300}
    again = journaled()
    told = restore(again, kept(driver))
    assert [sentence.split("; ")[-1] for sentence in told] == [
        "queue 'q' came back with the broker's own values",
        "queue 'q' came back as an ordinary one",
    ]
    assert number_of(again.broker.vhosts["/"].queues["q"]) == number_of(queue)


def test_a_virtual_host_that_left_the_settings_file_comes_back_for_what_is_in_it(driver: BrokerDriver) -> None:
    vhost = driver.broker.add_vhost("old")  # As the settings file does.
    queue_of(vhost, "q")
    queue_of(vhost, "r")
    again = journaled()
    assert restore(again, kept(driver)) == [
        "vhost 'old' is not in the settings file any more, and came back for what is kept in it; "
        "delete it if that is not needed"
    ]
    assert sorted(again.broker.vhosts["old"].queues) == ["q", "r"]
    vhost_admin.delete_vhost(again, "old")
    assert [thing for thing in kept(again) if thing.data is not None] == []


def test_limits_that_contradict_the_settings_file_are_not_in_effect(driver: BrokerDriver) -> None:
    vhost_admin.declare_vhost(driver, "v")
    driver.broker.vhosts["/"].declare_exchange("x", "topic", {}, True, False, False)
    say(driver, "vhost", "v", stop_messages=50)
    say(driver, "address", "x", stop_messages=50)
    say(driver, "vhost", "w", stop_messages=50)
    again = journaled()
    words = {"capacity-messages": 10}
    said = [("vhost", "v", read_settings("vhost", "v", words)), ("address", "x", read_settings("address", "x", words))]
    changes.replace_file(again.broker, said)
    told = restore(again, kept(driver))
    assert [sentence.split("; ")[-1] for sentence in told] == [
        "what was set by command for vhost 'v' is not in effect",
        "exchange 'x' in vhost '/' came back without limits",
    ]
    assert again.broker.vhosts["/"].exchanges["x"].gates == []
    assert again.broker.gates.vhosts["v"].thresholds.capacity.messages == 10
    assert "stop-messages" in again.broker.table.entries_of("vhost", "w", "command")


def test_a_virtual_host_whose_limits_contradict_each_other_comes_back_without(driver: BrokerDriver) -> None:
    vhost_admin.declare_vhost(driver, "v")
    again = journaled()
    given: list[tuple[str, dict[str, object]]] = [("v.#", {"capacity-messages": 10}), ("v", {"stop-messages": 50})]
    changes.replace_file(again.broker, [("vhost", name, read_settings("vhost", name, said)) for name, said in given])
    (told,) = restore(again, kept(driver))
    assert told.endswith("vhost 'v' came back without limits")
    assert "v" not in again.broker.gates.vhosts


def test_settings_that_are_not_known_any_more_leave_the_others_in_effect(driver: BrokerDriver) -> None:
    say(driver, "queue", "a", stop_messages=5, capacity_messages=10)
    things = [
        thing._replace(data=(thing.data or b"").replace(b'"stop-messages"', b'"stop-massages"'))
        for thing in kept(driver)
    ]
    again = journaled()
    (told,) = restore(again, things)
    assert told.startswith("unknown setting stop-massages for scope queue")
    assert told.endswith("it was set by command, and is not in effect")
    assert list(again.broker.table.entries_of("queue", "a", "command")) == ["capacity-messages"]


def test_a_binding_leads_to_the_queue_that_was_bound_and_to_no_other_of_its_name(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    vhost.bind("amq.direct", queue_of(vhost, "q"), None, "k", {})
    bound = [thing for thing in kept(driver) if thing.kind == BINDING]
    other = journaled()
    queue_of(other.broker.vhosts["/"], "p")
    queue_of(other.broker.vhosts["/"], "q")
    again = journaled()
    (told,) = restore(again, [*kept(other), *bound])
    assert told.startswith("1 binding is removed, whose exchange or queue")
    assert again.broker.vhosts["/"].exchanges["amq.direct"].bindings == {}


def test_what_is_not_known_or_of_a_newer_version_is_told(driver: BrokerDriver) -> None:
    queue_of(driver.broker.vhosts["/"], "q")
    again = journaled()
    newer = MetadataRecord(QUEUE, "%2F/new", bytes([VERSION + 1]))
    assert restore(again, [MetadataRecord("dream", "a/b", b"\x01{}"), newer, *kept(driver)]) == [
        "dream 'a/b' in the store is of a kind that is not known here",
        "queue '%2F/new' in the store cannot be read: it has format 2; this version reads 1",
    ]
    assert list(again.broker.vhosts["/"].queues) == ["q"]


@hypothesis(max_examples=examples(200), deadline=None)
@given(st.data())
def test_damage_of_one_thing_is_told_and_harms_no_other(data: st.DataObject) -> None:
    driver = journaled()
    furnish(driver)
    say(driver, "queue", "a", stop_messages=5)
    driver.broker.gates.block("user", "", "alice", "why not")
    things = kept(driver)
    at = data.draw(st.integers(0, len(things) - 1))
    octets = bytearray(things[at].data or b"")
    where = data.draw(st.integers(0, len(octets) - 1))
    if data.draw(st.booleans()):
        octets[where] ^= data.draw(st.integers(1, 255))
    else:
        del octets[where:]
    things[at] = things[at]._replace(data=bytes(octets))
    again = journaled()
    told = restore(again, things)
    there = {(vhost.name, name) for vhost in again.broker.vhosts.values() for name in vhost.queues}
    damaged = things[at].kind == QUEUE
    wanted = {("/", "a"), ("/", "b/q"), ("a/b", "a"), ("a/b", "b/q")}
    assert len(wanted - there) <= (1 if damaged else 0), told
