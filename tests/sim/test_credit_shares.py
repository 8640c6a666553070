"""Shares of links with credit at a bounded queue, beside each other and beside publishers without credit."""

from __future__ import annotations

import pytest

from penstock.core.publish.reservation import GRANT_LEAST
from tests.support.credit_sim import ROUND_TRIP, CarefulLink, CreditSim, SimLink, SimPublisher


@pytest.mark.parametrize(("capacity", "links"), [(829, 8), (51, 8), (720, 64)])
def test_equal_links_get_equal_shares_and_the_consumer_never_runs_dry(capacity: int, links: int) -> None:
    sim = CreditSim(capacity, links, 0, 1000)
    sim.run(2000)
    sim.forget()
    dry = sim.dry
    sim.run(8000)
    shares, _ = sim.shares()
    assert max(shares) - min(shares) <= 2 * GRANT_LEAST
    assert sim.dry == dry


@pytest.mark.parametrize(("capacity", "window"), [(829, 1000), (829, 10), (51, 10), (51, 1000)])
def test_links_and_publishers_without_credit_get_equal_shares(capacity: int, window: int) -> None:
    sim = CreditSim(capacity, 4, 4, window)
    sim.run(2000)
    sim.forget()
    dry = sim.dry
    sim.run(8000)
    links, publishers = sim.shares()
    assert max(*links, *publishers) <= 1.02 * min(*links, *publishers)
    assert sim.dry == dry


@pytest.mark.parametrize("capacity", [40, 60, 85, 160, 250, 829, 4000])
@pytest.mark.parametrize("greedy", ["link", "publisher", "both are links"])
def test_greedy_window_gets_no_more_than_a_small_one(capacity: int, greedy: str) -> None:
    sim = CreditSim(capacity, 0, 0, 10)
    if greedy == "publisher":
        sim.links = [SimLink(sim.house, 10)]
        sim.publishers = [SimPublisher(sim.house, "p", 1000)]
    else:
        sim.links = [SimLink(sim.house, 1000)]
        if greedy == "link":
            sim.publishers = [SimPublisher(sim.house, "p", 10)]
        else:
            sim.links.append(SimLink(sim.house, 10))
    sim.run(2000)
    sim.forget()
    sim.run(8000)
    links, publishers = sim.shares()
    assert max(*links, *publishers) <= 1.1 * min(*links, *publishers)


def with_senders(
    capacity: int,
    kinds: str,
    windows: tuple[int, ...],
    round_trips: tuple[int, int] = (2, 2),
    sim: CreditSim | None = None,
) -> CreditSim:
    """One queue with senders, a greedy one and a light one: links with so many unsettled deliveries, or publishers."""
    sim = CreditSim(capacity, 0, 0, 10) if sim is None else sim
    for kind, window, round_trip in zip(kinds.split(), windows, round_trips, strict=False):
        if kind == "link":
            sim.links.append(CarefulLink(sim.house, window, round_trip))
        else:
            sim.publishers.append(SimPublisher(sim.house, f"p{len(sim.publishers)}", window, round_trip))
    return sim


KINDS = ["link link", "link publisher", "publisher link", "publisher publisher"]
"""The greedy sender, and the light one."""


@pytest.mark.parametrize(("capacity", "ticks"), [(51, 4000), (829, 4000), (4000, 10000)])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize(
    ("windows", "round_trips"),
    [((1000, 10), (2, 2)), ((1000, 10), (2, 4)), ((50, 50), (2, 5))],
    ids=["greedy", "greedy, and the light one slow", "one slow"],
)
def test_unsettled_deliveries_and_round_trips_change_no_shares(
    capacity: int, ticks: int, kinds: str, windows: tuple[int, int], round_trips: tuple[int, int]
) -> None:
    sim = with_senders(capacity, kinds, windows, round_trips)
    sim.run(1500)
    sim.forget()
    dry = sim.dry
    sim.run(ticks)
    links, publishers = sim.shares()
    assert max(*links, *publishers) <= 1.1 * min(*links, *publishers)
    assert sim.dry == dry
    assert len(sim.queue.gate.returning) <= 2


@pytest.mark.parametrize("capacity", [160, 829])
@pytest.mark.parametrize("kinds", KINDS)
def test_sender_of_one_message_at_a_time_is_as_fast_as_its_round_trip(capacity: int, kinds: str) -> None:
    sim = with_senders(capacity, kinds, (1000, 1))
    sim.run(1500)
    sim.forget()
    sim.run(3000)
    links, publishers = sim.shares()
    light = publishers[-1] if kinds.endswith("publisher") else links[-1]
    assert light >= 0.98 * 3000 / (ROUND_TRIP + 1)


@pytest.mark.parametrize("kind", ["link", "publisher"])
@pytest.mark.parametrize("first", ["link", "publisher"])
def test_sender_that_was_alone_for_long_shares_with_a_newcomer_at_once(first: str, kind: str) -> None:
    sim = with_senders(829, first, (1000,))
    sim.run(12000)
    with_senders(829, kind, (1000,), sim=sim)
    sim.forget()
    sim.run(3000)
    links, publishers = sim.shares()
    assert max(*links, *publishers) <= 1.2 * min(*links, *publishers)
