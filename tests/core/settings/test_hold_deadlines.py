"""A hold deadline that is changed while publishes wait."""

from __future__ import annotations

from tests.support import at_once
from tests.support.settings_bench import Bench


def test_hold_deadline_counts_from_the_change_for_waiting_publishes(bench: Bench) -> None:
    queue, producer = bench.queue("q", capacity_messages=2), bench.producer()
    bench.publish(producer, "q", 10, 10, 10)
    bench.run(20.0)
    assert bench.told(producer) == [(1, 1, True)]
    bench.set("queue", "q", hold_deadline=10)
    bench.run(29.0)
    assert bench.told(producer) == [], "25 s were said when it came, 10 at 20 s"
    assert bench.broker.next_deadline() == 30.0
    bench.run(30.0)
    assert sorted(bench.told(producer)) == [(2, 2, True), (3, 3, False)]
    assert queue.messages == 2


def test_hold_deadline_may_be_set_and_removed_while_a_publish_waits(bench: Bench) -> None:
    bench.queue("q", capacity_messages=1, stop_messages=1)
    producer = bench.producer()
    bench.set("queue", "q", hold_deadline=0)
    bench.publish(producer, "q", 10, 10)
    assert bench.broker.next_deadline() is None
    bench.set("vhost", "/", hold_deadline=5)
    assert bench.broker.next_deadline() is None, "the queue's own pattern says more than its virtual host"
    at_once.remove(bench.broker, "queue", "q", ["hold-deadline"])
    assert bench.broker.next_deadline() == 5.0
    bench.set("queue", "q", hold_deadline=0)
    bench.run(1000.0)
    assert bench.told(producer) == [(1, 1, True)]
    assert len(producer.outbox) == 1
    assert bench.broker.next_deadline() is None
