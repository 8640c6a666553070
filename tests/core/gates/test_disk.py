"""The gates before the disk together: the messages that they hold, and stored bytes."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.gates.disk import FREE_SPACE, QUOTA, STORE_FAILURE, DiskGate
from tests.support.broker_fixture import House, told
from tests.support.durable_broker import Kept
from tests.support.topology import resolve
from tests.support.transaction_client import Client


@pytest.fixture
def house() -> Kept:
    return Kept()


def test_publish_to_a_durable_and_a_transient_queue_waits_for_both(house: Kept) -> None:
    house.vhost.bind("amq.fanout", house.vhost.queues["a"], None, "", {})
    house.vhost.bind("amq.fanout", house.vhost.queues["passing"], None, "", {})
    house.set("vhost", "/", disk_overfull=100)
    producer = house.producer("p")
    house.store(producer, "", 150, "amq.fanout")
    house.store(producer, "", 150, "amq.fanout")
    assert (house.depth("a"), house.depth("passing"), len(producer.outbox)) == (1, 1, 1)
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    assert (house.depth("passing"), len(producer.outbox)) == (2, 0)


def test_held_publish_is_refused_at_the_deadline_with_the_reason(house: Kept) -> None:
    house.set("vhost", "/", disk_overfull=100)
    house.set("queue", "a", hold_deadline=5)
    confirming, plain = house.producer("confirming"), house.producer("plain", confirming=False)
    house.store(plain, "a", 200)
    house.store(confirming, "a")
    house.store(plain, "a")
    house.at(106.0)
    assert told(confirming) == [(1, 1, False)]
    assert str(plain.closing) == (
        "1 publish is lost: publish to exchange '' with routing key 'a' refused after its hold deadline of 5 s; "
        "disk quota of vhost /: 200 bytes stored > disk-overfull 100 (opens at 90)"
    )


def test_cause_of_closed_quota_names_the_limit_that_was_passed() -> None:
    house = Kept(disk_overfull=1_000)
    causes: list[str] = []
    for used in (1_001, 950):
        house.disk.measured(used, 1 << 30, 1 << 31, house.broker.now)
        assert house.disk.quota is not None
        causes.append(house.disk.quota.describe_cause(0.0))
    assert causes == [
        "1,001 bytes used > disk-overfull 1,000 (opens at 900)",
        "950 bytes used; it was above disk-overfull (1,000) and opens at 900",
    ]


def test_publish_behind_a_closed_queue_gate_does_not_bypass_the_disk_gate(house: Kept) -> None:
    """Rows of publishes that are withheld by a queue end where the disk stops them (waiting_publisher.py)."""
    house.set("queue", "a", capacity_messages=100, stop_messages=1)
    house.set("vhost", "/", disk_overfull=400)
    producer = house.producer("p")
    for _ in range(10):
        house.store(producer, "a")
    assert (house.depth("a"), len(producer.outbox)) == (5, 5)


def test_commit_that_frees_as_much_as_stored_passes_a_quota_but_no_other_disk_gate(house: Kept) -> None:
    house.set("vhost", "/", disk_overfull=250)
    filler = house.producer("filler")
    for _ in range(3):
        house.store(filler, "a")
    client = Client(house, "c")

    def move() -> bool:
        client.ack(client.get("a"))
        route = resolve(house.vhost, "", "b")
        client.producer.publish(route.persistent(), b"x", 100)
        return client.commit()

    assert house.closed() == ["quota of vhost /"]
    move()
    assert (house.depth("a"), house.depth("b")) == (2, 1)
    house.broker.gates.disk_fails("the disk is on fire")
    move()
    assert (house.depth("a"), house.depth("b"), len(client.producer.outbox)) == (2, 1, 1)
    house.broker.gates.disk_works()
    house.broker.apply_gate_transitions()
    house.broker.run(1000)
    assert (house.depth("a"), house.depth("b"), len(client.producer.outbox)) == (1, 2, 0)


def test_dead_letter_is_not_stopped_by_gates_before_the_disk(house: Kept) -> None:
    house.vhost.declare_queue(
        "work", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"}, True, False, None, None
    )
    house.set("vhost", "/", disk_overfull=50)
    house.store(house.producer("p"), "work")
    assert house.closed() == ["quota of vhost /"]
    session = Session()
    batch = session.get(house.vhost.queues["work"], False, house.broker.now)
    session.unsettled.settle_tag(batch.first, False, Outcome.REJECTED, house.broker.now)
    house.broker.run(1000)
    assert (house.depth("work"), house.depth("b")) == (0, 1)


def test_stored_bytes_are_counted_exactly_for_any_fate_of_the_messages(house: Kept) -> None:
    producer = house.producer("p")
    queue = house.vhost.queues["a"]
    for charge in range(100, 110):
        house.store(producer, "a", charge)
    house.publish(producer, "a", 1000)
    assert house.stored() == sum(range(100, 110))
    house.take("a")
    house.write()
    session = Session()
    batch = session.get(queue, False, house.broker.now)
    session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, house.broker.now)
    assert house.stored() == sum(range(101, 110))
    batch = session.get(queue, False, house.broker.now)
    assert batch is not None
    house.broker.delete_queue(queue)
    assert house.stored() == 101, "what a consumer has of a deleted queue is there until it is settled"
    session.unsettled.acknowledge(batch.first, False, house.broker.now)
    assert house.stored() == 0


def test_deleted_virtual_host_releases_the_waiters_and_the_name_starts_at_0(house: Kept) -> None:
    house.set("vhost", "/", disk_overfull=100)
    house.store(house.producer("p"), "a", 200)
    assert house.closed() == ["quota of vhost /"]
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.gates.set_vhost_quota(house.vhost, None)
    assert (house.stored(), house.closed()) == (0, [])


def test_disk_gate_admits_no_message_while_closed_and_all_while_open() -> None:
    found = DiskGate(House().broker.gates.disk, "room of the store")
    assert found.admits(1 << 40, 9, 1.0)
    found.move(True, 1000, 1.0)
    assert not found.admits(1, 1, 1.0)
    found.move(False, 500, 2.0)
    assert found.admits(1, 1, 2.0)


def test_disk_gate_names_the_gate_in_a_refusal() -> None:
    found = DiskGate(House().broker.gates.disk, "room of the store")
    assert found.gate.owner is found
    assert "room of the store" in found.describe_refusal()


def test_disk_gates_of_each_kind_have_distinct_first_words_in_their_names() -> None:
    assert len({QUOTA, FREE_SPACE, STORE_FAILURE}) == 3
