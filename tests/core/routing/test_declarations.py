"""Which declarations are durable, and the numbers of durable queues.

A second declaration: equivalent, or refused with the first difference in RabbitMQ's words.
"""

from __future__ import annotations

import pytest

from penstock.core.journal.journal import NUMBERS_AT_ONCE
from penstock.core.routing.declarations import check_exchange, check_queue, number_of
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.persistence.metadata_records import BINDING, EXCHANGE, QUEUE
from tests.support.broker_fixture import House
from tests.support.restored_broker import Declared, journaled, kinds, queue_of


@pytest.fixture
def driver() -> BrokerDriver:
    return journaled()


@pytest.fixture
def vhost(driver: BrokerDriver) -> VirtualHost:
    return driver.broker.vhosts["/"]


@pytest.fixture
def store(driver: BrokerDriver) -> Declared:
    return Declared(driver)


def test_queue_deleted_and_declared_again_has_a_new_number(vhost: VirtualHost, store: Declared) -> None:
    first = queue_of(vhost, "q")
    vhost.gates.broker.delete_queue(first)
    second = queue_of(vhost, "q", capacity_messages=7)
    assert (number_of(first), number_of(second)) == (1, 2)
    store.write()
    again, _ = store.restored()
    back = again.broker.vhosts["/"].queues["q"]
    assert (number_of(back), back.arguments) == (2, {"capacity-messages": 7})


def test_number_of_a_queue_is_never_reused_even_after_a_restart(vhost: VirtualHost, store: Declared) -> None:
    given = set()
    for _ in range(3):
        last = queue_of(vhost, "q")
        given.add(number_of(last))
        vhost.gates.broker.delete_queue(last)
    store.write()
    assert store.names() == []
    driver = store.driver
    for _ in range(2):
        driver, _ = store.restored()
        store.driver = driver
        queue = queue_of(driver.broker.vhosts["/"], "q")
        assert number_of(queue) not in given
        given.add(number_of(queue))
        driver.broker.delete_queue(queue)
        store.write()
    assert len(given) == 5


def test_numbers_are_set_aside_before_use(vhost: VirtualHost, store: Declared) -> None:
    for index in range(NUMBERS_AT_ONCE + 1):
        queue_of(vhost, f"q{index}")
        if index in (0, NUMBERS_AT_ONCE - 1, NUMBERS_AT_ONCE):
            store.write()
            driver, _ = store.restored()
            assert driver.broker.journal.next_queue > index + 1
    for queue in list(vhost.queues.values()):
        vhost.gates.broker.delete_queue(queue)
    store.write()
    driver, _ = store.restored()
    assert number_of(queue_of(driver.broker.vhosts["/"], "q")) > NUMBERS_AT_ONCE + 1


def test_numbers_continue_above_the_highest_if_the_next_number_was_lost(vhost: VirtualHost, store: Declared) -> None:
    for name in ("a", "b"):
        queue_of(vhost, name)
    store.write()
    driver, told = store.restored([thing for thing in store.things() if thing.kind == QUEUE])
    assert told == []
    assert number_of(queue_of(driver.broker.vhosts["/"], "c")) > 2


def test_queues_that_end_with_the_broker_have_no_number(
    driver: BrokerDriver, vhost: VirtualHost, store: Declared
) -> None:
    transient = vhost.declare_queue("transient", {}, False, False, None, None)
    exclusive = vhost.declare_queue("exclusive", {}, True, False, driver, driver)
    replies = vhost.create_reply_queue("replies")
    assert [number_of(queue) for queue in (transient, exclusive, replies)] == [0, 0, 0]
    assert [queue.storage for queue in (transient, exclusive, replies)] == [None, None, None]
    for queue in (transient, exclusive, replies):
        driver.broker.delete_queue(queue)
    assert kinds(store) == []


def test_declarations_without_a_journal_are_not_stored(vhost: VirtualHost) -> None:
    vhost.gates.broker.journal = None
    queue = queue_of(vhost, "q")
    vhost.bind("amq.direct", queue, None, "k", {})
    vhost.gates.broker.delete_queue(queue)
    assert queue.storage is None


def test_binding_is_stored_if_both_ends_are_durable(driver: BrokerDriver, vhost: VirtualHost, store: Declared) -> None:
    durable, transient = queue_of(vhost, "d"), vhost.declare_queue("t", {}, False, False, None, None)
    lasting = vhost.declare_exchange("x", "fanout", {}, True, False, False)
    passing = vhost.declare_exchange("y", "fanout", {}, False, False, False)
    for source in ("amq.direct", "x", "y"):
        for queue in (durable, transient):
            vhost.bind(source, queue, None, "k", {})
        for exchange in (lasting, passing):
            vhost.bind(source, None, exchange, "k", {})
    assert kinds(store) == [BINDING] * 4 + [EXCHANGE, QUEUE]
    again, _ = store.restored()
    back = again.broker.vhosts["/"].exchanges
    assert sorted(back["amq.direct"].bindings) == sorted(back["x"].bindings)
    assert sorted(mark[:2] for mark in back["x"].bindings) == [("exchange", "x"), ("queue", "d")]


@pytest.mark.parametrize(
    ("arguments", "durable", "auto_delete", "said"),
    [
        (
            {"x-max-length": 6},
            False,
            False,
            "'x-max-length' for queue 'a' in vhost '/': received '6' but current is '5'",
        ),
        ({}, False, False, "received none but current is the value '5' of type 'signedint'"),
        (
            {"x-max-length": 5},
            True,
            False,
            "'durable' for queue 'a' in vhost '/': received 'true' but current is 'false'",
        ),
        ({"x-max-length": 5}, False, True, "'auto_delete'"),
        ({"x-max-length": 5, "x-queue-type": "quorum"}, False, False, "received 'quorum' but current is 'classic'"),
    ],
)
def test_equivalence_of_queues_names_the_first_difference(
    arguments: dict[str, object], durable: bool, auto_delete: bool, said: str
) -> None:
    house = House("a", x_max_length=5)
    with pytest.raises(PreconditionFailed) as refused:
        check_queue(house.vhost.queue("a"), arguments, durable, auto_delete)
    assert said in str(refused.value)


def test_equivalence_ignores_unknown_arguments_and_the_default_type() -> None:
    house = House("a", x_max_length=5, x_colour="red")
    check_queue(house.vhost.queue("a"), {"x-max-length": 5, "x-queue-type": "classic"}, False, False)


def test_equivalence_of_exchanges_compares_type_flags_and_alternate_only() -> None:
    exchange = House().vhost.declare_exchange("e", "topic", {"x-colour": "red"}, False, False, False)
    check_exchange(exchange, "/", "topic", {}, False, False, False)
    for kind, arguments, internal, said in (
        ("fanout", {}, False, "'type'"),
        ("topic", {}, True, "'internal'"),
        ("topic", {"alternate-exchange": "other"}, False, "'alternate-exchange'"),
    ):
        with pytest.raises(PreconditionFailed, match=said):
            check_exchange(exchange, "/", kind, arguments, False, False, internal)
