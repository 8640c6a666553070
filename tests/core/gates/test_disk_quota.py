"""Quotas of virtual hosts and of the broker on stored bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.message import StoredMessage
from penstock.core.queue.storage import restore
from penstock.flow.level import UNLIMITED
from tests.support import at_once
from tests.support.broker_fixture import told
from tests.support.durable_broker import Kept
from tests.support.topology import resolve


def test_quota_gate_closes_at_once_and_stops_only_publishes_to_be_stored() -> None:
    house = Kept()
    house.set("vhost", "/", disk_overfull=500, disk_underfull=300)
    producer, other = house.producer("p"), house.producer("transient")
    for _ in range(5):
        house.store(producer, "a")
    assert house.closed() == []  # 500 are not above 500.
    house.store(producer, "b")
    assert house.closed() == ["quota of vhost /"]
    house.store(producer, "a")
    assert (house.depth("a"), house.depth("b"), len(producer.outbox)) == (5, 1, 1)
    house.publish(other, "a", 100)
    house.store(other, "passing")  # It is persistent, and its queue is not kept.
    assert (house.depth("a"), house.depth("passing"), len(other.outbox)) == (6, 1, 0)
    house.write()
    assert told(producer) == [(1, 6, True)], "nobody's confirmation is withheld by it"
    assert house.crossings() == [("quota of vhost /", True)]
    house.take("a", count=2)
    assert house.closed() == ["quota of vhost /"]  # 400 are left.
    house.take("a")  # 300, and it opens; what was held goes in.
    house.broker.run(1000)
    assert (house.stored(), len(producer.outbox), house.closed()) == (400, 0, [])
    house.write()
    assert told(producer) == [(7, 7, True)]
    assert house.crossings() == [("quota of vhost /", False)]


def test_quota_of_a_virtual_host_does_not_apply_to_other_virtual_hosts() -> None:
    house = Kept()
    other = house.broker.add_vhost("other")
    free = other.declare_queue("free", {}, True, False, None, None)
    house.set("vhost", "/", disk_overfull=100)
    producer = house.producer("p")
    house.store(producer, "a", 200)
    route = resolve(other, "", "free")
    for _ in range(3):
        producer.publish(route.persistent(), b"x", 1000)
    assert (free.messages, house.closed()) == (3, ["quota of vhost /"])


def test_broker_quota_counts_measured_bytes_and_bytes_stored_since() -> None:
    house = Kept(disk_overfull=1_000_000, disk_underfull=500_000, min_disk_free="none")
    house.disk.measured(900_000, UNLIMITED, 0, house.broker.now)
    producer = house.producer("p")
    for _ in range(9):
        house.store(producer, "a", 10_000)
    assert (house.closed(), house.disk.left()) == ([], 10_000)
    for _ in range(3):
        house.store(producer, "b", 10_000)
    assert house.closed() == ["quota"]
    assert house.depth("a") + house.depth("b") == 11, "the one that passed the mark was taken, none after it"
    house.write()
    house.disk.measured(1_010_000, UNLIMITED, 0, house.broker.now)
    house.take("a", count=9)
    house.disk.measured(600_000, UNLIMITED, 0, house.broker.now)
    house.broker.run(1000)
    assert (house.closed(), len(producer.outbox)) == (["quota"], 1)
    house.disk.measured(500_000, UNLIMITED, 0, house.broker.now)
    house.broker.apply_gate_transitions()
    house.broker.run(1000)
    assert (house.closed(), len(producer.outbox)) == ([], 0)


@given(
    st.integers(0, 3_000),
    st.lists(st.tuples(st.sampled_from(["a", "b", "other"]), st.integers(240, 900), st.integers(0, 9)), max_size=60),
)
def test_quota_of_the_broker_is_exceeded_by_the_closing_publish_only(
    used: int, publishes: list[tuple[str, int, int]]
) -> None:
    house = Kept(disk_overfull=5_000, disk_underfull=1, min_disk_free="none")
    other = house.broker.add_vhost("other")
    queues = {name: house.vhost.queues[name] for name in ("a", "b")}
    queues["other"] = other.declare_queue("other", {}, True, False, None, None)
    house.write()
    house.disk.measured(used, UNLIMITED, 0, house.broker.now)
    producer = house.producer("p")
    written = used
    for name, charge, act in publishes:
        before = written + int(house.journal.unwritten())
        vhost = other if name == "other" else house.vhost
        route = resolve(vhost, "", name)
        producer.publish(route.persistent(), b"x", charge)
        after = written + int(house.journal.unwritten())
        assert after == before or before <= 5_000, "it came in although as much as may be was there"
        if act == 0:
            written = after
            house.write()
            house.disk.measured(written, UNLIMITED, 0, house.broker.now)
    assert (written + int(house.journal.unwritten()) > 5_000) == (house.closed() == ["quota"])


def test_virtual_host_restored_above_the_quota_is_closed_before_the_first_publish() -> None:
    house = Kept()
    house.set("vhost", "/", disk_overfull=500)
    queue = house.vhost.queues["a"]
    address = house.vhost.route("", "a", False).persistent().envelope
    restore(queue, [StoredMessage(address, b"x", 300, sequence, 0.0) for sequence in (1, 2)], house.broker.now)
    assert (house.stored(), house.closed()) == (600, ["quota of vhost /"])


def test_quota_lifted_raised_or_lowered_is_judged_at_once() -> None:
    house = Kept()
    producer = house.producer("p")
    for _ in range(5):
        house.store(producer, "a")
    house.set("vhost", "/", disk_overfull=300)
    house.store(producer, "a")
    assert (house.closed(), len(producer.outbox)) == (["quota of vhost /"], 1)
    house.set("vhost", "/", disk_overfull=1000)
    house.broker.run(1000)
    assert (house.closed(), len(producer.outbox)) == ([], 0)
    house.set("vhost", "/", disk_overfull=400)
    house.store(producer, "a")
    at_once.remove(house.broker, "vhost", "/", [])
    house.broker.run(1000)
    assert (house.closed(), len(producer.outbox), house.depth("a")) == ([], 0, 7)
