"""The brake's verdict: capacities, the bound of a virtual host, and that each number came once."""

from __future__ import annotations

from dataclasses import replace

from bench.crash_spark.judge import Verdict, judge
from bench.spark.brake import BOUNDED, CAPACITY, PLAIN, QUEUES, Run, Sample


def sample(at: float, **changes: object) -> Sample:
    """Return a look at full queues after so many seconds; 500 messages a second pass."""
    full = dict.fromkeys(QUEUES, CAPACITY)
    gates = dict.fromkeys(QUEUES, False)
    given = Sample(at, full, full, gates, 3 * CAPACITY, int(500 * at) + 3 * CAPACITY, int(500 * at))
    return replace(given, **changes)  # type: ignore[arg-type]


def run_of(kind: str, limit: int | None, **changes: object) -> Run:
    samples = [sample(float(second), **changes) for second in range(1, 601)]
    return Run(kind, 600.0, limit, (1.0, 1.0, 1.0), samples, Verdict(300_000, 0, 0, 0))


def test_full_queues_and_an_exact_count_are_no_fault() -> None:
    run = run_of(PLAIN, None)
    assert run.faults() == []
    assert run.rate(lambda each: each.accepted) == 500.0
    assert [line for line in run.told() if "300,000 exactly once" in line]


def test_queue_above_its_capacity_is_a_fault() -> None:
    run = run_of(PLAIN, None, highest={"q1": CAPACITY, "q2": CAPACITY + 1, "q3": CAPACITY})
    assert run.faults() == ["q2 had 4,001 messages, its capacity is 4,000"]


def test_virtual_host_above_its_capacity_and_two_halves_is_a_fault() -> None:
    assert run_of(BOUNDED, CAPACITY, total=2 * CAPACITY).faults() == []
    run = run_of(BOUNDED, CAPACITY, total=2 * CAPACITY + 1)
    assert run.faults() == ["the virtual host had 8,001 messages, its bound is 8,000"]


def test_lost_and_doubled_messages_are_a_fault() -> None:
    run = run_of(PLAIN, None)
    run.verdict = judge(["0-0", "0-1", "1-0"], ["0-0", "0-0", "1-0"])
    assert run.faults() == ["of 3: 1 lost, 1 doubled, 0 strange"]
