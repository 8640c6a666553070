"""The first queues of a list in an order: those of the whole list, and a share of work a slice."""

from __future__ import annotations

from random import Random

import pytest

from penstock.access.rules import UserRules
from penstock.core.queue.queue import Queue
from penstock.describe.lists import EXAMINED_AT_ONCE, First, QueueOrder, first_steps
from penstock.describe.queue import QUEUE
from penstock.describe.table import Reading
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import LOOKING_SHARE, finish
from penstock.operations.vhosts import declare_vhost
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.turn_costs import turn_costs

MANY = 1_200


@pytest.fixture
def driver() -> BrokerDriver:
    """Queues of two virtual hosts with names in no order, and some with messages."""
    driver = make_driver()
    declare_vhost(driver, "other")
    client = Dialogue(driver)
    random = Random(7)
    for number in range(MANY):
        vhost = driver.broker.vhosts["/" if number % 3 else "other"]
        vhost.declare_queue(f"Q{random.randrange(10**6)}", {}, False, False, None, None)
    for name in random.sample(list(driver.broker.vhosts["/"].queues), 60):
        for _ in range(random.randrange(1, 4)):
            client.say(publish(name, b"x"))
    return driver


def number_of(queue: Queue, column: str) -> float:
    number = QUEUE.number(column)
    found = number.value(queue, Reading(0.0))
    assert isinstance(found, int | float)
    return found


def first(driver: BrokerDriver, order: QueueOrder, count: int, wanted: str = "") -> First:
    return finish(first_steps(driver, None, UserRules(driver.broker.access, "guest"), wanted, order, count))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 40, 500, 2_000])
@pytest.mark.parametrize("column", ["name", "messages", "penstock.fill_percent"])
def test_first_queues_are_those_of_the_list_in_order(
    driver: BrokerDriver, column: str, count: int, reverse: bool
) -> None:
    whole = [queue for vhost in driver.broker.vhosts.values() for queue in vhost.queues.values()]
    whole.sort(key=lambda queue: queue.name, reverse=reverse and column == "name")
    if column != "name":
        whole.sort(key=lambda queue: number_of(queue, column), reverse=reverse)
    found = first(driver, QueueOrder(QUEUE.number(column), reverse), count)
    assert [item.subject for item in found.items] == whole[:count]
    assert all(item.vhost is driver.broker.vhosts[item.vhost.name] for item in found.items if item.vhost is not None)
    assert (found.total, found.filtered) == (MANY, MANY)


def test_queues_of_the_same_name_are_in_the_order_of_creation_in_either_direction() -> None:
    driver = make_driver()
    declare_vhost(driver, "other")
    for vhost in driver.broker.vhosts.values():
        vhost.declare_queue("same", {}, False, False, None, None)
    for reverse in (False, True):
        items = first(driver, QueueOrder(None, reverse), 10).items
        assert [item.vhost.name for item in items if item.vhost is not None] == ["/", "other"]


def test_only_queues_with_the_wanted_text_are_taken_and_counted(driver: BrokerDriver) -> None:
    names = [name for vhost in driver.broker.vhosts.values() for name in vhost.queues if "q12" in name.lower()]
    found = first(driver, QueueOrder(None, False), 5, "q12")
    assert [item.name for item in found.items] == sorted(names)[:5]
    assert (found.total, found.filtered) == (MANY, len(names))


def test_page_of_thousands_of_queues_is_found_in_small_slices(driver: BrokerDriver) -> None:
    rules = UserRules(driver.broker.access, "guest")
    order = QueueOrder(QUEUE.number("messages"), True)
    slices, found = turn_costs(driver.broker.work, first_steps(driver, None, rules, "", order, 50), LOOKING_SHARE)
    assert max(slices) <= LOOKING_SHARE + EXAMINED_AT_ONCE
    assert len(slices) >= MANY // (LOOKING_SHARE + EXAMINED_AT_ONCE)
    assert len(found.items) == 50
