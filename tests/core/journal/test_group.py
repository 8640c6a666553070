"""Journal groups and their rows: no row is held for long for the little that is left in it."""

from __future__ import annotations

from penstock.core.consume.outcome import Outcome
from penstock.core.journal.group import PageWrite
from penstock.core.journal.journal import PATIENCE, SETTLEMENT_RECORDS_MAX
from penstock.core.queue.queue import Queue
from tests.persistence.test_recovery import House
from tests.support.memory_store import Shelf
from tests.support.paging_broker import house_with


class Written:
    """A broker whose journal is written after every step."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.house = House(self.shelf)
        self.plain: Queue = self.house.queues["plain"]
        self.route = self.house.route("", "plain", 0, True)
        self.other = self.house.route("", "dead", 0, True)

    def publish(self, *contents: bytes) -> None:
        for content in contents:
            self.house.producer.publish(self.route, content, 300)
        self.write()

    def take(self, count: int) -> None:
        for _ in range(count):
            assert self.house.session.get(self.plain, True, 100.0) is not None
        self.write()

    def pass_on(self) -> None:
        """Something else comes and goes."""
        self.house.producer.publish(self.other, b"other", 300)
        self.write()
        assert self.house.session.get(self.house.queues["dead"], True, 100.0) is not None
        self.write()

    def write(self) -> None:
        self.shelf.write(self.house.journal)

    def recovered(self) -> list[bytes]:
        return [message.content for message in House(self.shelf).queues["plain"].ready_queue.messages()]


def test_what_is_left_of_a_sparse_row_moves_into_a_new_one() -> None:
    broker = Written()
    broker.publish(*[b"%d" % number for number in range(100)])
    broker.take(80)
    first = min(broker.shelf.rows)
    for _ in range(PATIENCE):
        broker.pass_on()
    assert first not in broker.shelf.rows
    assert len(broker.shelf.rows) == 1
    assert not broker.shelf.notes
    assert broker.recovered() == [b"%d" % number for number in range(80, 100)]
    broker.take(20)
    assert not broker.shelf.rows


def test_a_row_of_which_more_is_left_stays() -> None:
    broker = Written()
    broker.publish(*[b"%d" % number for number in range(100)])
    broker.take(70)
    first = min(broker.shelf.rows)
    for _ in range(2 * PATIENCE):
        broker.pass_on()
    assert first in broker.shelf.rows
    assert broker.recovered() == [b"%d" % number for number in range(70, 100)]


def test_what_is_consumed_in_order_is_never_written_twice() -> None:
    broker = Written()
    for batch in range(50):
        broker.publish(*[b"%d" % (batch * 10 + number) for number in range(10)])
    rows = set(broker.shelf.rows)
    for _ in range(50):
        broker.take(10)
        assert set(broker.shelf.rows) <= rows
    assert not broker.shelf.rows


def test_a_message_that_comes_back_again_and_again_does_not_pile_up_notes() -> None:
    broker = Written()
    broker.publish(b"poison", b"other")
    for _ in range(4 * (SETTLEMENT_RECORDS_MAX + PATIENCE)):
        batch = broker.house.session.get(broker.plain, False, 100.0)
        broker.house.session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, 100.0)
        broker.write()
        assert len(broker.shelf.notes) <= SETTLEMENT_RECORDS_MAX + PATIENCE + 2
    assert sorted(broker.recovered()) == [b"other", b"poison"]


def test_page_write_ends_behind_its_last_message() -> None:
    house = house_with()
    pages = house.pages("q")
    write = PageWrite(pages, pages.storage, 7, 5)
    assert write.end() == 5
    write.group.messages = [None, None]
    assert write.end() == 7
    assert (write.persistent_messages, write.purged) == (0, False)
