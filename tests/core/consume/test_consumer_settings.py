"""Byte windows of consumers, and the settings that they get from their queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.consume.session import Session
from tests.support.limited_consumers import deliver, filled, settle_all, subscribe


def test_a_window_of_zero_gives_one_message_at_a_time() -> None:
    house = filled([100, 200, 300])
    consumer = subscribe(house, consumer_window_bytes=0)
    for charge in (100, 200, 300):
        assert deliver(house) == [charge]
        assert deliver(house) == []
        settle_all(house, consumer)
    assert deliver(house) == []


def test_a_message_larger_than_the_window_passes_alone() -> None:
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
def test_no_more_bytes_are_out_than_the_window_and_all_comes_in_the_end(
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


def test_a_queues_setting_is_what_a_consumer_gets_that_asks_for_nothing() -> None:
    house = filled([100, 100], consumer_window_bytes=0)
    consumer = subscribe(house)
    assert deliver(house) == [100]
    house.broker.cancel(house.session, consumer.tag)
    subscribe(house, Session(), consumer_window_bytes=-1)
    assert deliver(house) == [100]
