"""Browsers: copies from the oldest message to the newest, in memory and on the disk."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.consumer import UNMATCHED, Consumer
from penstock.core.consume.scan import BrowserScan, MessageFilter
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.errors import AccessRefused, ResourceLocked
from penstock.flow.credit import LinkCredit
from penstock.ranges.cursors import Cursor
from tests.profiles import examples
from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PagedHouse
from tests.support.selecting_bench import SelectingBench, content


def test_browser_gets_copies_and_the_queue_does_not_change() -> None:
    bench = SelectingBench("red", "blue", "red")
    browser = bench.attach("b", browses=True)
    bench.deliver()
    assert bench.got["b"] == [1, 2, 3]
    assert (bench.queue.messages, bench.queue.unacked_messages, bench.ready()) == (3, 0, [1, 2, 3])
    assert bench.sessions["b"].unsettled.is_empty()
    assert browser.state == UNMATCHED
    assert browser.obstacles(1.0) == ["has seen all messages, and waits for new ones"]
    bench.accept("b")
    bench.release("b")
    assert (bench.queue.messages, bench.ready()) == (3, [1, 2, 3])
    bench.put("red")
    bench.deliver()
    assert bench.got["b"] == [1, 2, 3, 4]
    assert bench.deliver() == 0


def test_browser_with_a_selector_gets_matching_messages() -> None:
    bench = SelectingBench(*["green", "red"] * 500)
    bench.attach("b", "color = 'red'", browses=True)
    bench.deliver()
    assert bench.got["b"] == list(range(2, 1001, 2))
    assert bench.filters["b"].asked == list(range(1, 1001))


def test_browser_gets_no_more_than_the_credit() -> None:
    bench = SelectingBench(*["red"] * 10)
    browser = bench.attach("b", browses=True, credit=4)
    bench.deliver()
    assert bench.got["b"] == [1, 2, 3, 4]
    bench.grant(browser, 2)
    bench.deliver()
    assert bench.got["b"] == [1, 2, 3, 4, 5, 6]
    assert browser.obstacles(1.0) == ["its receiver has granted no credit"]


def test_browser_sees_ready_messages_only_and_never_goes_back() -> None:
    bench = SelectingBench(*["red"] * 4)
    consumer = bench.attach("a", credit=2)
    bench.deliver()
    browser = bench.attach("b", browses=True, credit=1)
    bench.deliver()
    assert bench.got["b"] == [3]
    bench.release("a")
    bench.grant(browser, 10)
    bench.deliver()
    assert bench.got["b"] == [3, 4]
    bench.grant(consumer, 10)
    bench.deliver()
    assert bench.got["a"] == [1, 2, 1, 2, 3, 4]


def test_browser_skips_messages_settled_meanwhile() -> None:
    bench = SelectingBench(*["red"] * 6)
    browser = bench.attach("b", browses=True, credit=1)
    bench.deliver()
    bench.attach("a", credit=4)
    bench.deliver()
    bench.accept("a")
    bench.grant(browser, 10)
    bench.deliver()
    assert bench.got["b"] == [1, 5, 6]


def test_browser_sees_priorities_in_the_order_of_delivery() -> None:
    bench = SelectingBench("red", "red", **{"x-max-priority": 9})
    bench.put("red", priority=5)
    bench.attach("b", browses=True)
    bench.deliver()
    assert bench.got["b"] == [3, 1, 2]


def test_expired_messages_are_left_out() -> None:
    bench = SelectingBench()
    for number, ttl_s in ((1, 5.0), (2, float("inf"))):
        bench.queue.enqueue(Envelope("", "q", 0, ttl_s), content("red", number), 10, 1.0)
    bench.broker.begin(7.0)
    bench.attach("b", browses=True)
    bench.deliver()
    assert bench.got["b"] == [2]


def test_browsers_and_consumers_take_turns() -> None:
    bench = SelectingBench(*["red"] * 2000)
    bench.attach("b", browses=True)
    bench.attach("c", browses=True)
    bench.attach("a")
    bench.deliver()
    assert bench.got["a"] == list(range(1, 2001))
    order = [batch.consumer.tag for batch in bench.batches]
    assert {"a", "b", "c"} <= set(order[:4])
    for tag in "bc":
        assert bench.got[tag] == sorted(set(bench.got[tag])), "each once, in order"


def test_exclusive_use_and_single_active_consumers_do_not_concern_a_browser() -> None:
    bench = SelectingBench("red", **{"x-single-active-consumer": True})
    bench.attach("b", browses=True)
    bench.attach("a", exclusive=1, credit=0)
    bench.attach("c", browses=True)
    bench.deliver()
    assert (bench.got["b"], bench.got["c"]) == ([1], [1])
    with pytest.raises(AccessRefused):
        bench.attach("d")


def test_browser_neither_keeps_nor_deletes_an_auto_delete_queue() -> None:
    bench = SelectingBench()
    bench.queue.auto_delete = True
    bench.put("red")
    bench.attach("b", browses=True)
    bench.broker.cancel(bench.sessions["b"], "b")
    assert not bench.queue.deleted
    assert bench.queue.rotation is None
    bench.attach("b", browses=True)
    bench.attach("a")
    bench.broker.cancel(bench.sessions["a"], "a")
    bench.broker.run(0)
    assert bench.queue.deleted
    assert bench.sessions["b"].consumers == {}


def test_cursor_and_browser_exclude_each_other() -> None:
    bench = SelectingBench()
    bench.attach("b", browses=True)
    with pytest.raises(ResourceLocked, match="browser"):
        Cursor("/", "c").attach([bench.queue], {"q": "earliest"}, 1.0)
    bench.broker.cancel(bench.sessions["b"], "b")
    bench.put("red")
    Cursor("/", "c").attach([bench.queue], {"q": "earliest"}, 1.0)
    with pytest.raises(ResourceLocked):
        bench.attach("b", browses=True)


# Paged messages


class BrowsedHouse(PagedHouse):
    """A broker that pages so many messages, with a browser."""

    def __init__(self, messages: int = 0) -> None:
        super().__init__(Shelf(), {"q": (FEW, True)})
        self.got: list[bytes] = []
        self.peer = Session()
        self.browser = Consumer("b", self.peer, self.queues["q"], False, False, 0)
        self.browser.credit = LinkCredit()
        self.scan = BrowserScan(self.browser, MessageFilter(self.broker.formats), self.broker)
        self.browser.scan = self.scan
        self.broker.consume(self.peer, self.browser)
        if messages:
            self.fill(1, messages)
            self.settle()

    def fill(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self.publish("q", b"%03d" % number)

    def grant(self, credit: int) -> None:
        link_credit = self.browser.credit
        self.peer.grant_credit(self.browser, link_credit.delivery_count, credit)

    def browse(self) -> list[bytes]:
        """Deliver, and read pages as long as any are asked for; return what the browser has."""
        while True:
            while (batch := self.broker.next_batch()) is not None:
                assert batch.consumer is self.browser
                self.got.extend(each.content for each in batch.messages if each is not None)
            self.ask()
            if not self.reads:
                return self.got
            self.load()


def names(*numbers: int) -> list[bytes]:
    return [b"%03d" % number for number in numbers]


@pytest.fixture
def house() -> BrowsedHouse:
    return BrowsedHouse(30)


def test_browser_reads_paged_messages_and_leaves_the_pages_on_the_disk(house: BrowsedHouse) -> None:
    assert house.pages("q").messages == 26
    house.grant(1000)
    assert house.browse() == names(*range(1, 31))
    assert (house.pages("q").messages, house.memory("q")) == (26, names(1, 2, 3, 4))
    assert house.browser.obstacles(house.now) == ["has seen all messages, and waits for new ones"]
    assert not house.scan.is_reading()
    house.check()
    assert house.drain("q") == names(*range(1, 31)), "the queue has all of them"
    house.check()


def test_browser_sees_arrivals_behind_paged_messages_once_written() -> None:
    house = BrowsedHouse()
    house.grant(1000)
    house.fill(1, 10)
    assert house.browse() == names(1, 2, 3, 4)
    assert house.scan.is_reading()
    house.write()
    assert house.browse() == names(*range(1, 11))
    house.publish("q", b"011")
    house.write()
    assert house.browse() == names(*range(1, 12))


def test_browser_follows_messages_that_come_into_memory(house: BrowsedHouse) -> None:
    house.grant(6)
    assert house.browse() == names(*range(1, 7))
    for number in range(1, 13):
        taken = house.get("q")
        assert taken.content == b"%03d" % number
        house.settle()
    assert house.pages("q").next > 13
    house.grant(1000)
    assert house.browse() == names(*range(1, 7), *range(13, 31))


def test_browser_skips_pages_that_are_purged(house: BrowsedHouse) -> None:
    house.grant(6)
    house.browse()
    house.queues["q"].purge(house.now)
    house.grant(1000)
    house.fill(31, 40)
    house.settle()
    assert house.browse() == names(*range(1, 7), *range(31, 41))


def test_read_for_an_ended_browser_changes_nothing(house: BrowsedHouse) -> None:
    house.grant(1000)
    while (batch := house.broker.next_batch()) is not None:
        house.got.extend(each.content for each in batch.messages if each is not None)
    house.ask()
    assert len(house.reads) == 1
    house.broker.cancel(house.peer, "b")
    house.load()
    assert house.drain("q") == names(*range(1, 31))


def test_missing_pages_end_the_way_of_a_browser(house: BrowsedHouse) -> None:
    house.shelf.rows.clear()
    house.grant(1000)
    assert house.browse() == names(1, 2, 3, 4)
    assert not house.broker.has_dirty()


def test_session_end_ends_a_browser() -> None:
    bench = SelectingBench("red")
    bench.attach("b", browses=True)
    bench.deliver()
    bench.broker.end_session(bench.sessions["b"])
    bench.broker.run(0)
    assert (bench.queue.rotation, bench.sessions["b"].consumers) == (None, {})
    assert bench.ready() == [1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 9)),
        st.tuples(st.just("get"), st.integers(1, 5)),
        st.tuples(st.just("browse"), st.integers(0, 12)),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("load"), st.just(0)),
        st.tuples(st.just("settle"), st.just(0)),
        st.tuples(st.just("purge"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=examples(800))
@given(STEPS)
def test_browser_sees_each_message_once_in_order_and_all_that_stay(steps: list[tuple[str, int]]) -> None:
    house = BrowsedHouse()
    published = 0
    gone: set[bytes] = set()

    def deliver() -> None:
        while (batch := house.broker.next_batch()) is not None:
            house.got.extend(each.content for each in batch.messages if each is not None)

    for kind, number in steps:
        if kind == "put":
            for _ in range(number):
                published += 1
                house.publish("q", b"%03d" % published)
        elif kind == "get":
            for _ in range(number):
                taken = house.get("q")
                if taken is not None:
                    gone.add(taken.content)
        elif kind == "browse":
            house.grant(number)
            deliver()
        elif kind == "write":
            house.write()
        elif kind == "load":
            house.ask()
            if house.reads:
                house.load()
            deliver()
        elif kind == "settle":
            house.settle()
        else:
            house.queues["q"].purge(house.now)
            gone |= {b"%03d" % each for each in range(1, published + 1)}
        house.check()
    house.settle()
    house.grant(1000)
    house.browse()
    house.settle()
    house.browse()
    assert house.got == sorted(set(house.got)), "each once, in order"
    assert set(house.got) | gone >= {b"%03d" % each for each in range(1, published + 1)}
    left = house.drain("q")
    assert set(left) <= set(house.got)
    house.check()


def test_browser_does_not_see_again_messages_paged_in_behind_the_browser(house: BrowsedHouse) -> None:
    house.grant(1000)
    assert house.browse() == names(*range(1, 31))
    for _ in range(12):
        assert house.get("q") is not None
        house.settle()
    assert house.pages("q").next > 13
    house.publish("q", b"031")
    house.settle()
    assert house.browse() == names(*range(1, 32))
