"""Cached routes: the target of a lookup, its variants, and what the fast path needs of it."""

from __future__ import annotations

import pytest

from penstock.core.routing.route import CONTROL_EXCHANGE, NOWHERE, Route
from tests.support.durable_broker import Kept
from tests.support.topology import resolve


def test_a_route_to_one_queue_appends_to_its_lane_and_has_at_most_one_fast_queue() -> None:
    kept = Kept()
    stored, passing = resolve(kept.vhost, "", "a").persistent(), resolve(kept.vhost, "", "passing").persistent()
    assert (stored.single_queue, stored.stored_queue) == (None, kept.vhost.queues["a"])
    assert (passing.single_queue, passing.stored_queue) == (kept.vhost.queues["passing"], None)
    assert stored.append == kept.vhost.queues["a"].ready_queue.ready_for(0).append
    assert stored.single_queue_for() is kept.vhost.queues["a"]


def test_variants_of_a_route_share_its_target_until_it_is_resolved_again() -> None:
    kept = Kept()
    route = resolve(kept.vhost, "", "a")
    variants = [route.persistent(), route.with_priority(4), route.variant(2, 1.5), route.persistent().with_priority(4)]
    assert all(each.target is route.target and each.epoch == route.epoch for each in variants)
    assert route.persistent() is variants[0]
    assert [each.envelope.priority for each in variants] == [0, 4, 2, 4]
    kept.vhost.resolve(route, {})
    assert route.persistent() is not variants[0]


def test_a_route_with_a_time_to_live_has_no_fast_queue() -> None:
    route = resolve(Kept().vhost, "", "passing").variant(0, 1.5)
    assert (route.single_queue, route.stored_queue, len(route.queues)) == (None, None, 1)
    assert route.append == NOWHERE.append


@pytest.mark.parametrize(
    ("exchange", "control", "by_headers"),
    [("amq.direct", False, False), ("amq.headers", False, True), (CONTROL_EXCHANGE, True, False)],
)
def test_the_target_of_a_route_says_how_a_publish_is_handled(exchange: str, control: bool, by_headers: bool) -> None:
    kept = Kept()
    if exchange != CONTROL_EXCHANGE:
        kept.vhost.bind(exchange, kept.vhost.queues["passing"], None, "k", {})
    elif exchange not in kept.vhost.exchanges:
        kept.vhost.declare_exchange(exchange, "topic", {}, False, False, False)
    route = resolve(kept.vhost, exchange, "k")
    assert (route.control, route.by_headers) == (control, by_headers)
    assert route.target.is_current(), "nothing changed since the lookup"


def test_a_route_is_current_until_an_exchange_on_its_way_changes() -> None:
    kept = Kept()
    kept.vhost.bind("amq.direct", kept.vhost.queues["passing"], None, "k", {})
    route = resolve(kept.vhost, "amq.direct", "k")
    kept.vhost.bind("amq.topic", kept.vhost.queues["a"], None, "k", {})
    assert route.is_current(kept.vhost.epoch, kept.vhost.era), "another exchange has changed"
    kept.vhost.bind("amq.direct", kept.vhost.queues["a"], None, "k", {})
    assert not route.is_current(kept.vhost.epoch, kept.vhost.era)
    assert not Route(route.envelope, False).is_current(kept.vhost.epoch, kept.vhost.era), "it was never resolved"
