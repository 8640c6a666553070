"""Retention: what is settled with success is in the companion, once, and nothing else is."""

from __future__ import annotations

import pytest

from penstock.access.user import MAX_QUEUES
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.queue.pager import UNWRITTEN_BYTES
from penstock.core.queue.retention import (
    ALL_UNWRITTEN_BYTES,
    RETAINED_FROM,
    check_unused,
    companion_arguments,
    describe_setting,
    retention_into,
    retention_of,
)
from penstock.errors import PreconditionFailed, ResourceLocked
from penstock.ranges.cursors import Cursor
from tests.support import at_once
from tests.support.broker_fixture import House
from tests.support.memory_store import Shelf, some_large
from tests.support.paging_broker import PagedHouse
from tests.support.retaining_queue import RETAINING, Keeper


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


# Ways of leaving


def test_acknowledged_messages_are_retained_in_the_order_of_settlement() -> None:
    house = Keeper()
    house.put(1, 4)
    house.take(4)
    for tag in (3, 1):
        house.session.unsettled.acknowledge(tag, False, house.now)
    house.session.unsettled.acknowledge(0, True, house.now)
    assert house.retained() == [b"3", b"1", b"2", b"4"]
    assert (house.queue.depth_messages(), house.queue.depth_bytes()) == (0, 0)
    assert int(house.retention.retained) == 4


@pytest.mark.parametrize("persistent", [True, False])
def test_messages_without_acknowledgements_are_retained(persistent: bool) -> None:
    house = Keeper()
    house.put(1, 3, persistent=persistent)
    house.write()
    assert house.drain("q") == numbered(1, 3)
    assert house.retained() == numbered(1, 3)


def test_range_accepted_by_number_is_retained() -> None:
    house = Keeper()
    house.put(1, 5)
    house.take(5)
    house.session.unsettled.settle(2, 3, Outcome.ACCEPTED, house.now)
    house.session.unsettled.settle(5, 5, Outcome.ACCEPTED, house.now)
    house.session.unsettled.settle(1, 1, Outcome.ACCEPTED, house.now)
    assert house.retained() == [b"2", b"3", b"5", b"1"]


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.ACCEPTED])
def test_outcome_without_success_retains_nothing(outcome: Outcome) -> None:
    house = Keeper()
    house.put(1, 3)
    house.take(3)
    house.settle_all(outcome)
    assert house.retained() == []


def test_purged_expired_and_dropped_messages_are_not_retained() -> None:
    house = Keeper(x_message_ttl=1000, x_max_length=3)
    house.put(1, 5)
    assert house.queue.counters.dropped == 2
    assert house.vhost.purge_queue(house.queue, house.now) == 3
    house.put(6, 8)
    house.broker.watch_lifetime(house.queue)
    for _ in range(3):
        house.step(2.0)
    assert house.queue.counters.expired == 3
    assert house.retained() == []


def test_bulk_acknowledgement_is_retained_whole_in_later_turns() -> None:
    house = Keeper(capacity_messages=20_000)
    house.put(1, 6000, 260)
    consumer = Consumer("c", house.session, house.queue, False, False, 0)
    house.broker.consume(house.session, consumer)
    while house.broker.next_batch() is not None:
        pass
    house.session.unsettled.acknowledge(0, True, house.now)
    assert house.retained() == numbered(1, 6000)


def test_messages_that_all_cursors_settled_are_retained() -> None:
    house = Keeper()
    house.put(1, 6)
    first, last = attached(house, "first"), attached(house, "last")
    for cursor in (first, last):
        cursor.plan("q", 0, 100, 1 << 20, 1 << 60)
    first.settle("q", 5, house.now)
    assert house.retained() == []
    last.settle("q", 4, house.now)
    assert house.retained() == numbered(1, 4)


@pytest.mark.parametrize("end", [5, 11])
def test_pages_that_cursors_settled_unread_are_read_back_and_retained(end: int) -> None:
    house = Keeper(x_overflow="page", capacity_messages=4)
    house.put(1, 11)
    house.settle()
    cursor = attached(house, "c")
    cursor.settle("q", end, house.now)
    assert house.retained() == numbered(1, end)
    assert house.queue.depth_messages() == 11 - end


def attached(house: Keeper, name: str) -> Cursor:
    cursor = Cursor("/", name)
    cursor.attach([house.queue], {"q": "earliest"}, house.now)
    return cursor


def test_large_message_shares_its_pieces_with_the_companion() -> None:
    house = Keeper()
    house.broker.large.stores = True
    content = some_large(house.broker, b"large", 3)
    house.publish("q", content, 700_000)
    del content
    house.settle()
    pieces = dict(house.shelf.pieces)
    assert len(pieces) == 3
    assert house.get("q") is not None
    house.settle()
    assert house.shelf.pieces == pieces, "nothing is copied, and nothing is deleted"
    house = Keeper(house.shelf)
    house.settle()
    assert house.shelf.pieces == pieces
    house.step(8 * 86_400.0)
    house.settle()
    assert house.shelf.pieces == {}, "the last reference was that of the companion"


# The store


@pytest.mark.parametrize("written", [False, True])
def test_crash_leaves_a_message_in_the_queue_or_in_the_companion(written: bool) -> None:
    house = Keeper()
    house.put(1, 4)
    house.write()
    house.take(4)
    house.session.unsettled.acknowledge(2, True, house.now)
    if written:
        house.begin_write()
    house = Keeper(house.shelf)
    assert house.retained() == (numbered(1, 2) if written else [])
    assert house.drain("q") == (numbered(3, 4) if written else numbered(1, 4))


def test_message_settled_before_its_first_write_is_retained_by_that_write() -> None:
    house = Keeper()
    house.put(1, 2)
    house.get("q")
    house.begin_write()
    house = Keeper(house.shelf)
    assert house.retained() == [b"1"]
    assert house.drain("q") == [b"2"]


def test_retention_goes_on_after_a_restart() -> None:
    house = Keeper()
    house.put(1, 4)
    house.take(4)
    house.session.unsettled.acknowledge(2, True, house.now)
    house.settle()
    house = Keeper(house.shelf)
    assert retention_into(house.companion) is house.retention
    assert house.drain("q") == numbered(3, 4)
    assert house.retained() == numbered(1, 4)
    assert int(house.companion.tail) == 4, "offsets go on"


def test_time_of_a_retained_message_is_that_of_its_settlement() -> None:
    house = Keeper()
    house.put(1, 1)
    house.step(50.0)
    house.get("q")
    house.settle()
    assert house.log.segments.line[0].oldest == pytest.approx(150.0, abs=1.0)


# Life


def test_limits_of_the_companion_follow_the_settings() -> None:
    house = Keeper(x_retain_bytes=1_000_000)
    settings = house.companion.settings
    assert (settings.max_age_s, settings.log_bytes) == (7 * 86_400.0, 1_000_000)
    house = Keeper(arguments={})
    house.set("q", retain_bytes="2MB")
    assert house.companion.settings.log_bytes == 2_000_000
    house.set("q", retain_bytes="3MB")
    assert house.companion.settings.log_bytes == 3_000_000
    assert house.companion.arguments["x-max-length-bytes"] == 3_000_000


def test_pattern_of_queue_and_companion_changes_the_limits_of_the_companion() -> None:
    house = Keeper(arguments={})
    house.set("#", retain_bytes="2MB")
    house.set("#", retain_bytes="4MB")
    assert house.companion.settings.log_bytes == 4_000_000
    assert "q.retained.retained" not in house.vhost.queues, "a stream retains by itself"
    assert "plain.retained" in house.vhost.queues


def test_smaller_limit_trims_the_companion() -> None:
    house = Keeper(arguments={})
    house.set("q", retain_bytes="100MB")
    for first in range(1, 100, 10):
        house.put(first, first + 9, 100_000)
        house.drain("q")
        house.settle()
    assert int(house.log.messages) == 100
    house.set("q", retain_bytes="1MB")
    house.settle()
    house.put(101, 101)
    house.drain("q")
    house.settle()
    assert 0 < int(house.log.retained_bytes()) < 100 * 100_000


def test_unset_setting_leaves_the_companion_as_it_is() -> None:
    house = Keeper(arguments={})
    house.set("q", retain_time="1D")
    house.put(1, 2)
    house.drain("q")
    house.set("q", retain_time="none")
    house.put(3, 4)
    house.drain("q")
    assert house.queue.retention is None
    assert house.retained() == numbered(1, 2)
    house.set("q", retain_time="2D")
    house.put(5, 5)
    house.drain("q")
    assert house.retained() == [b"1", b"2", b"5"]


def test_deleted_queue_leaves_its_companion_to_the_next_queue_of_its_name() -> None:
    house = Keeper()
    house.put(1, 2)
    house.take(2)
    house.broker.delete_queue(house.queue)
    house.session.unsettled.acknowledge(0, True, house.now)
    assert retention_into(house.companion) is None
    house.queues["q"] = house.vhost.declare_queue("q", RETAINING, True, False, None, None)
    house.put(3, 3)
    house.drain("q")
    assert house.retained() == [b"3"], "what is acknowledged after the deletion is not retained"


def test_companion_is_not_deleted_before_its_queue() -> None:
    house = Keeper()
    with pytest.raises(ResourceLocked) as refused:
        check_unused(house.companion)
    assert str(refused.value) == (
        "queue 'q.retained' in vhost '/' retains what queue 'q' has settled, by retain-time=604800s; unset it, or "
        "delete queue 'q', before"
    )
    check_unused(house.queue)
    house.broker.delete_queue(house.queue)
    check_unused(house.companion)


def test_companion_deleted_by_force_ends_the_retention() -> None:
    house = Keeper()
    house.broker.delete_queue(house.companion)
    assert house.queue.retention is None
    house.put(1, 1)
    assert house.drain("q") == [b"1"]


def test_companion_declared_before_its_queue_is_adopted() -> None:
    house = Keeper(arguments={})
    arguments = {"x-queue-type": "stream", "x-max-age": "1D", RETAINED_FROM: "new"}
    stream = house.vhost.declare_queue("new.retained", arguments, True, False, None, None)
    queue = house.vhost.declare_queue("new", RETAINING, True, False, None, None)
    retention = retention_of(queue)
    assert retention is not None
    assert retention.stream is stream
    assert stream.settings.max_age_s == 7 * 86_400.0
    assert house.vhost.declare_queue("new.retained", arguments, True, False, None, None) is stream


# Refusals


@pytest.mark.parametrize(
    ("durable", "auto_delete", "owner", "word"),
    [(False, False, None, "non-durable"), (True, True, None, "auto-delete"), (True, False, object(), "exclusive")],
)
def test_argument_of_a_queue_that_does_not_last_is_refused(
    durable: bool, auto_delete: bool, owner: object, word: str
) -> None:
    house = Keeper(arguments={})
    with pytest.raises(PreconditionFailed) as refused:
        house.vhost.declare_queue("t", RETAINING, durable, auto_delete, owner, owner)
    assert str(refused.value) == (
        f"queue 't': x-retain-time=7D is for durable queues that last, and this one is {word}; leave it out"
    )
    house.set("t", retain_time="1D")
    queue = house.vhost.declare_queue("t", {}, durable, auto_delete, owner, owner)
    assert queue.retention is None, "a pattern has no effect there"
    assert "t.retained" not in house.vhost.queues


def test_stream_refuses_the_argument() -> None:
    house = Keeper(arguments={})
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-retain-time' for a queue of type stream"):
        house.vhost.declare_queue("s", {"x-queue-type": "stream", **RETAINING}, True, False, None, None)


def test_broker_without_a_store_refuses_retention() -> None:
    house = House()
    with pytest.raises(PreconditionFailed) as refused:
        house.vhost.declare_queue("q", RETAINING, True, False, None, None)
    assert str(refused.value) == (
        "queue 'q': retain-time=604800s needs a data directory, and this broker keeps everything in memory; start it "
        "with --data"
    )
    with pytest.raises(PreconditionFailed, match="queue '#': retain-bytes=1MB needs a data directory"):
        at_once.set_named(house.broker, "queue", "#", retain_bytes="1MB")


def test_name_of_another_queue_refuses_retention() -> None:
    house = Keeper(arguments={})
    house.vhost.declare_queue("plain.retained", {}, True, False, None, None)
    sentence = (
        "queue 'plain': retain-time=86400s retains settled messages in a stream 'plain.retained', and vhost '/' has "
        "another queue of this name; delete it, or unset the setting"
    )
    with pytest.raises(PreconditionFailed) as refused:
        house.set("plain", retain_time="1D")
    assert str(refused.value) == sentence
    assert not house.queues["plain"].settings.retains
    house.vhost.declare_queue("x.retained", {"x-queue-type": "stream"}, True, False, None, None)
    with pytest.raises(PreconditionFailed, match="another queue of this name"):
        house.vhost.declare_queue("x", RETAINING, True, False, None, None)
    assert "x" not in house.vhost.queues


@pytest.mark.parametrize("limit", [3, 4])
def test_full_virtual_host_refuses_a_queue_without_room_for_its_companion(limit: int) -> None:
    house = Keeper(arguments={})
    house.broker.access.set_vhost_limits("/", {MAX_QUEUES: limit})
    if limit == 4:
        house.vhost.declare_queue("new", RETAINING, True, False, None, None)
        return
    with pytest.raises(PreconditionFailed, match=r"cannot declare queue 'new\.retained': queue limit in vhost"):
        house.vhost.declare_queue("new", RETAINING, True, False, None, None)
    assert sorted(house.vhost.queues) == ["plain", "q"]
    with pytest.raises(PreconditionFailed, match="queue limit in vhost"):
        house.set("#", retain_time="1D")  # Two companions, and room for one.
    assert sorted(house.vhost.queues) == ["plain", "q"]


def test_name_too_long_for_a_companion_is_refused() -> None:
    house = Keeper(arguments={})
    with pytest.raises(PreconditionFailed, match="queue name"):
        house.vhost.declare_queue("n" * 250, RETAINING, True, False, None, None)


@pytest.mark.parametrize(
    ("given", "arguments", "clause"),
    [
        ({"retain_time": "90m"}, {"x-max-age": "5400s"}, "retain-time=5400s"),
        ({"retain_bytes": "10GB"}, {"x-max-length-bytes": 10_000_000_000}, "retain-bytes=10,000,000,000"),
        (
            {"retain_time": 1500, "retain_bytes": 7},
            {"x-max-age": "1.5s", "x-max-length-bytes": 7},
            "retain-time=1.5s and retain-bytes=7",
        ),
    ],
)
def test_arguments_of_a_companion_are_readable(
    given: dict[str, object], arguments: dict[str, object], clause: str
) -> None:
    house = Keeper(arguments={})
    house.set("q", **{name: f"{value}ms" if name == "retain_time" and value == 1500 else value
                      for name, value in given.items()})  # fmt: skip
    settings = house.queue.settings
    assert companion_arguments("q", settings) == {"x-queue-type": "stream", RETAINED_FROM: "q", **arguments}
    assert describe_setting(settings) == clause
    assert house.companion.settings.max_age_s == settings.retain_time_s
    assert house.companion.settings.log_bytes == settings.retain_bytes


# Brakes


def test_deliveries_wait_while_too_much_is_unwritten() -> None:
    house = Keeper()
    house.put(1, 12, UNWRITTEN_BYTES // 4)
    house.write()
    session = Session()
    house.broker.consume(session, Consumer("c", session, house.queue, True, False, 0))
    sent = 0
    for _ in range(20):
        batch = house.broker.next_batch()
        sent += 0 if batch is None else int(batch.left)
    assert sent == 5, "four are within the bound, and one passes it"
    assert house.retention.is_behind()
    assert house.queue.ready_messages() == 7
    house.write()
    assert not house.retention.is_behind()
    batch = house.broker.next_batch()
    assert batch is not None


def test_store_that_fails_ends_the_wait_of_deliveries() -> None:
    house = Keeper()
    house.put(1, 12, UNWRITTEN_BYTES // 4)
    house.write()
    for _ in range(5):
        assert house.get("q") is not None
    assert house.retention.is_behind()
    house.broker.gates.disk.fails("no space", house.now)
    assert not house.retention.is_behind()
    for _ in range(7):
        assert house.get("q") is not None
    assert not house.retention.is_behind()
    house.broker.gates.disk.works(house.now)
    assert house.retained() == numbered(1, 5)
    assert (int(house.retention.retained), int(house.retention.left_out)) == (5, 7)


def test_gap_is_reported_when_it_begins_and_when_it_ends() -> None:
    house = Keeper()
    house.put(1, 9, UNWRITTEN_BYTES // 2)
    house.write()
    house.broker.gates.disk.fails("no space", house.now)
    house.drain_now(4)
    assert [(ended, count) for ended, count, _ in house.gaps()] == [(False, 2)], "two are within the bound"
    house.broker.gates.disk.works(house.now)
    house.write()
    house.drain_now(1)
    assert house.gaps() == [(True, 2, UNWRITTEN_BYTES)]


def test_closed_quota_lets_the_companion_drop_its_oldest_segments() -> None:
    house = Keeper(x_retain_bytes=1_000_000_000)
    house.put(1, 20, 100_000)
    house.write()
    house.drain_now(20)
    house.settle()
    house.put(21, 24, 100_000)
    house.write()
    house.quota(2_000_000, 1_800_000)
    assert not house.log.storage.vhost_usage.all_open
    house.drain_now(4)
    house.settle()
    found = house.retained()
    assert found[-4:] == numbered(21, 24) or found == []
    assert house.log.storage.vhost_usage.all_open, "what consumers settle opens the gate"
    assert house.queue.depth_messages() == 0


def test_closed_quota_without_segments_to_drop_retains_nothing() -> None:
    house = Keeper()
    house.put(1, 4, 100_000)
    house.write()
    house.quota(300_000, 100_000)
    house.drain_now(4)
    assert int(house.retention.left_out) == 3, "the fourth finds the gate open"
    assert house.retained() == [b"4"]
    assert [ended for ended, _, _ in house.gaps()] == [False, True]


def test_cursors_wait_while_too_much_is_unwritten() -> None:
    house = Keeper()
    house.put(1, 12, UNWRITTEN_BYTES // 4)
    house.write()
    cursor = attached(house, "c")
    cursor.settle("q", 6, house.now)
    assert house.retention.is_behind()
    cursor.settle("q", 12, house.now)
    assert house.queue.depth_messages() == 6, "they stay in the queue until what was settled before is written"
    assert house.retained() == numbered(1, 12)
    assert house.queue.depth_messages() == 0


def test_setting_removed_while_deliveries_wait_lets_them_go_on() -> None:
    house = Keeper(arguments={})
    house.set("q", retain_time="1D")
    house.put(1, 12, UNWRITTEN_BYTES // 4)
    for _ in range(6):
        assert house.get("q") is not None
    assert house.queue.reserved.holds_deliveries()
    house.set("q", retain_time="none")
    assert not house.queue.reserved.holds_deliveries()
    assert house.journal.behind == []
    house.write()


def test_unwritten_bytes_of_all_companions_have_a_bound() -> None:
    names = [f"q{number}" for number in range(20)]
    house = PagedHouse(Shelf(), dict.fromkeys(names, (RETAINING, True)))
    for name in names:
        house.publish(name, b"x", UNWRITTEN_BYTES)
        house.publish(name, b"y", 300)
    house.write()
    for name in names:
        assert house.get(name) is not None
    paused = [name for name in names if house.queues[name].reserved.is_paused()]
    assert paused == names[ALL_UNWRITTEN_BYTES // UNWRITTEN_BYTES :]
    assert house.journal.retained == 20 * UNWRITTEN_BYTES
    house.write()
    assert not any(house.queues[name].reserved.is_paused() for name in names)
    assert (house.journal.retained, house.journal.behind) == (0, [])


@pytest.mark.parametrize("companion", [False, True])
def test_queue_deleted_while_deliveries_wait_leaves_nothing_behind(companion: bool) -> None:
    house = Keeper()
    house.put(1, 12, UNWRITTEN_BYTES // 4)
    house.write()
    house.broker.consume(house.session, Consumer("c", house.session, house.queue, True, False, 0))
    while house.broker.next_batch() is not None:
        pass
    assert house.retention.is_behind()
    log = house.log
    house.broker.delete_queue(house.companion if companion else house.queue)
    assert (house.journal.retained, house.journal.behind, log.owner) == (0, [], None)
    if companion:
        sent = 0
        while (batch := house.broker.next_batch()) is not None:
            sent += int(batch.left)
        assert sent == 7, "deliveries go on, and nothing is retained"
    house.settle()
