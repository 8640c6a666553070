"""Metadata records: stored definitions, their encoding, and their keys.

Values of field tables come back exactly, and damage is reported. Different names never have the same key.
"""

from __future__ import annotations

import contextlib
import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import hash_password, rabbitmq_hash
from penstock.access.permission import Permission, TopicPermission
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.settings.table import Parameter
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, NotFound, StoreError
from penstock.flow.work import finish
from penstock.operations import vhosts
from penstock.operations.definitions_import import import_steps
from penstock.operations.parameters import put_parameter
from penstock.persistence.metadata_records import (
    BINDING,
    BLOCK,
    CUT,
    EXCHANGE,
    OCTETS_MAX,
    PARAMETER,
    PERMISSION,
    POLICY,
    QUEUE,
    SETTINGS,
    USER,
    VERSION,
    VHOST,
    as_json,
    key_of,
    names_of,
    pack,
    table_as_json,
    unpack,
)
from penstock.settings.read import read_settings
from penstock.store.records import MetadataRecord
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_table, encode_table, method_frame
from tests.profiles import examples
from tests.support import at_once
from tests.support.amqp091_strategies import tables
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


def test_expiry_of_an_unused_queue_restarts_with_the_broker(vhost: VirtualHost, store: Declared) -> None:
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
      "parameters": [{"component": "plugin", "name": "s", "vhost": "new", "value": {}}],
      "global_parameters": [{"name": "cluster_name", "value": "c"}],
      "settings": [{"scope": "queue", "pattern": "a", "settings": {"max-length": 3}}],
      "policies": [{"name": "p", "vhost": "new", "pattern": "^a$", "definition": {"max-length": 3}}]}"""
    with pytest.raises(BrokerError, match="no queue 'none'"):
        finish(import_steps(driver, text.encode(), None))
    assert kinds(store) == []


def test_settings_by_command_are_stored_and_those_of_the_file_are_not(driver: BrokerDriver, store: Declared) -> None:
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


def test_operator_blocks_come_back_with_their_reason(driver: BrokerDriver, vhost: VirtualHost, store: Declared) -> None:
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


def test_blocked_queue_that_no_longer_exists_can_be_unblocked(
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
      "parameters": [{"component": "plugin", "name": "s", "vhost": "new", "value": {"uri": ["a", null, 1.5]}},
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
    parameter = again.broker.table.parameters.get("plugin", "new", "s")
    assert parameter.value == {"uri": ["a", None, 1.5]}
    assert [each.value for each in again.broker.table.parameters.global_ones()] == ["c"]
    vhosts.delete_vhost(driver, "new")
    assert kinds(store) == [PARAMETER]


def test_bridge_is_stored_with_its_user_and_paused_without(driver: BrokerDriver, store: Declared) -> None:
    put_parameter(driver, Parameter("shovel", "/", "runs", {"src-queue": "q"}, "anna"))
    put_parameter(driver, Parameter("shovel", "/", "paused", {"src-queue": "q"}))
    store.write()
    fields = {"component": "shovel", "vhost": "/", "name": "old", "content": {"value": as_json({"src-queue": "q"})}}
    old = MetadataRecord(PARAMETER, key_of("shovel", "/", "old"), pack(fields))
    again, remarks = store.restored([*store.things(), old])
    assert remarks == []
    parameters = again.broker.table.parameters
    assert {each.name: each.run_as for each in parameters.of()} == {"runs": "anna", "paused": "", "old": ""}
    assert parameters.get("shovel", "/", "old").value == {"src-queue": "q"}
    assert list(again.bridges.wanted()) == ["shovel:/:runs"]


NAMES = st.sampled_from(["guest", "anna", "ot/to", "ä"])
VHOSTS = st.sampled_from(["/", "/shop"])
TEXTS = st.sampled_from(["", ".*", "^q", "(", "ä"])
HASHES = st.sampled_from([None, rabbitmq_hash("a", b"salt"), hash_password("b", b"sixteen octets..")])
STEPS = st.one_of(
    st.tuples(st.just("put_user"), NAMES, HASHES, st.lists(st.sampled_from(["administrator", "other"]), max_size=2)),
    st.tuples(st.just("delete_user"), NAMES),
    st.tuples(st.just("set_tags"), NAMES, st.just(["monitoring"])),
    st.tuples(st.just("set_password"), NAMES, HASHES),
    st.tuples(st.just("set_password"), NAMES, HASHES, st.none(), st.just(True)),
    st.tuples(
        st.just("set_scram"), st.sampled_from(["anna", "ot/to"]), st.just((b"salt", b"stored", b"\0server", 4096))
    ),
    st.tuples(st.just("set_permission"), NAMES, VHOSTS, st.builds(Permission, TEXTS, TEXTS, TEXTS)),
    st.tuples(st.just("clear_permission"), NAMES, VHOSTS),
    st.tuples(
        st.just("set_topic_permission"),
        NAMES,
        VHOSTS,
        st.sampled_from(["", "amq.topic", "x"]),
        st.builds(TopicPermission, TEXTS, TEXTS),
    ),
    st.tuples(st.just("clear_topic_permissions"), NAMES, VHOSTS),
    st.tuples(st.just("set_user_limits"), NAMES, st.dictionaries(st.just("max-channels"), st.integers(-1, 5))),
    st.tuples(st.just("set_vhost_limits"), VHOSTS, st.dictionaries(st.just("max-queues"), st.integers(-1, 5))),
    st.tuples(st.just("forget_vhost"), VHOSTS),
)


def view(table: AccessTable) -> object:
    users = {
        user.name: (
            user.tags,
            user.password_hash,
            user.scram,
            user.former,
            user.everywhere,
            user.limits,
            user.permissions,
            user.topic_permissions,
        )
        for user in table.users()
    }
    return users, table.vhost_limits


def make_driver() -> BrokerDriver:
    driver = journaled()
    driver.broker.add_vhost("/shop")
    driver.broker.journal.change(driver.broker.vhosts["/shop"])
    return driver


@settings(max_examples=examples(160), deadline=None)
@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=25), st.randoms(use_true_random=False))
def test_table_comes_back_as_it_was(steps: list[tuple[tuple[object, ...], bool]], chance: object) -> None:
    driver = make_driver()
    store = Declared(driver)
    for (change, *arguments), write in steps:
        with contextlib.suppress(BrokerError):
            getattr(driver.broker.access, str(change))(*arguments)
        if write:
            store.write()
    store.write()
    order = store.things()
    chance.shuffle(order)  # type: ignore[attr-defined]
    again, remarks = store.restored(order)
    assert remarks == []
    assert view(again.broker.access) == view(driver.broker.access)
    assert again.broker.access._octets == driver.broker.access._octets
    assert again.broker.access._permissions == driver.broker.access._permissions


def test_user_guest_alone_is_not_stored() -> None:
    driver = journaled()
    store = Declared(driver)
    store.write()
    assert store.names() == []
    assert store.restored()[0].broker.access.names() == ["guest"]


def test_secret_of_salts_comes_back() -> None:
    driver = journaled()
    store = Declared(driver)
    keys = driver.services.scram_keys("eve")
    store.write()
    again = store.restored()[0]
    assert again.broker.access.scram_secret.octets == driver.broker.access.scram_secret.octets != b""
    assert again.services.scram_keys("eve") == keys
    (name,) = store.shelf.things
    store.shelf.things[name] = pack({"secret": "zz"})
    again, remarks = store.restored()
    assert remarks == ["scram-secret 'salts' in the store cannot be read: its 'secret' is damaged"]
    assert again.broker.access.scram_secret.octets == b""


def test_record_that_cannot_be_read_is_reported_and_others_are_restored() -> None:
    driver = make_driver()
    store = Declared(driver)
    for name in ("anna", "otto"):
        driver.broker.access.put_user(name, rabbitmq_hash("a", b"salt"), [])
        driver.broker.access.set_permission(name, "/", Permission("", "", ""))
    store.write()
    data = store.shelf.things[USER, "anna"]
    store.shelf.things[USER, "anna"] = data.replace(b"sha256", b"sha257")
    again, remarks = store.restored()
    assert again.broker.access.names() == ["guest", "otto"]
    assert "unknown hashing_algorithm 'rabbit_password_hashing_sha257'" in remarks[0]
    assert remarks[1] == f"{PERMISSION} 'anna/%2F' in the store was not restored: no user 'anna'"


ODD = {
    "not a number": float("nan"),
    "one with more to say": struct.unpack(">d", bytes.fromhex("7ff8000000000abc"))[0],
    "endless": float("-inf"),
    "minus nothing": -0.0,
    "whole": 5.0,
    "yes": True,
    "one": 1,
    "text": "1",
    "octets": b"1\xff",
    "nothing": None,
    "past the year 9999": 2**64 - 1,
    "half a character": "\ud800",
    "trailing zeros": Decimal("1.500"),
    "minus zero": Decimal("-0"),
    "time": datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
    "first": datetime(1970, 1, 1, tzinfo=UTC),
    "last": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "tables": {"F": {"x": "00"}, "x": {"D": [{"T": 0}, [], {}]}, "": None},
}


def again(table: dict[str, object]) -> dict[str, object]:
    return unpack(pack({"arguments": table_as_json(table)})).table("arguments")


@given(tables)
def test_field_table_comes_back_exactly(table: dict[str, object]) -> None:
    assert repr(again(table)) == repr(table)


@given(tables)
def test_table_comes_back_as_the_same_bytes_on_the_wire(table: dict[str, object]) -> None:
    read, _ = decode_table(encode_table(table), 0)
    assert encode_table(again(read)) == encode_table(read)


def test_values_that_look_alike_come_back_exactly() -> None:
    assert repr(again(ODD)) == repr(ODD)
    for name in ("not a number", "one with more to say"):
        assert struct.pack(">d", again(ODD)[name]) == struct.pack(">d", ODD[name])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the record is empty"),
        (bytes([VERSION + 1]) + b"{}", f"it has format {VERSION + 1}; this version reads {VERSION}"),
        (bytes([VERSION]) + b'{"name":"a', "it is cut short or damaged"),
        (bytes([VERSION]) + b"\xff\xfe", "it is cut short or damaged"),
        (bytes([VERSION]) + b"[" * 100_000, "it is cut short or damaged"),
        (bytes([VERSION]) + b"[]", "it is damaged: it has no fields"),
    ],
)
def test_record_of_invalid_data_is_reported(data: bytes, why: str) -> None:
    with pytest.raises(StoreError) as caught:
        unpack(data)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "value", [{}, {"x": "0"}, {"x": 1}, {"T": "1"}, {"T": 10**30}, {"D": "1.2.3"}, {"d": "00"}, {"F": []}, {"y": "z"}]
)
def test_record_with_an_invalid_value_is_reported(value: object) -> None:
    with pytest.raises(StoreError, match="a value in it is damaged"):
        unpack(pack({"arguments": {"a": [value]}})).table("arguments")


@pytest.mark.parametrize("value", [None, -1, True, 1.0, "1", 1 << 63])
def test_field_that_is_no_number_is_reported_by_its_name(value: object) -> None:
    with pytest.raises(StoreError, match="field 'number' is not a non-negative integer"):
        unpack(pack({"number": value})).number("number")


names = st.text(st.sampled_from("/%2F#a\x00\n\x7fü\ud800"), max_size=6) | st.text(max_size=20)
parts = st.lists(names, min_size=3, max_size=3)


@given(parts, parts)
def test_different_names_have_different_keys(some: list[str], others: list[str]) -> None:
    assert (key_of(*some) == key_of(*others)) == (some == others)


@given(parts, st.integers(1, 400))
def test_key_is_text_without_control_characters_and_fits_an_index(some: list[str], times: int) -> None:
    key = key_of(*[name * times for name in some])
    assert key.encode().decode() == key
    assert all(character >= " " and character != "\x7f" for character in key)
    assert len(key.encode()) <= OCTETS_MAX


def test_long_names_have_different_keys() -> None:
    long = "/" * 300 + "a" * 500
    assert key_of(long, "b") != key_of(long, "c")
    assert key_of(long, "b") == key_of(long, "b")
    assert key_of(key_of(long, "b")) != key_of(long, "b")
    assert len(key_of(long)) < CUT + 40


def test_ordinary_names_stay_as_they_are() -> None:
    assert key_of("prod", "orders.größe 1", "x") == "prod/orders.größe 1/x"
    assert key_of("/", "50%") == "%2F/50%25"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_names_of_a_key_are_those_of_which_it_was_made(names: list[str]) -> None:
    key = key_of(*names)
    if "%#" in key:
        with pytest.raises(StoreError, match="was cut"):
            names_of(key)
    else:
        assert names_of(key) == names
