"""Enqueueing into all queues of a route."""

from __future__ import annotations

from penstock.core.publish.admission import QUEUE_WORK, enqueue_all
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.gate import Gate
from tests.support.broker_fixture import House
from tests.support.topology import resolve


def fanout(house: House, **capacities: int) -> Route:
    for name, most in capacities.items():
        house.queue(name, capacity_messages=most, overflow="reject")
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    route = resolve(house.vhost, "amq.fanout")
    return route


def enqueued(house: House, route: Route) -> Queue | None:
    closed: list[Gate] = []
    return enqueue_all(house.broker, [], route, route.queues, b"x", 100, closed)


def test_enqueue_puts_a_message_into_every_queue_and_counts_its_work() -> None:
    house = House()
    route = fanout(house, a=5, b=5)
    before = house.broker.work.done
    assert enqueued(house, route) is None
    assert (house.depth("a"), house.depth("b")) == (1, 1)
    assert house.broker.work.done - before == 2 * QUEUE_WORK


def test_enqueue_returns_the_queue_that_refused_and_fills_the_others() -> None:
    house = House()
    route = fanout(house, a=1, b=5)
    enqueued(house, route)
    assert enqueued(house, route) is house.vhost.queue("a")
    assert (house.depth("a"), house.depth("b")) == (1, 2)
    assert int(house.vhost.queue("a").counters.refused) == 1
