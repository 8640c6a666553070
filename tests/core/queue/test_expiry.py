"""Expiry of messages and queues, and timers that end with their queue."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.message import Envelope
from penstock.core.queue.expiry import EXPIRED_A_TURN
from penstock.settings.table import MILLISECONDS_MAX
from tests.support.broker_fixture import House
from tests.support.full_queue import CHARGE, FullQueue
from tests.support.settings_bench import Bench


@pytest.mark.parametrize("arguments", [{"expires": MILLISECONDS_MAX}, {"message_ttl": MILLISECONDS_MAX}])
def test_message_returned_to_a_deleted_queue_leaves_no_deadline(arguments: dict[str, int]) -> None:
    bench = Bench()
    broker = bench.broker
    queue = bench.queue("q", **arguments)
    queue.enqueue(Envelope("", "q"), b"x", 300, broker.now)
    assert bench.session.get(queue, False, broker.now) is not None
    assert broker.next_deadline() is not None or "message_ttl" in arguments
    broker.delete_queue(queue)
    broker.end_session(bench.session)
    while broker.next_batch() is not None:
        pass
    assert broker.next_deadline() is None


def test_messages_expired_in_a_turn_are_bounded_over_all_queues() -> None:
    house = House()
    for number in range(20):
        house.queue(f"q{number}", message_ttl=1000)
        queue = house.vhost.queues[f"q{number}"]
        for _ in range(400):
            queue.enqueue(Envelope("", queue.name), b"x", CHARGE, house.broker.now)
        house.broker.touch_queue(queue)
    queues = [house.vhost.queues[f"q{number}"] for number in range(20)]
    house.broker.run(1000)
    expired = [0]
    while expired[-1] < 8000:
        house.later(1)
        while house.broker.next_batch() is not None:
            pass
        expired.append(sum(int(queue.counters.expired) for queue in queues))
    assert max(after - before for before, after in pairwise(expired)) == EXPIRED_A_TURN


def test_delivery_of_a_fresh_message_does_not_wait_for_expiry_elsewhere() -> None:
    house = FullQueue(3 * EXPIRED_A_TURN, message_ttl=1000)
    for number in range(5):
        house.queue(f"old{number}", message_ttl=1000)
        house.fill(1000, f"old{number}")
        house.broker.touch_queue(house.vhost.queues[f"old{number}"])
    house.broker.touch_queue(house.q)
    house.broker.run(1000)
    house.broker.begin(house.broker.now + 5)
    house.queue("fresh", message_ttl=60_000)
    house.fill(1, "fresh")
    fresh = house.vhost.queues["fresh"]
    house.broker.consume(house.session, Consumer("f", house.session, fresh, True, False, 0))
    house.broker.touch_queue(fresh)
    house.broker.run(1000)
    assert house.broker.expirable == 0
    assert house.broker.next_batch() is not None
