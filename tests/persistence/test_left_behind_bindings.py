"""Bindings of deleted queues and exchanges stay away if the broker is killed during their removal."""

from __future__ import annotations

import pytest

from penstock.core.journal.journal import CHANGES_A_GROUP
from penstock.driver.driver import BrokerDriver
from penstock.persistence.metadata_records import BINDING
from tests.support import at_once
from tests.support.restored_broker import Declared, journaled

MANY = 3 * CHANGES_A_GROUP


def bound() -> Declared:
    """Return a broker, all of it in the store, with a durable exchange and queue and very many bindings between."""
    driver = journaled()
    vhost = driver.broker.vhosts["/"]
    vhost.declare_exchange("x", "direct", {}, True, False, False)
    queue = vhost.declare_queue("q", {}, True, False, None, None)
    for number in range(MANY):
        vhost.bind("x", queue, None, f"k{number}", {})
    vhost.bind("amq.topic", queue, None, "stays", {})
    declared = Declared(driver)
    declared.write()
    return declared


def delete(declared: Declared, what: str) -> None:
    """Delete; close the group that has it, as the broker does between two turns, and write nothing after it."""
    vhost = declared.driver.broker.vhosts["/"]
    if what == "exchange":
        vhost.delete_exchange("x", False)
    else:
        declared.driver.broker.delete_queue(vhost.queues["q"])
    declared.driver.begin(1.0)
    declared.write()


def declare(driver: BrokerDriver, what: str) -> None:
    if what == "exchange":
        driver.broker.vhosts["/"].declare_exchange("x", "direct", {}, True, False, False)
    else:
        driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)


def bindings(driver: BrokerDriver) -> list[str]:
    vhost = driver.broker.vhosts["/"]
    return [binding.key for exchange in vhost.exchanges.values() for binding in exchange.bindings.values()]


def restored(declared: Declared) -> tuple[BrokerDriver, list[str]]:
    """Return a fresh broker with what the store has, and what there was to say."""
    driver = journaled()
    return driver, at_once.restore(driver.broker, declared.things())


def written(driver: BrokerDriver, declared: Declared) -> Declared:
    """Return the broker that came back, beside the store that it came back from, with all that it wrote at once."""
    again = Declared(driver)
    again.shelf = declared.shelf
    again.write()
    return again


@pytest.mark.parametrize("what", ["exchange", "queue"])
def test_bindings_that_a_kill_left_behind_do_not_come_back_with_the_name(what: str) -> None:
    declared = bound()
    delete(declared, what)
    left = [thing for thing in declared.things() if thing.kind == BINDING]
    assert len(left) > CHANGES_A_GROUP, "it is killed while most of the bindings are in the store"

    driver, told = restored(declared)
    kept = ["stays"] if what == "exchange" else []
    gone = len(left) - len(kept)
    assert told == [f"{gone:,} bindings are removed, whose exchange or queue is not in the store: it was deleted"]
    assert bindings(driver) == kept
    again = written(driver, declared)
    assert len([thing for thing in again.things() if thing.kind == BINDING]) == len(kept)

    declare(driver, what)
    again.write()
    third, told = restored(again)
    assert told == []
    assert bindings(third) == kept


@pytest.mark.parametrize("what", ["exchange", "queue"])
def test_bindings_left_behind_stay_away_although_their_name_was_declared_again(what: str) -> None:
    declared = bound()
    before = declared.things()
    delete(declared, what)
    driver, _ = restored(declared)
    declare(driver, what)
    again = written(driver, declared)
    if what == "queue":  # As a store has it in which nobody has removed them yet: the queue has another number.
        for thing in before:
            if thing.kind == BINDING:
                again.shelf.put(thing)
    third, _ = restored(again)
    assert bindings(third) == (["stays"] if what == "exchange" else [])


def test_bindings_of_an_exchange_that_cannot_be_read_stay_in_the_store() -> None:
    declared = bound()
    for kind, key in list(declared.shelf.things):
        if kind == "exchange":
            declared.shelf.things[kind, key] = b"\x01{"
    driver, told = restored(declared)
    assert len(told) == MANY + 1
    assert bindings(driver) == ["stays"]
    again = written(driver, declared)
    assert len([thing for thing in again.things() if thing.kind == BINDING]) == MANY + 1
