"""The gates before the disk, on the core alone: quotas, room that is left free, a store that cannot be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.consume.session import Session
from penstock.core.effects import Blocked, Unblocked
from penstock.core.gates.free_space_gate import FreeSpaceGate
from penstock.core.journal.redelivery_mark import restore
from penstock.core.message import StoredMessage
from penstock.core.settings import changes
from penstock.core.settings.limits import DISK_FREE_BYTES
from penstock.flow.level import UNLIMITED
from tests.support.broker_fixture import told
from tests.support.durable_broker import Kept
from tests.support.transaction_client import Client


def test_what_is_stored_of_a_virtual_host_closes_its_gate_at_once_and_stops_only_what_would_be_stored() -> None:
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
    for _ in range(2):
        house.take("a")
    assert house.closed() == ["quota of vhost /"]  # 400 are left.
    house.take("a")  # 300, and it opens; what was held goes in.
    house.broker.run(1000)
    assert (house.stored(), len(producer.outbox), house.closed()) == (400, 0, [])
    house.write()
    assert told(producer) == [(7, 7, True)]
    assert house.crossings() == [("quota of vhost /", False)]


def test_a_virtual_hosts_quota_is_no_other_ones() -> None:
    house = Kept()
    other = house.broker.add_vhost("other")
    free = other.declare_queue("free", {}, True, False, None, None)
    house.set("vhost", "/", disk_overfull=100)
    producer = house.producer("p")
    house.store(producer, "a", 200)
    route = other.route("", "free", False)
    other.resolve(route, {})
    for _ in range(3):
        producer.publish_stored(route.persistent(), b"x", 1000)
    assert (free.messages, house.closed()) == (3, ["quota of vhost /"])


def test_whoever_publishes_to_several_queues_of_which_one_is_kept_waits_for_all() -> None:
    house = Kept()
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


def test_a_held_publish_is_refused_at_its_deadline_with_the_reason() -> None:
    house = Kept()
    house.set("vhost", "/", disk_overfull=100)
    house.set("queue", "a", hold_deadline=5)
    confirming, plain = house.producer("confirming"), house.producer("plain", confirming=False)
    house.store(plain, "a", 200)
    house.store(confirming, "a")
    house.store(plain, "a")
    house.broker.begin(106.0)
    house.broker.run(1000)
    assert told(confirming) == [(1, 1, False)]
    assert str(plain.closing) == (
        "publish to exchange '' with routing key 'a' refused after its hold deadline of 5 s; "
        "disk quota of vhost /: 200 bytes stored > disk-overfull 100 (opens at 90)"
    )


def test_who_publishes_behind_a_queues_closed_gate_does_not_slip_past_the_disks() -> None:
    """Rows of publishes that are withheld by a queue end where the disk stops them (core/publish/withheld_run.py)."""
    house = Kept()
    house.set("queue", "a", capacity_messages=100, stop_messages=1)
    house.set("vhost", "/", disk_overfull=400)
    producer = house.producer("p")
    for _ in range(10):
        house.store(producer, "a")
    assert (house.depth("a"), len(producer.outbox)) == (5, 5)


def test_a_commit_that_frees_as_much_as_it_stores_passes_a_quota_and_no_other_gate_before_the_disk() -> None:
    house = Kept()
    house.set("vhost", "/", disk_overfull=250)
    filler = house.producer("filler")
    for _ in range(3):
        house.store(filler, "a")
    client = Client(house, "c")

    def move() -> bool:
        client.ack(client.get("a"))
        route = house.vhost.route("", "b", False)
        house.vhost.resolve(route, {})
        client.producer.publish_stored(route.persistent(), b"x", 100)
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


def test_the_brokers_quota_is_judged_by_what_is_measured_and_what_has_come_since() -> None:
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
    for _ in range(9):
        house.take("a")
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
def test_however_it_comes_no_more_passes_the_brokers_mark_than_the_one_publish_that_closed_it(
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
        route = vhost.route("", name, False)
        vhost.resolve(route, {})
        producer.publish_stored(route.persistent(), b"x", charge)
        after = written + int(house.journal.unwritten())
        assert after == before or before <= 5_000, "it came in although as much as may be was there"
        if act == 0:
            written = after
            house.write()
            house.disk.measured(written, UNLIMITED, 0, house.broker.now)
    assert (written + int(house.journal.unwritten()) > 5_000) == (house.closed() == ["quota"])


def test_room_that_must_be_left_free_closes_and_opens_with_some_distance() -> None:
    house = Kept(min_disk_free=1_000)
    for free, closed in ((1_000, []), (999, ["room"]), (1_099, ["room"]), (1_100, []), (1_000, []), (0, ["room"])):
        house.disk.measured(1, free, 100_000, house.broker.now)
        assert house.closed() == closed, free
    house.set("broker", "", min_disk_free="none")
    assert house.closed() == []
    assert [closed for _, closed in house.crossings()] == [True, False, True, False]


def test_what_the_store_needs_itself_is_not_free_for_messages() -> None:
    house = Kept(min_disk_free=1_000)
    for free, needed, closed in ((1_500, 500, []), (1_500, 501, ["room"]), (1_500, 400, []), (1_000, 0, [])):
        house.disk.measured(1, free, 100_000, house.broker.now, needed)
        assert house.closed() == closed, (free, needed)


def test_where_nothing_must_be_left_free_the_store_still_keeps_what_it_needs() -> None:
    house = Kept(min_disk_free="none")
    for free, needed, closed in ((500, 500, []), (499, 500, ["room"]), (500, 500, [])):
        house.disk.measured(1, free, 100_000, house.broker.now, needed)
        assert house.closed() == closed, (free, needed)
    house.disk.measured(1, 499, 100_000, house.broker.now, 500)
    assert house.disk.room is not None
    assert house.disk.room.describe_cause(0.0) == (
        "0 bytes free < min-disk-free 0 (opens at 0), besides 500 for the store itself"
    )


@pytest.mark.parametrize(
    ("percent", "total", "mark", "resume"), [(5.0, 1000, 50, 55), (99.0, 1000, 990, 995), (100.0, 1000, 1000, 1000)]
)
def test_a_share_that_must_be_left_free_can_always_be_reached(
    percent: float, total: int, mark: int, resume: int
) -> None:
    house = Kept(min_disk_free=f"{percent}%")
    house.disk.measured(1, 0, total, house.broker.now)
    room = house.disk.room
    assert isinstance(room, FreeSpaceGate)
    assert (room.recheck_at(), room.resume(), room.full_percent()) == (mark, resume, 100 - int(percent))


def test_nothing_said_leaves_free_what_rabbitmq_does_and_has_no_quota() -> None:
    house = Kept()
    house.broker.gates.set_disk_limit(house.broker.table.limits("broker", ""))
    assert house.disk.quota is None
    assert house.disk.room is not None
    assert house.disk.room.recheck_at() == DISK_FREE_BYTES == 50_000_000


def test_a_store_that_cannot_be_written_blocks_those_who_wait_for_it_and_those_who_come() -> None:
    house = Kept()
    waits, comes, idle = house.producer("waits"), house.producer("comes"), house.producer("idle")
    house.store(waits, "a")
    house.store(idle, "a")
    house.write()
    told(idle)
    house.store(waits, "a")
    house.effects()
    house.broker.gates.disk_fails("no room")
    house.store(comes, "a")
    told_of = [(type(each), each.producer.name) for each in house.effects() if isinstance(each, Blocked)]
    assert told_of == [(Blocked, "waits"), (Blocked, "comes")]
    house.broker.gates.disk_fails("no room still")
    house.effects()
    assert told(waits) == [(1, 1, True)]
    assert (house.depth("a"), len(comes.outbox)) == (3, 1)
    house.write()
    house.broker.gates.disk_works()
    released = [each.producer.name for each in house.effects() if isinstance(each, Unblocked)]
    house.broker.run(1000)
    house.write()
    released += [each.producer.name for each in house.effects() if isinstance(each, Unblocked)]
    assert sorted(released) == ["comes", "waits"]
    assert (told(waits), told(comes), house.depth("a")) == ([(2, 2, True)], [(1, 1, True)], 4)


def test_consuming_acknowledging_and_purging_go_on_while_the_store_cannot_be_written() -> None:
    house = Kept()
    producer = house.producer("p")
    for _ in range(10):
        house.store(producer, "a")
    house.write()
    house.broker.gates.disk_fails("no room")
    session = Session()
    queue = house.vhost.queues["a"]
    first = session.get(queue, False, house.broker.now)
    assert first is not None
    assert not first.waits_for_disk, "nobody waits for a disk that does not work"
    session.acknowledge(first.first, False, house.broker.now)
    assert queue.purge(house.broker.now) == 9
    assert house.stored() == 0


def test_what_comes_back_again_and_again_while_nothing_can_be_written_is_noted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = Kept()
    house.store(house.producer("p"), "a")
    house.write()
    house.broker.gates.disk_fails("no room")
    session, queue = Session(), house.vhost.queues["a"]
    for _ in range(70_000):
        batch = session.get(queue, False, house.broker.now)
        assert batch is not None
        session.requeue(batch.first, False, house.broker.now)
    assert len(house.journal.open.returned) < 66_000


def test_a_dead_letter_stops_at_no_gate_before_the_disk_for_it_leaves_one_place_for_another() -> None:
    house = Kept()
    house.vhost.declare_queue(
        "work", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"}, True, False, None, None
    )
    house.set("vhost", "/", disk_overfull=50)
    house.store(house.producer("p"), "work")
    assert house.closed() == ["quota of vhost /"]
    session = Session()
    batch = session.get(house.vhost.queues["work"], False, house.broker.now)
    assert batch is not None
    session.reject(batch.first, False, house.broker.now)
    house.broker.run(1000)
    assert (house.depth("work"), house.depth("b")) == (0, 1)


def test_what_is_stored_is_counted_to_the_byte_whatever_becomes_of_it() -> None:
    house = Kept()
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
    assert batch is not None
    session.requeue(batch.first, False, house.broker.now)
    assert house.stored() == sum(range(101, 110))
    batch = session.get(queue, False, house.broker.now)
    assert batch is not None
    house.broker.delete_queue(queue)
    assert house.stored() == 101, "what a consumer has of a deleted queue is there until it is settled"
    session.acknowledge(batch.first, False, house.broker.now)
    assert house.stored() == 0


def test_a_virtual_host_that_comes_back_above_its_quota_is_closed_before_the_first_publish() -> None:
    house = Kept()
    house.set("vhost", "/", disk_overfull=500)
    queue = house.vhost.queues["a"]
    address = house.vhost.route("", "a", False).persistent().envelope
    restore(queue, [StoredMessage(address, b"x", 300, sequence, 0.0) for sequence in (1, 2)], house.broker.now)
    assert (house.stored(), house.closed()) == (600, ["quota of vhost /"])


def test_a_quota_that_is_lifted_raised_or_lowered_is_judged_at_once() -> None:
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
    changes.remove(house.broker, "vhost", "/", [])
    house.broker.run(1000)
    assert (house.closed(), len(producer.outbox), house.depth("a")) == ([], 0, 7)


def test_a_virtual_host_that_is_deleted_lets_go_who_waits_and_another_of_its_name_begins_anew() -> None:
    house = Kept()
    house.set("vhost", "/", disk_overfull=100)
    house.store(house.producer("p"), "a", 200)
    assert house.closed() == ["quota of vhost /"]
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.gates.set_vhost_quota(house.vhost, None)
    assert (house.stored(), house.closed()) == (0, [])
