"""Who looks after what expires in a queue goes with the queue."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.message import Envelope
from penstock.core.queue.expiry import EXPIRED_A_TURN
from penstock.core.queue.queue import Queue
from tests.support.broker_fixture import House
from tests.support.settings_bench import Bench


@pytest.mark.parametrize("arguments", [{"expires": 4_294_967_295}, {"message_ttl": 4_294_967_295}])
def test_what_comes_back_to_a_deleted_queue_leaves_no_deadline(arguments: dict[str, int]) -> None:
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


MANY = 20_000


CHARGE = 300


class Full(House):
    """A house whose queue `q` has many messages, numbered from 0."""

    def __init__(self, count: int = MANY, **arguments: object) -> None:
        super().__init__()
        self.queue("q", **arguments)
        self.q: Queue = self.vhost.queues["q"]
        self.fill(count)

    def fill(self, count: int, queue: str = "q") -> None:
        for number in range(count):
            self.vhost.queues[queue].enqueue(Envelope("", queue), b"%d" % number, CHARGE, self.broker.now)

    def deliver_all(self) -> None:
        """Let one consumer have everything, and be cancelled."""
        self.broker.consume(self.session, Consumer("c", self.session, self.q, False, False, 0))
        while self.broker.next_batch() is not None:
            pass
        self.broker.cancel(self.session, "c")

    def turns(self) -> int:
        """Give turns until nothing is pending; returns how many."""
        count = 0
        while self.broker.pending():
            self.broker.run(1000)
            count += 1
        return count

    def consumed(self) -> list[int]:
        """What a new consumer gets in the next turn."""
        tag = f"c{self.session.unsettled.next_number}"
        self.broker.consume(self.session, Consumer(tag, self.session, self.q, True, False, 0))
        got: list[int] = []
        while (batch := self.broker.next_batch()) is not None:
            got += [int(message.content) for message in batch.messages if message is not None]
        self.broker.cancel(self.session, tag)
        return got


def test_of_many_queues_only_so_many_messages_expire_in_a_turn() -> None:
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
        house.broker.begin(house.broker.now + 1)
        house.broker.run(1000)
        while house.broker.next_batch() is not None:
            pass
        expired.append(sum(int(queue.counters.expired) for queue in queues))
    assert max(after - before for before, after in pairwise(expired)) == EXPIRED_A_TURN


def test_what_is_not_too_old_does_not_wait_for_what_is_in_other_queues() -> None:
    house = Full(3 * EXPIRED_A_TURN, message_ttl=1000)
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
