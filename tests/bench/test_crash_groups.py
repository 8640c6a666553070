"""Message groups in the crash test: what its consumers note, and a broker without groups, which they must find out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.crash.groups import GroupConsumer, Holdings
from bench.crash.history import Copy, History
from bench.crash.parties import Publisher
from bench.crash.promises import Promises
from bench.crash.target import Target
from bench.crash.topology import GROUPED, straight
from bench.crash.wire import Address, Link
from penstock.wire.amqp091 import spec
from tests.bench.test_crash import FORM
from tests.support.brokers import PATIENCE, eventually

QUEUE = "group.0"


def message(number: int, group: str = "a") -> Copy:
    return Copy(f"p.{number}", "p", number, (QUEUE,), 1, group=group)


def kinds(history: History) -> list[str]:
    return [violation.kind for violation in history.violations]


def test_group_with_two_consumers_is_blamed_until_the_first_has_settled() -> None:
    history, holdings = History(Promises()), Holdings()
    holdings.take(history, QUEUE, "first", message(1), False)
    holdings.take(history, QUEUE, "first", message(2), False)
    holdings.take(history, QUEUE, "second", message(3, "b"), False)
    assert kinds(history) == []
    holdings.settle(QUEUE, "first", message(1))
    holdings.take(history, QUEUE, "second", message(4), False)
    assert kinds(history) == ["group shared"]
    holdings.settle(QUEUE, "first", message(2))
    holdings.take(history, QUEUE, "second", message(4), False)
    assert kinds(history) == ["group shared"]
    assert holdings.passed == 1


def test_group_of_a_consumer_that_leaves_goes_to_another_one() -> None:
    history, holdings = History(Promises()), Holdings()
    for consumer in ("first", "second"):
        holdings.take(history, QUEUE, consumer, message(1), consumer == "second")
        holdings.leave(consumer)
    assert kinds(history) == []
    assert holdings.passed == 1


def test_group_order_is_judged_of_messages_that_come_for_the_first_time() -> None:
    history, holdings = History(Promises()), Holdings()
    for number, group, redelivered in ((2, "a", False), (1, "b", False), (1, "a", True)):
        holdings.take(history, QUEUE, "first", message(number, group), redelivered)
    assert kinds(history) == []
    holdings.take(history, QUEUE, "first", message(1), False)
    assert kinds(history) == ["group order"]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    target = Target(FORM, tmp_path)
    yield target
    target.close()


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [True, False])
def test_group_consumers_find_out_a_broker_without_groups(target: Target, grouped: bool) -> None:
    history, holdings, chance = History(Promises()), Holdings(), random.Random(1)
    address = Address(target.start())
    link = Link(address)
    link.ask(spec.QUEUE_DECLARE, queue=QUEUE, arguments=GROUPED[QUEUE] if grouped else {})
    link.abort()
    publisher = Publisher("p", address, history, chance, straight(QUEUE), plain=True)
    publisher.groups = 12
    consumers = [GroupConsumer(f"c{number}", address, history, chance, QUEUE, holdings) for number in range(2)]
    for consumer in consumers:
        consumer.prefetch, consumer.holds, consumer.leaves_after, consumer.barriers = 10 if grouped else 100, True, 0, 0
    for client in (*consumers, publisher):
        client.start()
    eventually(lambda: history.deliveries >= 20 if grouped else history.violations, "both consumers have messages")
    target.kill()
    for client in (*consumers, publisher):
        client.join(PATIENCE)
    assert set(kinds(history)) == (set() if grouped else {"group shared"})
