"""Consumers with selectors: matching messages, the rest, and the cost of matching."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.content.selector.selector import parse_selector
from penstock.core.broker import SCANS_OF_A_QUEUE
from penstock.core.consume.consumer import ALONE, READY, UNMATCHED, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import SLICE, MessageFilter, SelectorScan
from penstock.core.consume.session import Session, request_drain
from penstock.core.effects import Drained
from penstock.core.gates.metadata_memory import SHARE_OF_VHOST
from penstock.core.message import Envelope
from penstock.core.queue.indexed_ready_queue import MISSED_MAX, IndexedReadyQueue
from penstock.core.routing.exchange import SELECTOR
from penstock.errors import ResourceError
from tests.profiles import examples
from tests.support.paging_broker import numbered, settled
from tests.support.selecting_bench import SelectingBench, content, number_of

RED = "color = 'red'"
BLUE = "color = 'blue'"
WAITS = "waits for a message that its selector matches"


def test_selector_consumer_gets_matching_messages_and_the_rest_stays_in_order() -> None:
    bench = SelectingBench("red", "blue", "red", "green", "blue")
    bench.attach("a", RED)
    bench.deliver()
    assert bench.got == {"a": [1, 3]}
    assert bench.ready() == [2, 4, 5]
    assert (bench.queue.messages, bench.queue.unacked_messages) == (5, 2)
    bench.attach("b", BLUE)
    bench.attach("c")
    bench.deliver()
    assert sorted(bench.got["b"] + bench.got["c"]) == [2, 4, 5]
    assert bench.got["b"] == sorted(bench.got["b"])
    assert set(bench.got["b"]) <= {2, 5}


def test_message_that_matches_no_selector_stays_and_costs_no_work() -> None:
    bench = SelectingBench("green")
    consumers = [bench.attach(tag, RED) for tag in ("a", "b")]
    bench.deliver()
    assert [int(each.state) for each in consumers] == [UNMATCHED, UNMATCHED]
    assert not bench.broker.has_dirty(), "the dispatcher has nothing to do"
    assert bench.deliver() == 0
    assert consumers[0].obstacles(1.0) == [WAITS]
    assert bench.queue.available() == 1
    bench.put("red")
    bench.deliver()
    assert bench.got["a"] + bench.got["b"] == [2]
    assert bench.filters["a"].asked in ([1, 2], [1])


def test_message_is_matched_once_for_each_consumer() -> None:
    bench = SelectingBench(*["green"] * 50)
    bench.attach("a", RED)
    bench.deliver()
    for _ in range(50):
        bench.put("green")
        bench.deliver()
    assert bench.filters["a"].asked == list(range(1, 101))


def test_selector_consumer_without_credit_does_no_matching() -> None:
    bench = SelectingBench("green", "red", "red", "red")
    consumer = bench.attach("a", RED, credit=0)
    bench.deliver()
    assert bench.filters["a"].asked == []
    assert consumer.state == ALONE
    bench.grant(consumer, 1)
    bench.deliver()
    assert (bench.got["a"], bench.filters["a"].asked) == ([2], [1, 2])
    bench.grant(consumer, 5)
    bench.deliver()
    assert (bench.got["a"], bench.filters["a"].asked) == ([2, 3, 4], [1, 2, 3, 4])


def test_scan_is_done_in_slices_between_turns_of_other_queues() -> None:
    bench = SelectingBench()
    other = bench.vhost.declare_queue("other", {}, False, False, None, None)
    bench.put(*["green"] * 5000, "red")
    bench.attach("a", RED)
    longest = 0
    for _ in range(100):
        before = len(bench.filters["a"].asked)
        bench.deliver(SLICE // 2)
        longest = max(longest, len(bench.filters["a"].asked) - before)
        if not bench.broker.has_dirty():
            break
    assert bench.got["a"] == [5001]
    assert bench.filters["a"].asked == list(range(1, 5002))
    assert 0 < longest <= SLICE
    assert not other.scheduled


def test_ready_consumer_waits_in_the_list_of_the_obstacle() -> None:
    bench = SelectingBench("red")
    consumer = bench.attach("a", RED, credit=1)
    bench.deliver()
    assert consumer.state == READY
    assert bench.deliver() == 0
    bench.put("red")
    bench.deliver()
    assert consumer.state == ALONE


def test_released_message_is_offered_to_consumers_that_have_not_seen_the_message() -> None:
    bench = SelectingBench("red", "red", "green")
    bench.attach("a", RED)
    bench.deliver()
    bench.attach("b", "n > 0 AND color = 'blue'")
    bench.attach("c", "color = 'green'")
    bench.deliver()
    assert bench.filters["b"].asked == [3] or bench.filters["b"].asked == []
    seen = {tag: list(bench.filters[tag].asked) for tag in "bc"}
    bench.broker.cancel(bench.sessions["a"], "a")
    bench.release("a")
    bench.deliver()
    assert bench.filters["b"].asked == [*seen["b"], 1, 2]
    assert bench.filters["c"].asked == [*seen["c"], 1, 2]
    # Someone else takes them and gives them back: both have seen them.
    bench.attach("d")
    bench.deliver()
    assert bench.got["d"] == [1, 2]
    bench.broker.cancel(bench.sessions["d"], "d")
    bench.release("d")
    bench.deliver()
    assert bench.filters["b"].asked == [*seen["b"], 1, 2]
    assert bench.ready() == [1, 2]


def test_released_message_comes_to_the_same_scan_again_in_order() -> None:
    bench = SelectingBench("red", "green", "red", "red")
    consumer = bench.attach("a", RED, credit=2)
    bench.deliver()
    bench.release("a")
    bench.grant(consumer, 3)
    bench.deliver()
    assert bench.got["a"] == [1, 3, 1, 3, 4]


def test_very_many_missed_messages_are_looked_for_from_the_oldest_on() -> None:
    count = MISSED_MAX + 50
    bench = SelectingBench(*["red"] * count)
    bench.attach("a")
    bench.deliver()
    bench.put("green")
    bench.attach("b", RED)
    bench.deliver()
    bench.broker.cancel(bench.sessions["a"], "a")
    bench.release("a")
    bench.deliver()
    assert bench.got["b"] == list(range(1, count + 1))


def test_messages_matching_two_selectors_are_shared_by_the_consumers() -> None:
    bench = SelectingBench(*["red"] * 100)
    bench.attach("a", RED)
    bench.attach("b", RED)
    bench.deliver()
    assert len(bench.got["a"]) == len(bench.got["b"]) == 50
    assert sorted(bench.got["a"] + bench.got["b"]) == list(range(1, 101))


def test_ordinary_consumers_and_selectors_take_turns() -> None:
    bench = SelectingBench(*["red"] * 100)
    bench.attach("a", RED)
    bench.attach("b")
    bench.deliver()
    assert sorted(bench.got["a"] + bench.got["b"]) == list(range(1, 101))
    assert abs(len(bench.got["a"]) - len(bench.got["b"])) <= 2


def test_consumers_with_a_higher_priority_come_first() -> None:
    bench = SelectingBench()
    bench.attach("low")
    bench.attach("high", RED, priority=5)
    bench.put("red", "green", "red", "green")
    bench.deliver()
    assert bench.got == {"low": [2, 4], "high": [1, 3]}


def test_messages_with_a_higher_priority_come_first() -> None:
    bench = SelectingBench("red", "green", **{"x-max-priority": 9})
    bench.put("red", "green", priority=5)
    consumer = bench.attach("a", RED, credit=1)
    bench.deliver()
    bench.put("red", priority=9)
    bench.put("red", priority=7)
    bench.grant(consumer, 10)
    bench.deliver()
    assert bench.got["a"] == [3, 5, 6, 1]
    assert sorted(bench.filters["a"].asked) == [1, 2, 3, 4, 5, 6]
    bench.release("a")
    bench.deliver()
    assert bench.got["a"][4:] == [5, 6, 3, 1]


def test_byte_window_holds_a_message_back_without_looking_twice() -> None:
    bench = SelectingBench("green")
    bench.put("red", "red", "red", charge=60)
    consumer = bench.attach("a", RED, window_bytes=100)
    bench.deliver()
    assert (bench.got["a"], bench.filters["a"].asked) == ([2], [1, 2, 3])
    assert "bytes unacknowledged of a window of 100" in consumer.obstacles(1.0)[0]
    bench.accept("a")
    bench.deliver()
    assert (bench.got["a"], bench.filters["a"].asked) == ([2, 3], [1, 2, 3, 4])


def test_settled_messages_leave_the_depth_at_once_without_acknowledgements() -> None:
    bench = SelectingBench("red", "green")
    bench.attach("a", RED, settled=True)
    bench.deliver()
    assert (bench.got["a"], bench.queue.messages, bench.queue.unacked_messages) == ([1], 1, 0)


def test_purge_leaves_the_consumer_waiting() -> None:
    bench = SelectingBench(*["green"] * 3000)
    bench.attach("a", RED)
    bench.deliver()
    assert bench.queue.purge(1.0) == 3000
    bench.put("red")
    while bench.broker.turns.chores.pending():
        bench.turn()
    bench.deliver()
    assert bench.got["a"] == [3001]
    assert (bench.queue.messages, bench.ready()) == (1, [])


@pytest.mark.parametrize("own", [True, False], ids=["of the message", "of the queue"])
def test_messages_expire_in_the_middle_and_at_the_front(own: bool) -> None:
    bench = SelectingBench(**({} if own else {"x-message-ttl": 1000}))
    for number in range(1, 5):
        ttl_s = 1.0 if own and number in (1, 3) else float("inf")
        bench.queue.enqueue(Envelope("", "q", 0, ttl_s), content("green", number), 10, 1.0)
    bench.broker.schedule_delivery(bench.queue)
    bench.attach("a", "n > 3")
    bench.deliver()
    assert bench.got["a"] == [4]
    bench.broker.begin(3.0)
    bench.broker.watch_lifetime(bench.queue)
    bench.broker.run(0)
    bench.broker.begin(3.1)
    bench.broker.run(0)
    assert bench.ready() == ([2] if own else [])
    assert bench.queue.messages == len(bench.ready()) + 1


def test_drop_head_drops_messages_without_a_matching_consumer() -> None:
    bench = SelectingBench(**{"x-max-length": 3, "x-overflow": "drop-head"})
    bench.attach("a", RED)
    for color in ("green", "green", "green", "red", "green"):
        bench.put(color)
        bench.deliver()
    assert bench.got["a"] == [4]
    assert bench.ready() == [2, 3, 5] or bench.ready() == [3, 5]


def test_queue_deletion_ends_the_consumers() -> None:
    bench = SelectingBench("red", "green")
    consumer = bench.attach("a", RED)
    bench.attach("b", browses=True)
    bench.deliver()
    bench.broker.delete_queue(bench.queue)
    bench.broker.run(0)
    assert bench.sessions["a"].consumers == {}
    assert bench.sessions["b"].consumers == {}
    assert consumer.scan is None
    bench.grant(consumer, 10)
    bench.release("a")
    bench.deliver()


def test_session_end_returns_the_messages() -> None:
    bench = SelectingBench("red", "green", "red")
    bench.attach("a", RED)
    bench.deliver()
    bench.broker.end_session(bench.sessions["a"])
    bench.broker.run(0)
    assert bench.ready() == [1, 2, 3]
    bench.attach("b")
    bench.deliver()
    assert bench.got["b"] == [1, 2, 3]


def test_queue_without_selectors_has_no_index() -> None:
    bench = SelectingBench()
    bench.attach("a")
    bench.put("red")
    bench.deliver()
    assert not isinstance(bench.queue.ready_queue, IndexedReadyQueue)


def test_number_of_scans_of_a_queue_is_bounded() -> None:
    bench = SelectingBench()
    for number in range(SCANS_OF_A_QUEUE):
        bench.attach(f"a{number}", RED, credit=0)
    with pytest.raises(ResourceError, match="has 1,000 consumers with selectors or groups, and browsers"):
        bench.attach("b", RED)
    bench.attach("c")


def test_available_counts_messages_not_yet_matched() -> None:
    bench = SelectingBench(*["green"] * 10, "red")
    ordinary = bench.attach("b", credit=0)
    consumer = bench.attach("a", RED, credit=0)
    assert (ordinary.available(), consumer.available()) == (11, 11)
    bench.grant(consumer, 5)
    bench.deliver()
    assert (ordinary.available(), consumer.available()) == (10, 0)
    bench.put("green", "red")
    assert consumer.available() == 2


def test_filter_skips_an_unreadable_message() -> None:
    bench = SelectingBench("red")
    consumer = Consumer("a", Session(), bench.queue, False, False, 0)
    selector = parse_selector("color IS NULL OR color = 'red'")
    scan = SelectorScan(consumer, MessageFilter(bench.broker.formats, selector), bench.broker.work)
    for octets in (b"Tnonsense", b"\xff", b""):
        bench.queue.enqueue(Envelope("", "q"), octets, 10, 1.0)
    consumer.scan = scan
    bench.got[""] = bench.got["a"] = []
    bench.broker.consume(consumer.session, consumer)
    bench.deliver()
    assert bench.got["a"] == [1]
    assert bench.queue.available() == 3


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(("red", "blue", "green")), st.integers(0, 2)),
        st.tuples(st.just("deliver"), st.integers(3, 40)),
        st.tuples(st.just("grant"), st.sampled_from("abcd"), st.integers(0, 5)),
        st.tuples(st.just("release"), st.sampled_from("abcd"), st.integers(1, 8), st.integers(0, 4)),
        st.tuples(st.just("accept"), st.sampled_from("abcd"), st.integers(1, 8), st.integers(0, 4)),
        st.tuples(st.just("detach"), st.sampled_from("abcd")),
        st.tuples(st.just("purge")),
    ),
    max_size=60,
)
SELECTORS = {"a": RED, "b": "color = 'red' OR color = 'blue'", "c": BLUE, "d": None}


class Steps:
    """A bench whose steps are written down: where each message is."""

    def __init__(self, priorities: bool) -> None:
        self.bench = SelectingBench(**({"x-max-priority": 2} if priorities else {}))
        self.colors: dict[int, str] = {}
        self.gone: set[int] = set()
        self.consumers = {tag: self.bench.attach(tag, selector, credit=3) for tag, selector in SELECTORS.items()}
        self.held: dict[str, dict[int, int]] = {tag: {} for tag in SELECTORS}

    def subscribed(self) -> list[Consumer]:
        return [each for each in self.consumers.values() if each.tag in each.session.consumers]

    def deliver(self, most: int = 1_000_000) -> None:
        before = len(self.bench.batches)
        self.bench.deliver(most)
        for batch in self.bench.batches[before:]:
            for offset, message in enumerate(batch.messages):
                assert message is not None
                self.held[batch.consumer.tag][int(batch.first) + offset] = number_of(message)

    def settle(self, tag: str, first: int, last: int, outcome: Outcome) -> None:
        self.deliver()  # So that no batch is settled before it is written down.
        for queue in self.bench.sessions[tag].unsettled.settle(first, last, outcome, 1.0):
            self.bench.broker.schedule_delivery(queue)
        for number in range(first, last + 1):
            found = self.held[tag].pop(number, None)
            if found is not None and outcome is Outcome.ACCEPTED:
                self.gone.add(found)

    def step(self, kind: str, one: str = "", two: int = 0, three: int = 0) -> None:
        bench = self.bench
        if kind == "put":
            bench.put(one, priority=two)
            self.colors[bench.published] = one
        elif kind == "deliver":
            self.deliver(int(one))
        elif kind == "grant" and self.consumers[one] in self.subscribed():
            bench.grant(self.consumers[one], two)
        elif kind == "release":
            self.settle(one, two, two + three, Outcome.RELEASED)
        elif kind == "accept":
            self.settle(one, two, two + three, Outcome.ACCEPTED)
        elif kind == "detach":
            bench.broker.cancel(bench.sessions[one], one)
        elif kind == "purge":
            self.gone |= set(bench.ready())
            bench.queue.purge(1.0)

    def check(self) -> None:
        bench = self.bench
        with_consumers = [number for numbers in self.held.values() for number in numbers.values()]
        everywhere = sorted([*self.gone, *with_consumers, *bench.ready()])
        assert everywhere == sorted(self.colors), "each message is in one place"
        wants = {"a": {"red"}, "b": {"red", "blue"}, "c": {"blue"}, "d": {"red", "blue", "green"}}
        for tag, numbers in self.held.items():
            assert {self.colors[number] for number in numbers.values()} <= wants[tag]
        for consumer in self.subscribed():
            if consumer.credit.left() > 0:
                assert not {self.colors[number] for number in bench.ready()} & wants[consumer.tag]
        assert not bench.broker.has_dirty()
        assert bench.queue.unacked_messages == len(with_consumers)

    def drain(self) -> list[str]:
        """Drain all consumers; return which ones are told so."""
        for consumer in self.subscribed():
            request_drain(consumer)
        self.deliver()
        self.bench.broker.review_drains()
        return [effect.consumer.tag for effect in self.bench.broker.effects() if isinstance(effect, Drained)]


@settings(max_examples=examples(1500))
@given(STEPS, st.booleans())
@example([("put", "red", 0), ("release", "a", 1, 0)], False)
def test_selected_messages_are_not_lost_duplicated_or_misdelivered(
    steps: list[tuple[Any, ...]], priorities: bool
) -> None:
    """After any steps: what matches is with a consumer that wants it, or nobody who wants it has credit."""
    bench = Steps(priorities)
    for step in steps:
        bench.step(*step)
    bench.deliver()
    bench.check()
    assert sorted(bench.drain()) == sorted(each.tag for each in bench.subscribed()), "each is answered, once"


def test_random_order_of_releases_ends_in_order() -> None:
    """Whatever returns in whatever order, an ordinary consumer then gets all in the order of their sequence."""
    chance = random.Random(5)
    bench = SelectingBench(*["red", "blue"] * 600)
    bench.attach("a", RED)
    bench.deliver()
    numbers = list(range(1, 601))
    chance.shuffle(numbers)
    for number in numbers:
        bench.sessions["a"].unsettled.settle(number, number, Outcome.RELEASED, 1.0)
    bench.broker.cancel(bench.sessions["a"], "a")
    bench.attach("b")
    bench.deliver()
    assert bench.got["b"] == list(range(1, 1201))


def test_scan_gets_paged_messages_once_in_memory() -> None:
    house = settled(40)
    assert house.pages("q").messages > 0
    consumer = Consumer("a", house.session, house.queues["q"], True, False, 0)
    consumer.scan = SelectorScan(consumer, MessageFilter(house.broker.formats), house.broker.work)
    house.broker.consume(house.session, consumer)
    found: list[bytes] = []
    for _ in range(60):
        while (batch := house.broker.next_batch()) is not None:
            found.extend(each.content for each in batch.messages if each is not None)
        house.settle()
    assert found == numbered(1, 40)
    house.check()
    assert house.queues["q"].messages == 0


def test_memory_of_selectors_counts_with_the_arguments() -> None:
    bench = SelectingBench()
    metadata = bench.broker.gates.metadata
    metadata.bytes_max = 300_000 * SHARE_OF_VHOST
    before = metadata.bytes
    long = " OR ".join([f"n = {number}" for number in range(200)])
    bench.attach("a", long)
    used = metadata.bytes - before
    assert used > 200 * 3 * 100
    with pytest.raises(ResourceError, match="arguments-bytes-max"):
        bench.attach("b", long)
    with pytest.raises(ResourceError, match="arguments-bytes-max"):
        bench.vhost.bind("amq.fanout", bench.queue, None, "", {SELECTOR: long})
    bench.broker.cancel(bench.sessions["a"], "a")
    assert metadata.bytes == before
    binding = bench.vhost.bind("amq.fanout", bench.queue, None, "", {SELECTOR: "n = 1"})
    assert binding.arguments_charge > 1000
    bench.vhost.unbind("amq.fanout", bench.queue, None, "", {SELECTOR: "n = 1"})
    assert metadata.bytes == before
