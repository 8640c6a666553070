"""Restored definitions: durable ones come back unchanged, and invalid ones are reported.

Also: settings that are no longer valid, and the age of paged messages after changes of the wall clock.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from penstock.core.queue.queue_settings import Settings
from penstock.core.routing.declarations import number_of
from penstock.driver.driver import BrokerDriver
from penstock.operations import vhosts
from penstock.persistence.metadata_records import BINDING, QUEUE, VERSION
from penstock.persistence.restore import JUMP_S, MOST, WallTimes
from penstock.settings.read import read_settings
from penstock.store.records import MetadataRecord
from tests.profiles import examples
from tests.support import at_once
from tests.support.memory_store import WALL
from tests.support.paging_broker import house_with, publish
from tests.support.restored_broker import Declared, differences, exported, journaled, kept, names, queue_of, say, view
from tests.support.topology_changes import Act, acts, attempt, furnish


@hypothesis(max_examples=examples(160), deadline=None)
@given(st.lists(st.tuples(acts, st.booleans()), min_size=10, max_size=50), st.randoms(use_true_random=False))
def test_durable_definitions_come_back_unchanged_after_any_steps(steps: list[tuple[Act, bool]], chance: object) -> None:
    driver = journaled()
    store = Declared(driver)
    furnish(driver)
    for act, write in steps:
        attempt(driver, act)
        if write:
            store.write()
    while driver.run_turn():
        pass
    store.write()
    assert store.names() == names(driver), "what was deleted left something behind, or what lasts was not kept"
    for cursor in [each for vhost in driver.broker.vhosts.values() for each in vhost.cursors.values()]:
        for position in cursor.positions.values():
            if number_of(position.queue) and not position.queue.deleted:
                told_of = max(position.initial, position.settled, position.planned)
                assert store.tail(position.queue) >= told_of, "a number might be given again"
    order = store.things()
    chance.shuffle(order)  # type: ignore[attr-defined]
    again, told = store.restored(order)
    assert told == []
    assert differences(view(driver), view(again)) == {}
    assert exported(again) == exported(driver)


def test_definition_that_is_refused_is_left_out_with_a_remark() -> None:
    driver = journaled()
    store = Declared(driver)
    driver.broker.vhosts["/"].declare_exchange("logs", "topic", {}, True, False, False)
    store.write()
    ((kind, key, data),) = [(each.kind, each.key, each.data) for each in store.things() if "logs" in each.key]
    store.shelf.things[kind, key] = data.replace(b"topic", b"tropic")
    again, told = store.restored()
    assert "logs" not in again.broker.vhosts["/"].exchanges
    assert [each.partition(":")[0] for each in told] == [f"exchange '{key}' in the store was not restored"]


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


def test_queue_whose_arguments_are_no_longer_valid_has_the_values_of_the_broker(driver: BrokerDriver) -> None:
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
    assert told.startswith("scope queue has no setting 'stop-massages'")
    assert told.endswith("It was set by command, and is not in effect")
    assert list(again.broker.table.entries_of("queue", "a", "command")) == ["capacity-messages"]


def test_virtual_host_that_left_the_settings_file_comes_back_with_its_objects(driver: BrokerDriver) -> None:
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


def test_record_of_an_unknown_kind_or_newer_version_is_reported(driver: BrokerDriver) -> None:
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
def test_damage_of_one_record_is_reported_and_harms_no_other(data: st.DataObject) -> None:
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


HOURS_S = 3 * 3600.0


def test_row_has_the_clock_that_it_was_written_by() -> None:
    times = WallTimes(100.0)
    times.write(5, 100.0 + JUMP_S / 2)
    times.write(7, 100.0 + HOURS_S)
    times.write(9, 100.0 + HOURS_S)
    times.write(11, 50.0)
    assert [times.of(number) for number in (1, 5, 6, 7, 10, 11, 99)] == [
        100.0, 100.0, 100.0, 100.0 + HOURS_S, 100.0 + HOURS_S, 50.0, 50.0
    ]  # fmt: skip


def test_clocks_of_the_store_are_bounded() -> None:
    times = WallTimes(0.0)
    for number in range(1, 2 * MOST):
        times.write(number, float(number))
    assert (times.of(2 * MOST - 1), times.of(MOST + 1)) == (2 * MOST - 1, MOST + 1)
    assert times.of(2) == 0.0


@pytest.mark.parametrize("jump", [HOURS_S, -HOURS_S])
def test_paged_messages_keep_their_age_though_the_clock_was_set(jump: float) -> None:
    house = house_with(message_ttl=600_000, messages=20)
    house.write()
    house.times.write(house.journal.open.number, WALL + jump)
    publish(house, 21, 30)
    house.shelf.commit(at_once.encode(house.journal, house.journal.take(), WALL + jump))
    house.journal.written()
    house.settle()
    arrived = []
    while (message := house.get("q")) is not None:
        arrived.append(message.arrived)
        house.settle()
    assert arrived == pytest.approx([100.0] * 30)
