"""Loads: processes that send and receive, and the result rows of their measurements."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.bench import loads
from penstock.client.bench.loads import Run
from penstock.client.bench.parties import Load, bucket_of
from penstock.client.bench.target import BenchError, Target

SHORT = Load(seconds=0.4, warm_up=0.1, interval=0.1)
MS = 1_000_000


def play(target: Target, load: Load) -> Run:
    lines: list[str] = []
    with target.queue() as queue:
        return loads.play(target, queue, load, lines.append, lambda: 1.0)


def test_throughput_has_every_message_that_was_confirmed(target: Target) -> None:
    run = play(target, SHORT._replace(most=2000, senders=2))
    row = loads.throughput(run)
    assert row["case"] == "2 to 1, 100 B, window 1,000"
    assert (row["refused"], row["missing"]) == (0, 0)
    assert run.total(run.senders, "messages") == run.total(run.receivers, "messages") == 2000
    assert set(loads.courses(run)) == {"confirmed/s", "received/s"}


def test_latency_has_a_row_to_the_confirm_to_the_receiver_and_of_the_bench(target: Target) -> None:
    run = play(target, SHORT._replace(rate=200.0))
    confirm, receiver, bench = loads.latency(run)
    assert confirm["messages"] == receiver["messages"] == 80  # Without the 20 of the warm-up.
    assert (confirm["refused"], confirm["not sent"]) == (0, 0)
    assert str(bench["case"]).endswith(": of the bench")
    for row in (confirm, receiver):
        shares = [float(str(row[name])) for name in loads.PERCENTILES]
        assert shares == sorted(shares)
        assert shares[0] > 0


def test_run_on_a_missing_queue_ends_with_the_reason(target: Target) -> None:
    with pytest.raises(BenchError, match="no-such-queue"):
        loads.play(target, "no-such-queue", SHORT, lambda text: None, lambda: None)


def party(*intervals_ms: int) -> dict[str, Any]:
    """Return the end of a party with one message an interval, and none after the end."""
    return {"messages": len(intervals_ms), "track": [*([(bucket_of(ms * MS), 1)] for ms in intervals_ms), []]}


def test_soak_compares_the_first_tenth_with_the_last() -> None:
    memory = [(float(at), 100.0 + at) for at in range(10)]
    run = Run(SHORT, 0, [party(*range(1, 11))], [party(*range(2, 12))], memory)
    first, last, drift = loads.soak(run)
    assert first["confirm p50 ms"] == pytest.approx(1.0, rel=0.01)
    assert last["receiver p99 ms"] == pytest.approx(11.0, rel=0.01)
    assert drift["confirm p50 ms"] == pytest.approx(9.0, rel=0.01)
    assert (first["broker MiB"], last["broker MiB"], drift["broker MiB"]) == (100.0, 109.0, 9.0)
    assert (drift["messages"], drift["failed"], drift["missing"]) == (10, 0, 0)


def test_intervals_of_the_warm_up_and_after_the_end_are_left_out() -> None:
    found = Run(SHORT, 1, [party(1, 2, 3)], [], []).course([party(1, 2, 3), party(1, 1, 1)])
    assert [each.total for each in found] == [2, 2]
