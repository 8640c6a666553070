"""Definitions that cannot come back as they were: reported, and no obstacle to the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from penstock.driver.driver import BrokerDriver
from penstock.operations import vhosts
from penstock.persistence.metadata_records import BINDING, QUEUE, VERSION
from penstock.settings.read import read_settings
from penstock.store.store import MetadataRecord
from tests.profiles import examples
from tests.support import at_once
from tests.support.restored_broker import journaled, kept, queue_of, say
from tests.support.topology_changes import furnish


@pytest.fixture
def driver() -> BrokerDriver:
    return journaled()


def test_virtual_host_that_left_the_settings_file_comes_back_for_what_is_in_it(driver: BrokerDriver) -> None:
    vhost = driver.broker.add_vhost("old")  # As the settings file does.
    queue_of(vhost, "q")
    queue_of(vhost, "r")
    again = journaled()
    assert at_once.restore(again.broker, kept(driver)) == [
        "vhost 'old' is not in the settings file any more, and was restored because it has stored objects; "
        "delete it if that is not needed"
    ]
    assert sorted(again.broker.vhosts["old"].queues) == ["q", "r"]
    vhosts.delete_vhost(again, "old")
    assert [thing for thing in kept(again) if thing.data is not None] == []


def test_virtual_host_whose_limits_contradict_each_other_comes_back_without(driver: BrokerDriver) -> None:
    vhosts.declare_vhost(driver, "v")
    again = journaled()
    given: list[tuple[str, dict[str, object]]] = [("v.#", {"capacity-messages": 10}), ("v", {"stop-messages": 50})]
    at_once.replace_file(again.broker, [("vhost", name, read_settings("vhost", name, said)) for name, said in given])
    (told,) = at_once.restore(again.broker, kept(driver))
    assert told.endswith("vhost 'v' came back without limits")
    assert "v" not in again.broker.gates.vhosts


def test_binding_leads_to_the_queue_that_was_bound_and_to_no_other_of_its_name(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    vhost.bind("amq.direct", queue_of(vhost, "q"), None, "k", {})
    bound = [thing for thing in kept(driver) if thing.kind == BINDING]
    other = journaled()
    queue_of(other.broker.vhosts["/"], "p")
    queue_of(other.broker.vhosts["/"], "q")
    again = journaled()
    (told,) = at_once.restore(again.broker, [*kept(other), *bound])
    assert told.startswith("1 binding is removed, whose exchange or queue")
    assert again.broker.vhosts["/"].exchanges["amq.direct"].bindings == {}


def test_what_is_not_known_or_of_a_newer_version_is_told(driver: BrokerDriver) -> None:
    queue_of(driver.broker.vhosts["/"], "q")
    again = journaled()
    newer = MetadataRecord(QUEUE, "%2F/new", bytes([VERSION + 1]))
    assert at_once.restore(again.broker, [MetadataRecord("dream", "a/b", b"\x01{}"), newer, *kept(driver)]) == [
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
    told = at_once.restore(again.broker, things)
    there = {(vhost.name, name) for vhost in again.broker.vhosts.values() for name in vhost.queues}
    damaged = things[at].kind == QUEUE
    wanted = {("/", "a"), ("/", "b/q"), ("a/b", "a"), ("a/b", "b/q")}
    assert len(wanted - there) <= (1 if damaged else 0), told
