"""Figures of bridges: costs of a message, and what a run of the brake shows."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.bridges.brake import CAPACITY, Seen, report, slowed_after, spans
from bench.bridges.cost import Cost, best, between

RATE = 500.0


def seen(rates: list[int], *, highest: int = CAPACITY, lost: int = 0) -> Seen:
    """What is seen of producers with these rates, whose messages all come but so many."""
    found = Seen(100.0)
    found.sent = [100.0 + second + number / rate for second, rate in enumerate(rates) for number in range(rate)]
    found.taken = [100.0 + number / RATE for number in range(len(rates) * int(RATE))]
    found.bodies = Counter({b"%d" % number: 1 for number in range(len(found.sent) - lost)})
    found.highest = {"first": highest}
    found.full_at = 102.0
    return found


def test_least_disturbed_cost_counts() -> None:
    costs = [Cost(1.0, 2.0, 3.0), Cost(1.5, 1.0, 2.0)]
    assert best(costs) == costs[1]
    assert str(costs[1]) == "4.50 us a message (source 1.50, bridge 1.00, target 2.00)"


def test_cost_of_a_message_leaves_out_the_start() -> None:
    cost = between((0.1, 0.5, 0.3), (0.2, 0.7, 0.6), 100_000)
    assert (cost.source, cost.bridge, cost.target) == pytest.approx((1.0, 2.0, 3.0))


def test_slow_rate_is_found_after_the_full_queue() -> None:
    assert slowed_after([5000, 5000, 600, 500, 500, 500], 1, RATE) == 1
    assert slowed_after([0, 1500, 0, 0, 1500, 0], 0, RATE) == 0
    assert slowed_after([5000] * 6, 1, RATE) is None
    assert spans([500] * 25) == [500.0, 500.0]


@pytest.mark.parametrize(
    ("found", "is_met"),
    [
        (seen([3000, 3000, *[500] * 30]), True),
        (seen([3000, 3000, *[500] * 30], lost=1), False),
        (seen([3000, 3000, *[500] * 30], highest=CAPACITY + 1), False),
        (seen([3000] * 8 + [500] * 30), False),
        (seen([3000, 3000, *[500] * 10, *[800] * 10]), False),
    ],
)
def test_run_of_the_brake_is_judged(found: Seen, is_met: bool, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = int(found.sent[-1] - found.began) + 1
    assert report("amqp10", seconds, RATE, found, ["queue q is full"]) is is_met
    out = capsys.readouterr().out
    assert f"{len(found.sent):,} published" in out
    assert "why: queue q is full" in out
