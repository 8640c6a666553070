"""Deleted queues with waiting producers or unacknowledged messages."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.consume.session import Session
from penstock.core.effects import GateChanged
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Defaults

SMALL: dict[str, object] = {"capacity-messages": 2, "stop-messages": 0, "resume-messages": 0, "hold-deadline": 0}


class Bench:
    def __init__(self) -> None:
        self.broker = Broker(Defaults())
        self.vhost = self.broker.add_vhost("/")
        self.route: Route = self.vhost.route("", "q", False)
        self.queue = self.declare()
        self.session = Session()

    def declare(self) -> Queue:
        return self.vhost.declare_queue("q", SMALL, False, False, None, None)

    def producer(self) -> Producer:
        producer = Producer(self.broker, "p", HoldBudget(10_000))
        producer.confirming = True
        return producer

    def publish(self, producer: Producer, times: int) -> None:
        for _ in range(times):
            if self.route.epoch != self.vhost.epoch:
                self.vhost.resolve(self.route, {})
            producer.publish(self.route, b"", 10)

    def told(self, producer: Producer) -> list[tuple[int, int, bool]]:
        self.broker.run(1000)
        self.broker.take_confirming()
        return [(int(each.first), int(each.last), each.confirmed) for each in producer.confirms.take()]


def test_gate_of_a_deleted_queue_opens_for_good_above_its_stop() -> None:
    bench = Bench()
    producer = bench.producer()
    bench.publish(producer, 1)
    assert bench.session.get(bench.queue, False, 0.0) is not None
    assert bench.told(producer) == []
    bench.broker.delete_queue(bench.queue)
    assert bench.queue.gate.open
    assert bench.told(producer) == [(1, 1, True)]
    assert not producer.gates
    crossings = [each.transition.closed for each in bench.broker.effects() if isinstance(each, GateChanged)]
    assert crossings == [True, False]


def test_producer_that_waits_for_a_queue_is_answered_when_the_queue_is_deleted() -> None:
    bench = Bench()
    producer = bench.producer()
    bench.publish(producer, 3)
    for _ in range(2):
        bench.session.get(bench.queue, False, 0.0)
    bench.broker.delete_queue(bench.queue)
    assert bench.told(producer) == [(3, 3, False), (1, 2, True)]
    bench.session.unsettled.acknowledge(2, True, 0.0)
    assert (bench.queue.messages, bench.queue.unacked_messages) == (0, 0)


def test_held_publish_does_not_enter_a_new_queue_of_the_same_name() -> None:
    bench = Bench()
    producer, other = bench.producer(), bench.producer()
    bench.publish(producer, 3)
    bench.broker.delete_queue(bench.queue)
    again = bench.declare()
    bench.publish(other, 1)  # It takes the same route, which is found again.
    assert (3, 3, False) in bench.told(producer)
    assert [int(message.sequence) for message in again.ready_queue.ready] == [1]
