"""Settings that change at run time: effective at once, in both directions."""

from __future__ import annotations

from penstock.core.effects import CloseSession
from penstock.errors import ContentTooLarge
from tests.support import at_once
from tests.support.settings_bench import Bench


def test_raised_threshold_releases_blocked_producers_at_once(bench: Bench) -> None:
    queue, producer = bench.queue("q"), bench.producer()
    bench.set("queue", "q", capacity_messages=4, stop_messages=2, resume_messages=1, hold_deadline=0)
    bench.publish(producer, "q", *[10] * 6)
    assert (queue.messages, len(producer.outbox), queue.gate.open) == (4, 2, False)
    assert bench.told(producer) == [(1, 2, True)]
    bench.set("queue", "q", capacity_messages=20, stop_messages=10, resume_messages=10)
    bench.run()
    assert (queue.messages, len(producer.outbox), queue.gate.open) == (6, 0, True)
    assert bench.told(producer) == [(3, 6, True)]
    assert not producer.gates
    assert bench.crossings() == [True, False]


def test_lowered_threshold_closes_the_gate_at_once_and_drops_no_message(bench: Bench) -> None:
    queue, producer = bench.queue("q", capacity_messages=100), bench.producer()
    bench.publish(producer, "q", *[10] * 50)
    assert queue.gate.open
    bench.told(producer)
    bench.set("queue", "#", stop_messages=49, resume_messages=10)
    assert not queue.gate.open
    assert queue.messages == 50
    bench.publish(producer, "q", 10)
    assert bench.told(producer) == []  # Taken, for it is below the capacity, and withheld.
    assert queue.messages == 51
    bench.set("queue", "#", stop_messages=60, resume_messages=50)
    bench.run()
    assert not queue.gate.open, "51 is above resume: between the thresholds a gate stays as it is"
    bench.set("queue", "#", resume_messages=51)
    bench.run()
    assert queue.gate.open
    assert bench.told(producer) == [(51, 51, True)]


def test_removed_threshold_opens_the_gate(bench: Bench) -> None:
    queue, producer = bench.queue("q"), bench.producer()
    bench.set("queue", "q", capacity_messages=3, hold_deadline=0)
    bench.publish(producer, "q", *[10] * 5)
    assert (queue.messages, len(producer.outbox)) == (3, 2)
    at_once.remove(bench.broker, "queue", "q", [])
    bench.run()
    assert (queue.messages, len(producer.outbox), queue.gate.open) == (5, 0, True)
    assert queue.thresholds.capacity.as_dict() == {"messages": None, "bytes": 100 * 1024 * 1024}


def test_lowered_capacity_holds_new_messages_and_keeps_present_messages(bench: Bench) -> None:
    queue, producer = bench.queue("q", overflow="block"), bench.producer()
    bench.publish(producer, "q", *[10] * 9)
    bench.set("queue", "q", capacity_messages=5)
    bench.publish(producer, "q", 10)
    assert (queue.messages, len(producer.outbox)) == (9, 1)


def test_changed_overflow_policy_decides_at_once_about_held_publishes(bench: Bench) -> None:
    queue, producer = bench.queue("q", capacity_messages=2, hold_deadline=0), bench.producer()
    bench.publish(producer, "q", *[10] * 4)
    assert len(producer.outbox) == 2
    bench.set("queue", "q", overflow="drop-head")
    bench.run()
    assert (queue.messages, queue.counters.dropped, len(producer.outbox)) == (2, 2, 0)
    assert bench.told(producer) == [(1, 4, True)]
    assert queue.gate.open, "drop-head has no thresholds of its own"


def test_held_publish_that_can_never_fit_any_more_is_refused_and_the_rest_pass(bench: Bench) -> None:
    queue, producer = bench.queue("q", overflow="block", hold_deadline=0), bench.producer()
    bench.set("queue", "q", capacity_bytes=1000, stop_bytes=900)
    bench.publish(producer, "q", 900, 500, 10)
    assert len(producer.outbox) == 2
    bench.set("queue", "q", capacity_bytes=400, stop_bytes=300)
    message = bench.session.get(queue, True, 0.0)
    assert message is not None
    bench.run()
    assert (queue.messages, len(producer.outbox)) == (1, 0)
    assert sorted(bench.told(producer)) == [(1, 1, True), (2, 2, False), (3, 3, True)]


def test_channel_without_confirms_is_closed_if_the_publish_can_never_fit(bench: Bench) -> None:
    queue, producer = bench.queue("q", overflow="block", hold_deadline=0), bench.producer(confirming=False)
    bench.set("queue", "q", capacity_bytes=1000, stop_bytes=900)
    bench.publish(producer, "q", 900, 500, 10)
    bench.set("queue", "q", capacity_bytes=400, stop_bytes=300)
    assert bench.session.get(queue, True, 0.0) is not None
    bench.run()
    errors = [each.error for each in bench.broker.effects() if isinstance(each, CloseSession)]
    assert [type(error) for error in errors] == [ContentTooLarge]
    assert "500 bytes" in str(errors[0])
    assert queue.messages == 0, "what came after it is not put before it"
    producer.abort()
    assert not queue.gate.waiters


def test_ttl_set_later_drops_messages_that_are_too_old(bench: Bench) -> None:
    queue, producer = bench.queue("q"), bench.producer()
    bench.publish(producer, "q", 10)
    bench.run(10.0)
    bench.publish(producer, "q", 10)
    bench.set("queue", "#", message_ttl=5000)
    bench.run(10.0)
    assert (queue.messages, queue.counters.expired) == (1, 1)
    bench.run(15.0)
    assert queue.messages == 0
    at_once.remove(bench.broker, "queue", "#", [])
    bench.publish(producer, "q", 10)
    bench.run(100.0)
    assert queue.messages == 1


def test_expires_set_later_applies_to_an_unused_queue(bench: Bench) -> None:
    bench.queue("q")
    bench.set("queue", "q", expires=2000)
    bench.run(2.0)
    assert "q" not in bench.vhost.queues
