"""Who gets how much where links with credit share a bounded queue with each other, and with publishers without."""

from __future__ import annotations

import pytest

from penstock.core.publish.reservation import GRANT_LEAST
from tests.support.credit_sim import CarefulLink, CreditSim, SimLink, SimPublisher


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


@pytest.mark.parametrize("capacity", [51, 829, 4000])
@pytest.mark.parametrize("greedy", ["link", "publisher"])
def test_link_with_few_unsettled_deliveries_and_more_credit_keeps_a_part_of_its_share(
    capacity: int, greedy: str
) -> None:
    sim = CreditSim(capacity, 0, 0, 10)
    sim.links = [CarefulLink(sim.house, 10)]
    if greedy == "link":
        sim.links.append(CarefulLink(sim.house, 1000))
    else:
        sim.publishers = [SimPublisher(sim.house, "p", 1000)]
    sim.run(2000)
    sim.forget()
    dry = sim.dry
    sim.run(8000)
    links, publishers = sim.shares()
    assert sum(links + publishers) <= 3.3 * links[0]
    assert sim.dry == dry
    assert len(sim.queue.gate.returning) <= 2
