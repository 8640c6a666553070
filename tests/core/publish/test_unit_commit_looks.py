"""Looks at a waiting commit: their cost and result; and held commits that are refused together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.flow.level import UNLIMITED, Level, Thresholds
from tests.support.broker_fixture import House
from tests.support.line_counts import lines_of
from tests.support.transaction_client import Client


def at_queue(house: House) -> None:
    house.set("queue", "a", capacity_messages=1000, stop_messages=999, resume_messages=970)


def at_vhost(house: House) -> None:
    house.set("vhost", "#", capacity_messages=1000, stop_messages=999, resume_messages=970)


def at_memory(house: House) -> None:
    level = Thresholds(Level(UNLIMITED, 1000), Level(UNLIMITED, 999), Level(UNLIMITED, 970))
    house.broker.gates.set_memory_capacity(level, 10)


def at_address(house: House) -> None:
    house.set("address", "amq.topic", capacity_messages=1000, stop_messages=999, resume_messages=970)


@pytest.mark.parametrize("limit", [at_queue, at_vhost, at_memory, at_address])
@pytest.mark.parametrize("spread", [False, True], ids=["one queue", "many queues"])
def test_look_at_a_waiting_commit_costs_the_same_at_any_size(limit: Callable[[House], None], spread: bool) -> None:
    steps = []
    for size in (50, 500):
        house = House("a")
        house.vhost.bind("amq.topic", house.vhost.queues["a"], None, "#", {})
        for number in range(size if spread else 0):
            house.queue(f"to{number}")
            house.vhost.bind("amq.topic", house.vhost.queues[f"to{number}"], None, str(number), {})
        limit(house)
        filler = house.producer("filler", confirming=False)
        house.publish(filler, "", 1, exchange="amq.topic", count=1000)
        client = Client(house, "tx")
        for number in range(size):
            client.publish(str(number), 1, exchange="amq.topic")
        assert not client.commit()
        house.take("a", count=40)
        steps.append(lines_of(partial(house.take, "a", 5)))
        assert not client.told()
        house.take("a", count=2 * size)
        assert client.told() == 1
    assert steps[1] < 2 * steps[0]


def test_commit_at_a_shared_limit_passes_when_the_largest_queue_is_deleted(house: House, client: Client) -> None:
    house.queue("a", "b")
    at_memory(house)
    house.publish_now("a", 100, count=10)
    client.publish("a", 2)
    client.publish("b", 2)
    assert not client.commit()
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    assert client.told() == 1
    assert house.depth("b") == 1


def test_commit_at_a_limit_passes_when_the_queue_of_a_part_is_deleted(house: House, client: Client) -> None:
    house.queue("a", "b", "c")
    house.set("vhost", "#", capacity_messages=10, stop_messages=10, resume_messages=9)
    house.publish_now("c", 1, count=9)
    client.publish("a", 1)
    client.publish("b", 1)
    assert not client.commit()
    house.broker.delete_queue(house.vhost.queues["b"])
    house.broker.run(1000)
    assert client.told() == 1


def test_commit_at_an_address_passes_when_other_copies_have_left(house: House, client: Client) -> None:
    for name in ("a", "b", "c"):
        house.queue(name)
    for name in ("a", "b"):
        house.vhost.bind("amq.topic", house.vhost.queues[name], None, "both", {})
    house.vhost.bind("amq.topic", house.vhost.queues["c"], None, "other", {})
    house.set("address", "amq.topic", capacity_messages=3, stop_messages=2, resume_messages=2)
    filler = house.producer("filler", confirming=False)
    house.publish(filler, "both", 1, exchange="amq.topic")
    house.publish(filler, "other", 1, exchange="amq.topic", count=2)
    client.ack(client.get("a"))
    client.publish("other", 1, 1, exchange="amq.topic")
    assert not client.commit()
    house.take("b")
    house.take("c")
    assert house.depth("c") == 3, "its acknowledgement removes the last copy of a message"


def test_publish_is_counted_by_the_length_limit_of_the_queue_at_the_commit(house: House, client: Client) -> None:
    house.queue("a")
    client.publish("a", 1, 1)
    house.set("queue", "a", **{"max-length-bytes": 1, "overflow": "reject"})
    assert not client.commit()
    assert house.depth("a") == 0


@pytest.mark.parametrize("retries", [False, True])
def test_work_of_held_commits_that_are_refused_together_and_of_rollbacks_is_linear(retries: bool) -> None:
    steps: dict[str, list[int]] = {"refusal": [], "rollback": []}
    for commits in (100, 400):
        house = House("a", capacity_messages=1, hold_deadline=5)
        house.publish_now("a", 1)
        client = Client(house, "tx")
        client.transaction.coordinator.keeps_refused = retries
        for _ in range(commits):
            client.publish("a", 1) if retries else client.transaction.settle(0, True, Outcome.ACCEPTED)
            client.publish("a", 1)
            client.transaction.commit()
        steps["rollback"].append(lines_of(client.transaction.rollback))
        steps["refusal"].append(lines_of(partial(house.later, 6)))
        assert client.producer.outbox == deque()
        assert int(client.transaction.coordinator.size) == 0 or not retries
    assert steps["rollback"][1] == steps["rollback"][0]
    assert steps["refusal"][1] < 5 * steps["refusal"][0]
