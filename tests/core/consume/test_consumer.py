"""Consumers: deliverable messages, obstacles, rings, rounds and byte windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.consume.consumer import Batch, Consumer, RoundRobin
from penstock.core.consume.session import Session
from penstock.flow.level import UNLIMITED
from tests.support.bare_queue import queue_with
from tests.support.broker_fixture import House, a_queue
from tests.support.limited_consumers import deliver, filled, settle_all, subscribe


def consumer(window: int = 0, window_bytes: int = -1, no_ack: bool = False) -> tuple[House, Consumer]:
    house, queue = a_queue()
    return house, Consumer("t", Session(), queue, no_ack, False, window, window_bytes)


def test_consumer_without_a_window_may_get_everything() -> None:
    _, found = consumer()
    assert found.credit_left(100.0) == UNLIMITED
    assert found.obstacles(100.0) == []


def test_consumer_has_the_smaller_of_the_own_window_and_the_shared_window() -> None:
    _, found = consumer(window=5)
    assert found.credit_left(100.0) == 5
    found.shared.window = 3
    assert found.credit_left(100.0) == 3


def test_consumer_without_acknowledgements_is_not_bound_by_the_window() -> None:
    _, found = consumer(window=5, no_ack=True)
    assert found.credit_left(100.0) == UNLIMITED


def test_consumer_whose_byte_window_is_too_small_for_the_next_message_reports_that() -> None:
    house, found = consumer(window_bytes=1000)
    house.publish_now("a", 800)
    assert found.next_fits()
    found.credit.out, found.credit.out_bytes = 1, 500
    assert not found.next_fits()
    assert found.credit_left(100.0) == 0
    assert found.obstacles(100.0) == ["out of credit: 500 bytes unacknowledged of a window of 1,000"]


def test_consumer_batch_ends_with_the_last_delivery_tag() -> None:
    _, found = consumer()
    batch = Batch(found, 7, [None, None, None], 300, 100.0)
    assert (batch.last(), batch.left) == (9, 3)


def ring(*tags: str) -> tuple[RoundRobin, dict[str, Consumer]]:
    _, queue = queue_with(0)
    session = Session()
    consumers = {tag: Consumer(tag, session, queue, False, False, 0) for tag in tags}
    rank = RoundRobin(0)
    for consumer in consumers.values():
        rank.join(consumer)
    return rank, consumers


def turn(rank: RoundRobin, available: int) -> tuple[str, int]:
    consumer = rank.next
    assert consumer is not None
    share = int(rank.next_share(available))
    rank.finish_turn()
    return consumer.tag, share


def test_round_divides_the_messages_that_were_ready_at_the_start() -> None:
    rank, _ = ring("a", "b", "c")
    assert [turn(rank, available) for available in (10, 100, 1)] == [("a", 3), ("b", 3), ("c", 3)]
    assert [turn(rank, available) for available in (2, 100)] == [("a", 1), ("b", 1)]


def test_consumer_that_joins_is_last_in_turn() -> None:
    rank, consumers = ring("a", "b", "late")
    rank.remove(consumers["late"])
    assert turn(rank, 4) == ("a", 2)
    rank.join(consumers["late"])
    assert [turn(rank, 6)[0] for _ in range(3)] == ["b", "a", "late"]


def test_successor_begins_the_round_after_the_first_consumer_leaves() -> None:
    rank, consumers = ring("a", "b", "c")
    assert turn(rank, 9) == ("a", 3)
    rank.remove(consumers["a"])
    assert turn(rank, 8) == ("b", 4)
    assert turn(rank, 100) == ("c", 4)


def test_single_consumer_gets_all_messages() -> None:
    rank, consumers = ring("a")
    assert (turn(rank, 7), turn(rank, 5)) == (("a", 7), ("a", 5))
    rank.remove(consumers["a"])
    assert (rank.next, rank.first, int(rank.size)) == (None, None, 0)


def test_byte_window_of_0_delivers_a_message_at_a_time() -> None:
    house = filled([100, 200, 300])
    consumer = subscribe(house, consumer_window_bytes=0)
    for charge in (100, 200, 300):
        assert deliver(house) == [charge]
        assert deliver(house) == []
        settle_all(house, consumer)
    assert deliver(house) == []


def test_message_larger_than_the_byte_window_passes_alone() -> None:
    house = filled([5000, 100, 100])
    consumer = subscribe(house, consumer_window_bytes=1000)
    assert deliver(house) == [5000]
    assert consumer.obstacles(house.broker.now) == ["out of credit: 5,000 bytes unacknowledged of a window of 1,000"]
    settle_all(house, consumer)
    assert deliver(house) == [100, 100]


@given(
    charges=st.lists(st.integers(1, 700), min_size=1, max_size=40),
    window=st.integers(0, 1500),
    settled=st.lists(st.integers(1, 5), max_size=30),
)
def test_byte_window_bounds_unacknowledged_bytes_and_all_messages_arrive(
    charges: list[int], window: int, settled: list[int]
) -> None:
    house = filled(charges)
    consumer = subscribe(house, consumer_window_bytes=window)
    out: list[int] = []
    came: list[int] = []
    for count in [*settled, *[1] * len(charges)]:
        more = deliver(house)
        came += more
        out += more
        assert len(out) <= 1 or sum(out) <= window
        assert int(consumer.credit.out_bytes) == sum(out)
        if out:
            count = min(count, len(out))
            consumer.session.unsettled.acknowledge(len(came) - len(out) + count, True, house.broker.now)
            house.broker.schedule_delivery(consumer.queue)
            del out[:count]
    assert came + deliver(house) == charges


def test_byte_window_of_the_queue_applies_to_a_consumer_without_a_window() -> None:
    house = filled([100, 100], consumer_window_bytes=0)
    consumer = subscribe(house)
    assert deliver(house) == [100]
    house.broker.cancel(house.session, consumer.tag)
    subscribe(house, Session(), consumer_window_bytes=-1)
    assert deliver(house) == [100]
