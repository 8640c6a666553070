"""Queues that page: each rule by itself. Any order of events is in tests/persistence/test_paging.py.

Queues that cannot page: refused with the reason. That a queue pages is reported once.
"""

from __future__ import annotations

from typing import cast

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.effects import Paging
from penstock.core.queue.cursor_state import LeaseState, Position, free_through, pin
from penstock.core.queue.expiry import expire
from penstock.core.queue.pager import UNWRITTEN_BYTES
from penstock.errors import ContentTooLarge, PreconditionFailed
from penstock.ranges.cursors import Cursor
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PAGE, PagedHouse, house_with, numbered, publish, settled, told
from tests.support.setting_values import in_bytes

# To the disk and back


def test_messages_beyond_the_capacity_are_paged_and_come_back_in_order() -> None:
    house = house_with(messages=50)
    queue = house.queues["q"]
    assert (queue.messages, house.pages("q").messages, queue.depth_messages()) == (4, 46, 50)
    assert queue.depth_bytes() == 50 * 300
    house.settle()
    assert house.memory("q") == numbered(1, 4)
    assert house.drain("q") == numbered(1, 50)
    assert not house.shelf.rows


def test_paged_messages_are_not_overtaken_though_memory_has_room() -> None:
    house = house_with(messages=6)
    house.write()
    for _ in range(4):
        assert house.get("q") is not None
    publish(house, 7, 8)
    assert house.memory("q") == []
    assert house.drain("q") == numbered(5, 8)


def test_persistent_message_is_written_once_and_then_confirmed() -> None:
    house = house_with()
    for number in range(1, 9):
        house.publish("q", b"<%d>" % number)
    assert told(house) == []
    house.write()
    assert told(house) == [(1, 8, True)]
    written = b"".join(row.data for row in house.shelf.rows.values())
    assert [written.count(b"<%d>" % number) for number in range(1, 9)] == [1] * 8
    assert [row.queue > 0 for _, row in sorted(house.shelf.rows.items())] == [False, True, True]
    assert sum(row.messages for row in house.shelf.rows.values() if row.queue) == 4


def test_paged_transient_message_is_confirmed_at_once() -> None:
    house = house_with()
    publish(house, 1, 8, persistent=False)
    assert told(house) == [(1, 8, True)]
    house.settle()
    assert house.drain("q") == numbered(1, 8)


def test_pager_reads_no_more_messages_than_there_is_room_for() -> None:
    house = settled(2000, capacity_messages=20)
    for _ in range(15):
        house.get("q")
        house.settle()
    for _ in range(5):
        house.get("q")
    house.ask()
    (read,) = house.reads
    asked = house.shelf.some_pages(read.number, read.first, read.most)
    assert [row.messages for row in asked] == [10], "half of the capacity is free"


def test_page_wanted_at_once_is_not_read_again() -> None:
    house = house_with(messages=6)
    for _ in range(4):
        house.get("q")
    house.write()
    assert house.memory("q") == numbered(5, 6)
    assert house.broker.take_page_reads() == []


def test_settled_message_of_an_unread_page_does_not_come_back() -> None:
    shelf = Shelf()
    house = house_with(shelf, messages=7)
    for _ in range(4):
        house.get("q")
    house.write()
    assert house.get("q", no_ack=False) is not None
    assert house.get("q") is not None
    house.write()
    assert house_with(shelf).drain("q") == [*numbered(5, 5), *numbered(7, 7)]


def test_returned_message_has_the_old_place_before_pages_read_meanwhile() -> None:
    house = settled(12)
    for _ in range(4):
        assert house.get("q", no_ack=False) is not None
    house.settle()
    assert house.memory("q") == numbered(5, 8)
    house.session.unsettled.settle_tag(2, False, Outcome.FAILED, house.now)
    assert house.get("q") is not None
    house.session.unsettled.settle_tag(0, True, Outcome.FAILED, house.now)
    assert house.drain("q") == [b"1", b"3", b"4", *numbered(5, 12)]


def test_consumers_without_settlements_do_not_starve_each_other() -> None:
    house = house_with(messages=40)
    queue = house.queues["q"]
    for number in range(1, 41):
        house.settle()
        message = house.get("q", no_ack=False)
        assert message.content == b"%d" % number
        assert queue.messages - queue.unacked_messages <= 4
    house.session.unsettled.acknowledge(0, True, house.now)
    house.settle()
    assert not house.shelf.rows


def test_message_larger_than_the_capacity_goes_by_the_disk() -> None:
    house = house_with(capacity_messages="none", capacity_bytes=1000)
    publish(house, 1, 1, 5000)
    publish(house, 2, 3, 300)
    assert house.queues["q"].messages == 0
    assert house.drain("q") == numbered(1, 3)


def test_slow_disk_holds_producers_until_waiting_pages_are_written() -> None:
    house = house_with()
    charge = UNWRITTEN_BYTES // 4
    publish(house, 1, 4 + 6, charge)
    pages, producer = house.pages("q"), house.producers["q"]
    assert (pages.unwritten_bytes, len(producer.outbox)) == (UNWRITTEN_BYTES, 2)
    assert house.queues["q"].gate.open
    house.step()
    assert len(producer.outbox) == 2
    house.write()
    house.step()
    assert (len(producer.outbox), pages.messages) == (0, 6)
    assert house.drain("q") == numbered(1, 10)


def test_time_to_live_ends_on_the_disk_and_is_seen_at_the_head() -> None:
    house = settled(12, message_ttl=60_000)
    house.step(61.0)
    house.settle()
    for _ in range(20):
        expire(house.queues["q"], house.now, house.now)
        house.settle()
    assert house.queues["q"].depth_messages() == 0
    assert house.queues["q"].counters.expired == 12
    assert not house.shelf.rows


def test_expired_messages_that_wait_for_room_elsewhere_are_bounded() -> None:
    full: dict[str, object] = {"capacity-messages": 1, "hold-deadline": 0}
    dying: dict[str, object] = {**FEW, "message-ttl": 1000, "dead-letter-exchange": "", "dead-letter-routing-key": "d"}
    house = PagedHouse(Shelf(), {"q": (dying, True), "d": (full, True)})
    publish(house, 1, 40)
    house.settle()
    for _ in range(12):  # Letters are lost after half a minute.
        house.step(2.0)
        expire(house.queues["q"], house.now, house.now)
        house.settle()
        assert house.queues["q"].messages <= 4 + 4  # Letters that wait, and what died this moment.
    assert house.queues["d"].messages == 1
    assert house.queues["q"].depth_messages() == 39


# Limits


def test_page_limit_holds_publishes_until_there_is_room() -> None:
    house = house_with(page_limit_messages=6, messages=12)
    assert len(house.producers["q"].outbox) == 2
    house.settle()
    assert house.pages("q").messages == 6
    assert [house.get("q") is not None for _ in range(3)] == [True] * 3
    house.settle()
    assert not house.producers["q"].outbox
    assert house.drain("q") == numbered(4, 12)


@pytest.mark.parametrize("policy", ["reject", "drop-new"])
def test_page_full_policy_refuses_messages_beyond_the_page_limit(policy: str) -> None:
    house = house_with(page_limit_bytes=600, page_full_policy=policy, messages=8)
    house.write()
    assert sorted(told(house)) == [(1, 6, True), (7, 7, False), (8, 8, False)]
    assert house.queues["q"].counters.refused == 2
    assert house.drain("q") == numbered(1, 6)


def test_raised_page_limit_admits_waiting_publishes() -> None:
    house = PagedHouse(Shelf(), {"q": ({}, True)})
    house.set("q", overflow="page", capacity_messages=4, page_limit_messages=2)
    publish(house, 1, 9)
    assert len(house.producers["q"].outbox) == 3
    house.set("q", page_limit_messages=10)
    house.step()
    assert not house.producers["q"].outbox
    assert house.drain("q") == numbered(1, 9)


def test_message_that_fits_neither_memory_nor_page_limit_is_refused_at_once() -> None:
    house = house_with(capacity_messages="none", capacity_bytes=1000, page_limit_bytes=2000)
    publish(house, 1, 1, 3000)
    assert isinstance(house.producers["q"].closing, ContentTooLarge)


# Changes of policy


def test_queue_that_stops_paging_reads_back_first_without_overtaking() -> None:
    house = PagedHouse(Shelf(), {"q": ({"capacity-messages": 4}, True)})
    house.set("q", overflow="page")
    publish(house, 1, 10)
    house.set("q", overflow="drop-head")
    publish(house, 11, 12)
    assert len(house.producers["q"].outbox) == 2
    assert house.drain("q") == numbered(1, 12)
    publish(house, 13, 18)
    assert house.memory("q") == numbered(15, 18)


def test_queue_that_begins_to_page_admits_waiting_publishes() -> None:
    house = PagedHouse(Shelf(), {"q": ({"capacity-messages": 4}, True)})
    publish(house, 1, 9)
    assert len(house.producers["q"].outbox) == 5
    house.set("q", overflow="page")
    house.step()
    assert not house.producers["q"].outbox
    assert house.drain("q") == numbered(1, 9)


def test_full_sum_does_not_stop_a_paging_queue() -> None:
    house = PagedHouse(Shelf(), {"q": ({"capacity-messages": 10}, True), "other": ({}, True)})
    house.broker.gates.set_memory_capacity(in_bytes(3000, 2400, 2100), 0)
    for number in range(10):
        house.publish("other", b"%d" % number, 300)
    memory = house.broker.gates.memory
    assert not memory.gate.open
    publish(house, 1, 3)
    assert len(house.producers["q"].outbox) == 3
    house.set("q", overflow="page")
    house.step()
    assert not house.producers["q"].outbox
    publish(house, 4, 20)
    house.settle()
    assert house.queues["q"].depth_messages() == 20
    assert house.queues["q"].bytes <= 6 * 300, "one page is read back, whatever others hold: somebody may want it"
    assert house.drain("q") == numbered(1, 20)


# Purge, delete, cursors


def test_purge_drops_paged_messages_and_no_unacknowledged_messages() -> None:
    house = settled(12)
    for _ in range(5):
        assert house.get("q", no_ack=False) is not None
        house.settle()
    assert house.queues["q"].purge(house.now) == 7
    publish(house, 13, 20)
    house.settle()
    assert house.queues["q"].depth_messages() == 5 + 8
    house.session.unsettled.settle_tag(0, True, Outcome.FAILED, house.now)
    assert house.drain("q") == numbered(1, 5) + numbered(13, 20)
    assert not house.shelf.rows


@pytest.mark.parametrize("messages", [0, 3, 8])
def test_purge_is_answered_when_durable_with_or_without_pages(messages: int) -> None:
    house = settled(messages)
    before = house.broker.durable_changes.durable_declarations
    assert house.queues["q"].purge(house.now) == messages
    assert house.broker.durable_changes.durable_declarations > before
    assert house.journal.has_urgent()


def test_read_overtaken_by_a_purge_returns_no_messages() -> None:
    house = house_with(messages=12)
    house.write()
    for _ in range(4):
        house.get("q")
    house.ask()
    assert len(house.reads) == 1
    house.queues["q"].purge(house.now)
    publish(house, 13, 18)
    house.load()
    assert house.drain("q") == numbered(13, 18)
    assert not house.failed


def test_page_written_but_not_yet_reported_is_not_read() -> None:
    house = house_with(messages=6)
    house.write()
    for _ in range(4):
        assert house.get("q") is not None
    house.ask()
    publish(house, 7, 8)
    house.begin_write()
    house.load()
    assert house.memory("q") == numbered(5, 6)
    house.journal.written()
    assert house.memory("q") == numbered(5, 8)
    assert house.drain("q") == numbered(5, 8)


def test_queue_deletion_removes_all_pages_from_the_disk() -> None:
    house = settled(12, durable=False)
    queue = house.queues["q"]
    assert house.get("q", no_ack=False) is not None
    assert house.broker.delete_queue(queue) == 11
    house.settle()
    house.session.unsettled.acknowledge(0, True, house.now)
    house.settle()
    assert not house.shelf.rows


def test_cursor_reads_loaded_messages_and_settling_loads_more() -> None:
    house = settled(11)
    cursor = Cursor("/", "c")
    cursor.attach([house.queues["q"]], {"q": "earliest"}, house.now)
    found: list[bytes] = []
    start = 0
    while start < 11:
        end, _, _ = cursor.plan("q", start, 100, 1 << 20, 1 << 60)
        assert 0 < int(end) - start <= 4
        found += [message.content for message in cursor.read("q", start, end, 100, 1 << 20)]
        start = int(cursor.settle("q", end, house.now))
        house.settle()
    assert found == numbered(1, 11)
    assert not house.shelf.rows


def test_pages_that_a_lease_pins_stay_on_the_disk_until_the_lease_ends() -> None:
    house = house_with(messages=50)
    queue = house.queues["q"]
    lease = Cursor("/", "lease 1")
    lease.lease = LeaseState(1, "/", "guest", "con:1", 300.0)
    position = Position(queue, 10)
    position.planned = 30
    lease.positions["q"] = position
    queue.cursors.append(lease)
    pin(queue)
    cursor = Cursor("/", "c")
    cursor.attach([queue], {"q": "latest"}, house.now)
    house.settle()
    assert 20 <= queue.depth_messages() <= 48, "pages before the pinned range are dropped, those in it are not"
    assert free_through(queue, 10) == 10
    lease.delete(house.now)
    house.settle()
    assert (queue.depth_messages(), house.pages("q").messages) == (0, 0)


def test_cursor_that_begins_at_the_end_releases_paged_messages() -> None:
    house = settled(11)
    cursor = Cursor("/", "c")
    cursor.attach([house.queues["q"]], {"q": "latest"}, house.now)
    house.settle()
    assert house.queues["q"].depth_messages() == 0


@pytest.mark.parametrize("durable", [True, False])
def test_transient_message_waits_for_the_disk_only_if_paged(durable: bool) -> None:
    house = PagedHouse(Shelf(), {"q": (FEW, durable)})
    house.broker.gates.disk_fails("no room")
    for number in range(6):
        house.publish("q", b"%d" % number, persistent=False)
    queue, producer = house.queues["q"], house.producers["q"]
    assert (queue.messages, house.pages("q").messages, len(producer.outbox)) == (4, 0, 2)
    house.broker.gates.disk_works()
    house.step()
    assert (queue.depth_messages(), len(producer.outbox)) == (6, 0)
    house.settle()
    assert house.drain("q") == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("how", ["drain", "purge"])
def test_pages_count_as_stored_until_consumed_or_purged(how: str) -> None:
    shelf = Shelf()
    house = PagedHouse(shelf, {"q": (FEW, True)})
    stock = house.broker.gates.disk.vhost_usage("/")
    for number in range(20):
        house.publish("q", b"%d" % number)
    house.settle()
    assert stock.bytes() == 20 * 300
    again = PagedHouse(shelf, {"q": (FEW, True)})
    stock = again.broker.gates.disk.vhost_usage("/")
    again.settle()
    assert stock.bytes() == 20 * 300
    if how == "drain":
        assert len(again.drain("q")) == 20
    else:
        assert again.queues["q"].purge(again.now) == 20
    assert stock.bytes() == 0


def test_queue_with_priorities_cannot_page() -> None:
    with pytest.raises(
        PreconditionFailed, match="reads messages back in the order they came, and x-max-priority=3 asks"
    ):
        house_with(x_max_priority=3)
    house = PagedHouse(Shelf(), {"q": ({"x-max-priority": 3}, True)})
    with pytest.raises(PreconditionFailed, match="x-max-priority=3 asks for another"):
        at_once.set_settings(house.broker, "queue", "#", read_settings("queue", "#", {"overflow": "page"}))
    assert house.queues["q"].overflow.name == "block"


def test_page_policy_without_a_store_is_refused() -> None:
    house = PagedHouse(Shelf(), {})
    house.broker.journal = None
    with pytest.raises(PreconditionFailed, match="queue 'q': the overflow policy page needs a data directory"):
        house.vhost.declare_queue("q", dict(PAGE), True, False, None, None)
    assert "q" not in house.vhost.queues


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({**PAGE, "stop-messages": 5}, "stop-messages=5 would block producers before the overflow policy page"),
        ({**PAGE, "resume-percent": 5}, "resume-percent=5 would block producers"),
        ({"page-limit-bytes": 5}, "page-limit-bytes=5 needs the overflow policy page, not block"),
        ({"x-page-full-policy": "drop-new", "x-max-length": 5}, "needs the overflow policy page, not block"),
    ],
)
def test_settings_incompatible_with_paging_are_refused(arguments: dict[str, object], part: str) -> None:
    house = PagedHouse(Shelf(), {})
    with pytest.raises(PreconditionFailed) as caught:
        house.vhost.declare_queue("q", arguments, True, False, None, None)
    assert part in str(caught.value)


def test_paging_is_reported_once_at_the_start_and_once_at_the_end() -> None:
    house = house_with(capacity_messages=10)
    for _ in range(5):  # The memory is full, and a page comes and goes.
        publish(house, 1, 12)
        house.settle()
        for _ in range(12):
            house.get("q")
            house.settle()
        if house.queues["q"].depth_messages():
            house.drain("q")
    events = [effect for effect in house.broker.effects() if isinstance(effect, Paging)]
    assert [effect.started for effect in events] == [True, False] * 5
    publish(house, 1, 12)
    house.settle()
    for number in range(13, 60):
        house.get("q")
        house.settle()
        house.publish("q", b"%d" % number)
    effects = [cast(Paging, effect) for effect in house.broker.effects() if isinstance(effect, Paging)]
    assert [effect.started for effect in effects] == [True]


def test_oldest_message_on_the_disk_has_an_age_while_memory_is_empty() -> None:
    house = house_with(messages=4)
    queue = house.queues["q"]
    house.step(5.0)
    publish(house, 5, 12)
    house.settle()
    assert queue.oldest_age_s(house.now) == pytest.approx(house.now - 100.0)
    house.step(7.0)
    for _ in range(4):
        house.get("q")
    assert (int(queue.available()), house.pages("q").messages) == (0, 8), "no page was read yet"
    assert queue.oldest_age_s(house.now) == pytest.approx(house.now - 105.0)
    assert house.drain("q") == numbered(5, 12)
    assert queue.oldest_age_s(house.now) == -1.0


def test_age_of_a_paged_message_is_known_again_once_a_page_is_read() -> None:
    shelf = settled(messages=12).shelf
    house = house_with(shelf)
    for _ in range(4):
        house.get("q")
    assert house.queues["q"].oldest_age_s(house.now) == -1.0
    house.settle()
    house.step(3.0)
    assert house.queues["q"].oldest_age_s(house.now) == pytest.approx(house.now - 100.0)
