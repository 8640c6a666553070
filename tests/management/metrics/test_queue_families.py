"""Metrics of queues: their values are those of the deciding code."""

from __future__ import annotations

from penstock.management.metrics.queue_families import FAMILIES
from penstock.management.metrics.scrape import Selection
from tests.support.blocked_producers import BlockedProducers
from tests.support.metrics import Samples, samples_of, scraped


def of_queue(samples: Samples, name: str, queue: str = "orders") -> float | None:
    return samples.get((name, f"queue={queue}", "vhost=/"))


def test_blocked_queue_shows_gate_producers_and_depth() -> None:
    rig = BlockedProducers()
    for _ in range(4):
        rig.do("publish", 0, "orders")
    rig.do("publish", 1, "orders")
    rig.do("publish", 2, "orders")
    rig.do("wait", 1, "")
    found = samples_of(scraped(rig.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_gate_open") == 0
    assert of_queue(found, "penstock_queue_gate_open", "audit") == 1
    assert of_queue(found, "penstock_queue_depth_messages") == 5
    assert of_queue(found, "penstock_queue_capacity_messages") == 5
    assert of_queue(found, "penstock_queue_stop_messages") == 3
    assert of_queue(found, "penstock_queue_resume_messages") == 1
    assert of_queue(found, "penstock_queue_fill_ratio") == 1.0
    assert of_queue(found, "penstock_queue_gate_crossings_total") == 1
    assert of_queue(found, "penstock_queue_gate_closed_seconds_total") == 10
    assert of_queue(found, "penstock_queue_blocked_producers") == 3
    assert of_queue(found, "penstock_queue_producers_blocked_seconds_total") == 30
    assert of_queue(found, "penstock_queue_waiting_producers") == 1
    assert of_queue(found, "penstock_queue_publishes_held_total") == 1
    assert of_queue(found, "penstock_queue_confirms_withheld_total") == 2
    assert of_queue(found, "rabbitmq_queue_messages_ready") == 5
    assert of_queue(found, "rabbitmq_queue_messages_published_total") == 5


def test_queue_without_a_capacity_has_no_fill_and_infinite_limits() -> None:
    rig = BlockedProducers()
    rig.user.declare("wide")
    rig.driver.broker.vhosts["/"].queues["wide"].thresholds.capacity.messages = 1 << 62
    found = samples_of(scraped(rig.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_capacity_messages", "wide") == float("inf")


def test_every_family_says_what_it_means_and_counters_end_with_total() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert family.help
        assert (family.kind == "counter") is family.name.endswith("_total"), family.name
