"""The journal while the store cannot be written: bounded, and complete when the store works again.

Also: replies that wait for the removal of purged messages, and series of groups, which are written in one transaction.
"""

from __future__ import annotations

from collections import deque

import pytest

from penstock.connections.callbacks import DurableCallback
from penstock.core.consume.outcome import Outcome
from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import CHANGES_MAX, GATHERED_MANY, TAKEN_BYTES, Journal, Removal, Series
from penstock.core.journal.write_shares import WriteListener, WriteShare
from penstock.errors import ResourceError
from tests.support.durable_broker import Kept
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse
from tests.support.restored_broker import journaled

DURABLE: dict[str, tuple[dict[str, object], bool]] = {"q": ({}, True), "letters": ({}, True)}
MANY = GATHERED_MANY + 5_000


def house_with(messages: int, each: int, **queues: tuple[dict[str, object], bool]) -> PagedHouse:
    """Return a broker with messages in rows of so many each, and a disk that fails from now on."""
    house = PagedHouse(Shelf(), {**DURABLE, **queues})
    for number in range(messages):
        house.publish("q", b"%d" % number)
        if (number + 1) % each == 0:
            house.write()
    house.write()
    house.broker.gates.disk_fails("no room")
    return house


def works_again(house: PagedHouse) -> None:
    house.broker.gates.disk_works()
    house.write()


def gathered(house: PagedHouse) -> int:
    house.step()
    return int(house.journal.open.pending_records())


def settle_two(house: PagedHouse) -> None:
    """Consume two messages, the second one first: those that are settled in their order are remembered as one."""
    batches = [house.session.get(house.queues["q"], False, house.now) for _ in range(2)]
    for batch in reversed(batches):
        house.session.unsettled.acknowledge(batch.first, False, house.now)


@pytest.mark.once
def test_settlements_are_remembered_only_for_rows_with_messages_left() -> None:
    house = house_with(MANY, 100)
    for number in range(0, MANY - 50, 2):
        settle_two(house)
        if number % 1000 == 0:
            assert gathered(house) <= GATHERED_MANY
    assert gathered(house) < 7_000, "since it was looked last"
    works_again(house)
    assert int(PagedHouse(house.shelf, DURABLE).queues["q"].messages) == 50


@pytest.mark.once
def test_settlements_of_rows_with_messages_left_are_bounded_by_the_messages() -> None:
    house = house_with(MANY, 100)
    kept = 0
    for number in range(0, MANY, 2):
        if number % 100 == 0:
            assert house.session.get(house.queues["q"], False, house.now) is not None
            assert house.session.get(house.queues["q"], False, house.now) is not None
            kept += 2
        else:
            settle_two(house)
    assert gathered(house) == MANY - kept
    works_again(house)
    again = PagedHouse(house.shelf, DURABLE)
    assert int(again.queues["q"].messages) == kept


def test_settlements_in_order_are_remembered_as_a_single_settlement() -> None:
    house = house_with(200, 100)
    for _ in range(150):
        assert house.get("q") is not None
    assert gathered(house) == 2, "one for each row"
    works_again(house)
    assert int(PagedHouse(house.shelf, DURABLE).queues["q"].messages) == 50


def test_message_requeued_and_then_taken_is_not_held() -> None:
    house = house_with(200, 100)
    for _ in range(100):
        batch = house.session.get(house.queues["q"], False, house.now)
        house.session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, house.now)
        assert house.get("q") is not None
    house.step()
    open_group = house.journal.open
    assert open_group.messages == []
    assert all(type(code) is int for code in open_group.returned)
    works_again(house)
    assert int(PagedHouse(house.shelf, DURABLE).queues["q"].messages) == 100


@pytest.mark.once
def test_letters_that_go_round_and_round_leave_no_places_behind() -> None:
    """A rejected message goes to the other queue, and from there back: it moves though nothing can be written."""
    around: dict[str, tuple[dict[str, object], bool]] = {
        "one": ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"}, True),
        "other": ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "one"}, True),
    }
    house = PagedHouse(Shelf(), around)
    for number in range(3):
        house.publish("one", b"%d" % number)
    house.write()
    house.broker.gates.disk_fails("no room")
    rounds = GATHERED_MANY * 3 // 4
    for at in range(rounds):
        for name in ("one", "other"):
            batch = house.session.get(house.queues[name], False, house.now)
            house.session.unsettled.settle_tag(batch.first, False, Outcome.REJECTED, house.now)
            house.step()
        if at % 1000 == 0:
            assert gathered(house) <= GATHERED_MANY
    house.step()
    assert len(house.journal.open.messages) < GATHERED_MANY
    works_again(house)
    again = PagedHouse(house.shelf, around)
    assert sum(int(queue.messages) for queue in again.queues.values()) == 3


def test_more_declarations_than_the_bound_are_refused_until_the_store_can_be_written() -> None:
    house = house_with(0, 1)
    vhost = house.vhost
    queue = house.queues["q"]
    for number in range(CHANGES_MAX):
        vhost.bind("amq.direct", queue, None, f"{number}", {})
    vhost.bind("amq.direct", queue, None, "7", {})  # It is there.
    vhost.declare_queue("passing", {}, False, False, None, None)
    said = (
        f"{CHANGES_MAX:,} changes wait for a store that cannot be written; the limit is {CHANGES_MAX:,}. "
        "Try again when the store works: no room"
    )
    for refused in (
        lambda: vhost.bind("amq.direct", queue, None, "one more", {}),
        lambda: vhost.declare_queue("more", {}, True, False, None, None),
        lambda: vhost.declare_exchange("more", "direct", {}, True, False, False),
        lambda: house.set("q", capacity_messages=7),
        lambda: house.broker.gates.block("queue", "/", "q", "for a while"),
    ):
        with pytest.raises(ResourceError) as raised:
            refused()
        assert str(raised.value) == said
    assert "more" not in vhost.queues
    assert "more" not in vhost.exchanges
    assert vhost.bindings.count == CHANGES_MAX
    vhost.unbind("amq.direct", queue, None, "7", {})
    works_again(house)
    vhost.bind("amq.direct", queue, None, "one more", {})
    house.write()
    assert sum(kind == "binding" for kind, _ in house.shelf.things) == CHANGES_MAX


def test_last_state_of_an_object_that_changes_repeatedly_waits() -> None:
    house = house_with(0, 1)
    for number in range(MANY):
        house.journal.change(house.queues["q"])
        if number % 100 == 0:
            house.step()
    assert gathered(house) < GATHERED_MANY
    assert ("queue", "%2F/q") in house.shelf.things
    house.journal.forget(house.queues["q"])
    works_again(house)
    assert ("queue", "%2F/q") not in house.shelf.things


def test_settlement_of_a_group_holds_though_a_later_group_empties_the_row() -> None:
    """The later one is not written with it, and the broker dies in between."""
    large = TAKEN_BYTES * 2 // 3
    house = PagedHouse(Shelf(), DURABLE)
    for number in range(3):
        house.publish("q", b"%d" % number)
    house.write()
    assert house.get("q") is not None
    for number in range(2):
        house.publish("letters", b"%d" % number, large)
    house.step()
    for number in range(2):
        assert house.get("q") is not None
        house.publish("letters", b"%d" % number, large)
    assert sum(len(group.messages) for group in house.begin_write()) == 2
    again = PagedHouse(house.shelf, DURABLE)
    assert [int(again.queues[name].messages) for name in ("q", "letters")] == [2, 2]
    house.journal.written()
    house.write()
    again = PagedHouse(house.shelf, DURABLE)
    assert [int(again.queues[name].messages) for name in ("q", "letters")] == [0, 4]


class Reply:
    """A reply to a durable change."""

    def __init__(self) -> None:
        self.durable = False
        self.listener = DurableCallback(self.on_durable)

    def on_durable(self) -> None:
        self.durable = True


def changes(kept: Kept) -> int:
    return int(kept.broker.durable_changes.durable_declarations)


def purge(kept: Kept) -> Removal:
    """Begin a removal, as a large purge does."""
    kept.journal.require_flush()
    return kept.journal.removals.begin()


def wait(kept: Kept, before: int) -> Reply:
    reply = Reply()
    kept.journal.wait_for_change(reply.listener, before)
    return reply


def test_reply_waits_for_the_removal_of_the_own_change() -> None:
    kept = Kept()
    before = changes(kept)
    removal = purge(kept)
    reply = wait(kept, before)
    assert kept.journal.removals.is_awaited_by(reply.listener)
    kept.write()
    assert not reply.durable
    kept.journal.finish_removal(removal)
    assert not reply.durable, "its end must be written first"
    kept.write()
    assert reply.durable


def test_reply_does_not_wait_for_the_removal_of_an_earlier_change() -> None:
    kept = Kept()
    removal = purge(kept)
    before = changes(kept)
    kept.journal.require_flush()
    reply = wait(kept, before)
    kept.write()
    assert reply.durable
    assert kept.journal.removals.pending()
    kept.journal.finish_removal(removal)


def test_replies_to_the_same_change_wait_for_the_same_removal() -> None:
    kept = Kept()
    before = changes(kept)
    removal = purge(kept)
    replies = [wait(kept, before), wait(kept, before)]
    assert removal.listeners == [each.listener for each in replies]
    kept.journal.cancel_wait(replies[0].listener)
    assert removal.listeners == [replies[1].listener]


class Waiting(WriteListener):
    """A waiter for a share that counts how often it was told to go on."""

    def __init__(self) -> None:
        self.went_on = 0

    def on_taken(self) -> None:
        self.went_on += 1


@pytest.mark.parametrize("fails", [False, True], ids=["disk works", "disk fails"])
@pytest.mark.parametrize("waits", [False, True], ids=["new", "waits already"])
@pytest.mark.parametrize("over", [False, True], ids=["within its share", "over its share"])
def test_share_waits_once_if_used_up_while_the_disk_works(over: bool, waits: bool, fails: bool) -> None:
    kept = Kept()
    journal, share = kept.journal, WriteShare("alice")
    while over and not journal.shares.is_over(share):
        journal.shares.count(share, 4096, 1)
    if waits:
        journal.shares.wait(share, Waiting())
    if fails:
        kept.broker.gates.disk_fails("no room")
    before = share.listener
    assert journal.must_wait(share) is (over and before is None and not fails)
    waiter = Waiting()
    journal.wait_if_over(share, waiter)
    assert share.listener is (waiter if over and not waits and not fails else before)


def make_journal() -> Journal:
    journal = journaled().broker.journal
    assert journal is not None
    written(journal)
    return journal


def written(journal: Journal) -> list[int]:
    """Take what may be written, and report it as written; returns the numbers of the groups."""
    numbers = [int(group.number) for group in journal.take()]
    journal.written()
    return numbers


def close(journal: Journal, size: int = TAKEN_BYTES) -> int:
    """Record something that closes the open group in the next step; returns its number."""
    number = int(journal.open.number)
    journal.open.bytes += size
    journal.require_flush()
    journal.step()
    return number


def test_groups_of_a_series_are_written_in_a_single_transaction_after_earlier_groups() -> None:
    journal = make_journal()
    before = close(journal)
    assert journal.begin_series()
    first, second = close(journal), close(journal)
    assert journal.has_urgent()
    assert written(journal) == [before]
    assert not journal.has_urgent()
    assert written(journal) == []
    third = int(journal.open.number)
    journal.open.listeners.append(DurableCallback(lambda: None))
    journal.series.end(journal.open)
    assert journal.has_urgent()
    assert written(journal) == [first, second, third]


def test_new_series_begins_in_a_group_that_the_last_series_has_left() -> None:
    journal = make_journal()
    assert journal.begin_series()
    first = close(journal)
    journal.open.listeners.append(DurableCallback(lambda: None))
    journal.series.end(journal.open)
    last = int(journal.open.number)
    assert not journal.begin_series()
    journal.step()
    assert journal.open.number > last
    assert journal.begin_series()
    assert written(journal) == [first, last]


def test_series_may_end_in_an_empty_group() -> None:
    closed: deque[JournalGroup] = deque()
    series = Series(closed)
    assert series.begin(JournalGroup(1))
    group = JournalGroup(1)
    group.tied = True
    closed.append(group)
    series.end(JournalGroup(2))
    assert not group.tied
    assert not series.has_open_end()
