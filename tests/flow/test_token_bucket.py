"""A token bucket: never more than its rate and burst, and never less than both allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.token_bucket import TokenBucket, smooth
from tests.support.broker_fixture import most_in_a_second


def test_first_message_passes_at_once_and_the_next_after_the_interval() -> None:
    bucket = TokenBucket(10.0, 1.0)
    assert bucket.ready_at(100.0) == 100.0
    bucket.take(1, 100.0)
    assert abs(bucket.ready_at(100.0) - 100.1) < 1e-9
    assert bucket.ready_at(100.1) == 100.1


def test_burst_goes_at_once_and_no_more() -> None:
    bucket = TokenBucket(10.0, 5.0)
    for _ in range(5):
        assert bucket.ready_at(100.0) == 100.0
        bucket.take(1, 100.0)
    assert bucket.ready_at(100.0) > 100.0


def test_message_larger_than_the_burst_passes_and_is_paid_for_afterwards() -> None:
    bucket = TokenBucket(1000.0, 100.0)
    bucket.take(1100, 100.0)
    assert abs(bucket.ready_at(100.0) - 101.001) < 1e-6


@given(rate=st.floats(0.5, 2_000), waits=st.lists(st.floats(0.0, 1.5), min_size=1, max_size=60))
def test_smooth_bucket_passes_at_most_a_message_more_than_the_rate_in_any_second(
    rate: float, waits: list[float]
) -> None:
    bucket, now = TokenBucket(*smooth(rate), saves=False), 50.0
    taken: list[float] = []
    for wait in [0.0, *waits]:
        now += wait
        while bucket.ready_at(now) <= now:
            bucket.take(1, now)
            taken.append(now)
    assert taken[0] == 50.0, "the first at once"
    assert most_in_a_second(taken) <= rate + 1 + 1e-3


def test_smooth_bucket_loses_no_token_to_a_slightly_late_timer() -> None:
    bucket, now, taken = TokenBucket(*smooth(1000.0), saves=False), 0.0, 0
    while now < 10.0:
        while bucket.ready_at(now) <= now:
            bucket.take(1, now)
            taken += 1
        now = bucket.ready_at(now) + 0.008
    assert taken >= 9_890


def test_smooth_bucket_saves_no_tokens_while_idle() -> None:
    bucket = TokenBucket(*smooth(1000.0), saves=False)
    for now in (50.0, 55.0):
        assert bucket.ready_at(now) == now
        bucket.take(1, now)
        assert bucket.ready_at(now) > now, "one at once"


@given(
    rate=st.floats(0.1, 10_000),
    burst=st.integers(1, 50),
    waits=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60),
)
def test_token_bucket_passes_no_more_than_burst_and_rate_allow(rate: float, burst: int, waits: list[float]) -> None:
    bucket = TokenBucket(rate, float(burst))
    start = now = 50.0
    passed = 0
    for wait in waits:
        now += wait
        while bucket.ready_at(now) <= now:
            bucket.take(1, now)
            passed += 1
            assert passed <= burst + (now - start) * rate + 1e-3
            if passed > 5000:
                return
        ready = bucket.ready_at(now)
        assert now < ready <= now + 1 / rate + 1e-9


@given(now=st.floats(0.0, 1e9), rate=st.floats(0.001, 1e19), taken=st.integers(1, 10_000))
def test_empty_bucket_is_ready_later_at_any_rate(now: float, rate: float, taken: int) -> None:
    bucket = TokenBucket(rate, 1.0)
    bucket.take(taken, now)
    assert (bucket.ready_at(now) > now) == (bucket.whole(now) == 0)
