"""Rates of consumers, slow consumers, and adaptive windows under a manual clock."""

from __future__ import annotations

import random

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session, cancel_drain, request_drain
from penstock.core.effects import Cancelled, SlowConsumer
from penstock.errors import PreconditionFailed
from tests.support.broker_fixture import House, most_in_a_second
from tests.support.limited_consumers import deliver, filled, settle_all, subscribe
from tests.support.selecting_bench import SelectingBench


def test_consumer_rate_gives_the_first_message_at_once_and_the_rest_in_time() -> None:
    house = filled([10] * 5)
    consumer = subscribe(house, consumer_max_rate=10)
    assert deliver(house) == [10]
    assert consumer.obstacles(house.broker.now) == ["at its rate of 10 messages/s, the next one in 101 ms"]
    for step in range(1, 5):
        house.broker.begin(100.0 + step * 0.102)
        assert deliver(house) == [10]
    assert house.broker.next_deadline() is not None
    house.broker.begin(110.0)
    assert deliver(house) == []
    house.publish_now("a", 10)
    house.broker.schedule_delivery(consumer.queue)
    assert deliver(house) == [10]


@pytest.mark.parametrize("rate", [10, 1000])
def test_consumer_gets_at_most_a_message_more_than_the_rate_in_any_second(rate: int) -> None:
    house = filled([10] * 3 * rate)
    subscribe(house, consumer_max_rate=rate)
    delivered: list[float] = []
    late = random.Random(1)
    house.broker.begin(200.0)  # Idle before: nothing is stored for later.
    while house.broker.now < 202.5:
        delivered += [house.broker.now] * len(deliver(house))
        house.broker.begin(house.broker.now + late.uniform(0.0005, 0.02))
    assert most_in_a_second(delivered) <= rate + 1


@pytest.mark.parametrize("rate", [10**6, 10**12, 2**61])
def test_consumer_with_a_huge_rate_ends_the_deliveries_of_a_moment(rate: int) -> None:
    """Its next message is due within less than the clock can show."""
    house = filled([10] * 1_000)
    house.broker.begin(8_593_883.060997017)
    subscribe(house, consumer_max_rate=rate)
    delivered = len(deliver(house))
    assert 0 < delivered <= 1_000
    assert not house.broker.has_dirty(), "nothing more is to be delivered in this moment"
    for _ in range(1_000):
        house.later(0.001)
        delivered += len(deliver(house))
    assert delivered == 1_000


def slowness(house: House, seconds: float) -> list[SlowConsumer | Cancelled]:
    house.later(seconds)
    return [effect for effect in house.broker.effects() if isinstance(effect, SlowConsumer | Cancelled)]


def test_slow_consumer_is_reported_once_while_slow() -> None:
    house = filled([10] * 100)
    consumer = subscribe(house, slow_consumer_rate=5, slow_consumer_period=2, consumer_window_bytes=0)
    deliver(house)
    (told,) = slowness(house, 2.0)
    assert isinstance(told, SlowConsumer)
    assert (told.rate, told.least, told.cancelled) == (0.0, 5.0, False)
    assert slowness(house, 2.0) == []
    for _ in range(12):
        settle_all(house, consumer)
        deliver(house)
    assert slowness(house, 2.0) == []
    assert len(slowness(house, 2.0)) == 1


def test_consumer_of_an_idle_queue_is_not_reported_as_slow() -> None:
    house = filled([10])
    consumer = subscribe(house, slow_consumer_rate=5, slow_consumer_period=2)
    deliver(house)
    assert slowness(house, 2.0) == []
    settle_all(house, consumer)
    assert slowness(house, 2.0) == []
    house.broker.begin(house.broker.now + 1.9)
    house.broker.run(0)
    house.publish_now("a", 10)
    assert slowness(house, 0.1) == [], "it has not waited for a whole period"


def test_slow_consumer_is_cancelled_if_the_policy_says_so() -> None:
    house = filled([10] * 10)
    slow = subscribe(house, slow_consumer_rate=5, slow_consumer_period=2, slow_consumer_policy="cancel",
                     consumer_window_bytes=0)  # fmt: skip
    deliver(house)
    told = slowness(house, 2.0)
    assert [type(effect) for effect in told] == [SlowConsumer, Cancelled]
    assert slow not in house.vhost.queues["a"].consumers
    assert int(house.vhost.queues["a"].unacked_messages) == 1, "what it has stays with its session"
    assert slowness(house, 10.0) == []


ADAPTIVE: dict[str, object] = {"consumer_window_adaptive": True}


def settle(house: House, consumer: Consumer, at: float, count: int = 1) -> None:
    """Let time pass until a consumer acknowledges its oldest deliveries; what that makes room for is delivered."""
    house.broker.begin(at)
    unsettled = consumer.session.unsettled
    unsettled.acknowledge(unsettled.front_number() + count - 1, True, at)
    deliver(house)


def test_consumer_without_adaptive_window_gets_all_that_the_credit_allows() -> None:
    house = filled([10] * 50, consumer_window_min=2, consumer_window_max=3)
    consumer = subscribe(house)
    assert len(deliver(house)) == 50
    assert consumer.adaptive_window is None


def test_slow_consumer_leaves_the_messages_to_a_fast_consumer() -> None:
    house = filled([10] * 1000, **ADAPTIVE)
    slow, fast = subscribe(house), subscribe(house, Session())
    deliver(house)
    now = 100.0
    for step in range(1, 901):
        now += 0.001
        settle(house, fast, now)
        if step % 100 == 0:
            settle(house, slow, now)
    assert (int(slow.delivered), int(fast.settled_count())) == (int(slow.settled_count() + slow.credit.out), 900)
    assert slow.credit.out <= 2, "it has what it works on, and one more at most"


def test_full_adaptive_window_is_described_with_rate_and_delay() -> None:
    house = filled([10] * 100, **ADAPTIVE)
    consumer = subscribe(house)
    deliver(house)
    assert consumer.obstacles(100.0) == ["out of its adaptive window: 1 unacknowledged of 1"]
    for step in range(1, 9):
        settle(house, consumer, 100.0 + 0.25 * step)
    assert consumer.obstacles(102.0) == [
        "out of its adaptive window: 2 unacknowledged of 2, for 4 messages/s of 250 ms each"
    ]


def test_full_window_without_settlements_is_doubled_by_a_timer() -> None:
    house = filled([10] * 100, consumer_window_max=8, **ADAPTIVE)
    consumer = subscribe(house)
    deliver(house)
    assert house.broker.next_deadline() == 101.0
    found = []
    for seconds in (1, 2, 3, 4, 7, 60):
        house.broker.begin(100.0 + seconds)
        deliver(house)
        found.append(int(consumer.credit.out))
    assert found == [2, 2, 4, 4, 8, 8]
    assert house.broker.next_deadline() is None, "at its upper bound it has no timer"
    settle(house, consumer, 161.0, 8)
    assert consumer.credit.out == 8, "its client settles eight at once"


def test_window_applies_within_the_prefetch() -> None:
    house = filled([10] * 100, consumer_window_min=10, **ADAPTIVE)
    consumer = subscribe(house)
    consumer.credit.window = 4
    assert len(deliver(house)) == 4
    assert consumer.obstacles(100.0) == ["out of credit: 4 unacknowledged of a prefetch of 4"]


def test_full_window_is_not_doubled_while_the_receiver_grants_no_credit() -> None:
    bench = SelectingBench(*["red"] * 10, **{"consumer-window-adaptive": True})
    consumer = bench.attach("a", credit=2)
    bench.deliver()
    bench.grant(consumer, 0)
    bench.deliver()
    bench.broker.begin(100.0)
    bench.turn()
    bench.grant(consumer, 5)
    bench.deliver()
    assert bench.got["a"] == [1], "the window is as narrow as before"
    bench.broker.begin(200.0)
    bench.turn()
    assert bench.got["a"] == [1, 2]


def test_timer_of_a_cancelled_consumer_is_dropped() -> None:
    house = filled([10] * 5, **ADAPTIVE)
    consumer = subscribe(house)
    deliver(house)
    house.broker.cancel(house.session, consumer.tag)
    assert house.broker.next_deadline() is None
    house.session.unsettled.acknowledge(1, False, 100.0)


def test_draining_receiver_gets_all_that_the_credit_allows() -> None:
    bench = SelectingBench(*["red"] * 10, **{"consumer-window-adaptive": True})
    consumer = bench.attach("a", credit=5)
    bench.deliver()
    assert bench.got["a"] == [1]
    request_drain(consumer)
    bench.deliver()
    bench.broker.review_drains()
    assert bench.got["a"] == [1, 2, 3, 4, 5]
    credit = consumer.credit
    credit.grant(5, 5)
    bench.broker.schedule_delivery(bench.queue)
    bench.deliver()
    assert bench.got["a"] == [1, 2, 3, 4, 5], "afterwards the window applies again"
    request_drain(consumer)
    cancel_drain(consumer)
    bench.deliver()
    assert bench.got["a"] == [1, 2, 3, 4, 5]


def test_consumers_without_settlements_have_no_window() -> None:
    bench = SelectingBench(*["red"] * 10, **{"consumer-window-adaptive": True})
    browser = bench.attach("b", browses=True)
    bench.deliver()
    settled = bench.attach("s", settled=True)
    bench.deliver()
    assert browser.adaptive_window is None
    assert settled.adaptive_window is None
    assert (len(bench.got["b"]), len(bench.got["s"])) == (10, 10)


def test_consumer_with_a_selector_has_a_window() -> None:
    bench = SelectingBench("red", "blue", "red", "red", **{"consumer-window-adaptive": True, "consumer-window-min": 2})
    bench.attach("a", "color = 'red'")
    bench.deliver()
    assert bench.got["a"] == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"consumer_window_max": 0}, "consumer-window-max must be a whole number from 1, or none, not 0"),
        ({"consumer_window_min": "none"}, "consumer-window-min must be a whole number from 1, not 'none'"),
        (
            {"consumer_window_min": 5, "consumer_window_max": 4},
            "queue 'a': consumer-window-min=5 is above consumer-window-max=4",
        ),
        ({"consumer_window_adaptive": "maybe"}, "consumer-window-adaptive must be true or false, not 'maybe'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        House().queue("a", **arguments)
    assert said in str(caught.value)
