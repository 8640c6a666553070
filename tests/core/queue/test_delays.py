"""Delayed messages in a queue: their place in the depth, their order when due, tries again, and removal."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.message import DelayedEnvelope, Envelope, Message, StoredMessage
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.delays import DUE_A_STEP, Delays, delays_of, number_of, number_text, retry_delay_s
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.flow.work import finish
from tests.support.attached_cursors import Desk, sequences
from tests.support.broker_fixture import House, a_queue, told
from tests.support.full_queue import CHARGE


def publish(house: House, key: str, content: bytes, delay_s: float, ttl_s: float | None = None) -> None:
    """Publish a message to a queue that is due after a time."""
    route = house.vhost.route("", key, True)
    house.vhost.resolve(route, {})
    if ttl_s is not None:
        route = route.variant(0, ttl_s)
    house.producer("p").publish(route.delayed(house.broker.now + delay_s), content, CHARGE)


def ready(queue: Queue) -> list[bytes]:
    """Return the contents of the ready messages, in order."""
    return [message.content for message in queue.ready_queue.messages()]


def delayed(queue: Queue) -> list[Message]:
    delays = delays_of(queue)
    return [] if delays is None else list(delays.first(1000))


def found(delays: Delays, number: int | None) -> StoredMessage | None:
    assert number is not None
    return finish(delays.find(number))


def test_delayed_message_counts_in_the_depth_and_is_not_ready() -> None:
    house, queue = a_queue()
    publish(house, "a", b"later", 5)
    assert (int(queue.messages), int(queue.bytes), int(queue.waiting())) == (1, CHARGE, 0)
    assert house.session.get(queue, True, house.broker.now) is None
    house.later(4.9)
    assert ready(queue) == []
    house.later(0.11)
    assert ready(queue) == [b"later"]
    assert (int(queue.messages), int(queue.bytes), int(queue.delayed_messages)) == (1, CHARGE, 0)


def test_delayed_messages_become_ready_at_the_end_in_the_order_of_due_times() -> None:
    house, queue = a_queue()
    for content, delay_s in ((b"third", 3), (b"first", 1), (b"second", 2), (b"also second", 2)):
        publish(house, "a", content, delay_s)
    house.publish_now("a", CHARGE)
    house.later(10)
    assert ready(queue) == [b"x", b"first", b"second", b"also second", b"third"]
    assert [int(message.sequence) for message in queue.ready_queue.messages()] == [1, 2, 3, 4, 5]


def test_due_message_reaches_a_waiting_consumer() -> None:
    house, queue = a_queue()
    house.broker.consume(house.session, Consumer("c", house.session, queue, True, False, 0))
    publish(house, "a", b"later", 1)
    assert house.broker.next_batch() is None
    house.later(1.001)
    batch = house.broker.next_batch()
    assert batch is not None
    assert [message.content for message in batch.messages if message is not None] == [b"later"]


def test_timer_is_set_for_the_first_delayed_message() -> None:
    house, _queue = a_queue()
    publish(house, "a", b"later", 60)
    publish(house, "a", b"sooner", 30)
    assert house.broker.next_deadline() == house.broker.now + 30


def test_many_due_messages_become_ready_in_slices() -> None:
    house, queue = a_queue(capacity_messages="none", capacity_bytes="none")
    for number in range(DUE_A_STEP + 1):
        publish(house, "a", b"%d" % number, 1)
    house.later(2)
    assert len(ready(queue)) == DUE_A_STEP
    house.later(0.01)
    assert ready(queue) == [b"%d" % number for number in range(DUE_A_STEP + 1)]


def test_delayed_messages_fill_the_capacity_and_hold_publishes() -> None:
    house, queue = a_queue(capacity_messages=2)
    for number in range(2):
        publish(house, "a", b"%d" % number, 60)
    assert not queue.admits(CHARGE, 1, house.broker.now)
    producer = house.producer("held")
    house.publish(producer, "a", CHARGE)
    assert len(producer.outbox) == 1
    delays = delays_of(queue)
    assert delays is not None
    assert delays.cancel_first(2, house.broker.now) == 2
    house.broker.run(1000)
    assert len(producer.outbox) == 0
    assert told(producer) == [(1, 1, True)]


def test_drop_head_drops_ready_messages_and_no_delayed_ones() -> None:
    house, queue = a_queue(capacity_messages=2, overflow="drop-head")
    publish(house, "a", b"later", 60)
    house.publish_now("a", CHARGE, 5)
    assert (int(queue.messages), int(queue.delayed_messages), len(ready(queue))) == (2, 1, 1)
    for _ in range(3):
        publish(house, "a", b"later too", 60)
    assert (int(queue.messages), int(queue.delayed_messages)) == (2, 2)


def test_length_limit_counts_ready_messages_only() -> None:
    house, queue = a_queue(**{"x-max-length": 1, "overflow": "drop-head"})
    for _ in range(3):
        publish(house, "a", b"later", 1)
    assert int(queue.delayed_messages) == 3
    house.later(2)
    assert (len(ready(queue)), int(queue.messages)) == (1, 1)


def test_time_to_live_begins_when_the_message_is_due() -> None:
    house, queue = a_queue()
    publish(house, "a", b"later", 10, ttl_s=5)
    house.later(10)
    assert ready(queue) == [b"later"]
    house.later(4.9)
    assert ready(queue) == [b"later"]
    house.later(0.2)
    house.later(0.1)
    assert ready(queue) == []
    assert int(queue.messages) == 0


def test_absolute_expiry_time_is_no_later_for_a_delayed_message() -> None:
    house, queue = a_queue()
    route = house.vhost.route("", "a", True)
    house.vhost.resolve(route, {})
    now = house.broker.now
    late = route.until(0, 20, now + 20).delayed(now + 15)
    past = route.until(0, 20, now + 20).delayed(now + 30)
    assert [each.envelope.plain.ttl_s for each in (late, past) if isinstance(each.envelope, DelayedEnvelope)] == [5, 0]
    assert int(queue.messages) == 0


def test_purge_removes_delayed_messages_too() -> None:
    house, queue = a_queue()
    house.publish_now("a", CHARGE, 2)
    for _ in range(3):
        publish(house, "a", b"later", 60)
    assert house.vhost.purge_queue(queue, house.broker.now) == 5
    assert (int(queue.messages), int(queue.bytes), int(queue.delayed_messages)) == (0, 0, 0)
    assert house.broker.next_deadline() is None
    house.later(100)
    assert ready(queue) == []


def test_deletion_removes_delayed_messages_and_their_timer() -> None:
    house, queue = a_queue()
    publish(house, "a", b"later", 60)
    house.broker.delete_queue(queue)
    assert house.broker.next_deadline() is None
    assert int(queue.messages) == 0


def test_queue_with_delayed_messages_alone_is_not_empty_for_if_empty() -> None:
    house, queue = a_queue()
    publish(house, "a", b"later", 60)
    with pytest.raises(PreconditionFailed, match="not empty"):
        house.broker.delete_queue(queue, if_empty=True)


def test_delayed_message_is_found_cancelled_and_made_ready_by_its_number() -> None:
    house, queue = a_queue()
    for content in (b"one", b"two", b"three"):
        publish(house, "a", content, 60)
    numbers = {message.content: number_of(number_text(message)) for message in delayed(queue)}
    delays = delays_of(queue)
    assert delays is not None
    two, three, four = [found(delays, numbers[name]) for name in (b"two", b"three", b"three")]
    assert two is not None
    assert three is four is not None
    assert delays.cancel(two, house.broker.now)
    assert not delays.cancel(two, house.broker.now)
    assert found(delays, numbers[b"two"]) is None
    assert delays.make_ready(three, house.broker.now)
    assert ready(queue) == [b"three"]
    assert [message.content for message in delayed(queue)] == [b"one"]
    assert int(queue.messages) == 2


@pytest.mark.parametrize("text", ["", "d", "17", "x3", "d-1", "d1.5", "r²", "d" + "9" * 19])
def test_text_that_is_no_number_of_a_delayed_message_is_none(text: str) -> None:
    assert number_of(text) is None


def test_failed_delivery_waits_for_the_retry_delay_and_returns_to_its_position() -> None:
    house, queue = a_queue(retry_delay=1000)
    house.publish_now("a", CHARGE, 3)
    first = house.session.get(queue, False, house.broker.now)
    assert first is not None
    house.session.unsettled.settle_tag(1, False, Outcome.FAILED, house.broker.now)
    assert (len(ready(queue)), int(queue.delayed_messages), int(queue.unacked_messages)) == (2, 1, 0)
    assert (int(queue.messages), int(queue.bytes)) == (3, 3 * CHARGE)
    house.later(0.99)
    assert len(ready(queue)) == 2
    house.later(0.02)
    following = queue.ready_queue.next()
    assert following is not None
    assert (int(following.sequence), following.failures) == (1, 1)
    assert int(queue.delayed_messages) == 0


def test_released_delivery_does_not_wait_for_a_retry_delay() -> None:
    house, queue = a_queue(retry_delay=1000)
    house.publish_now("a", CHARGE)
    house.session.get(queue, False, house.broker.now)
    house.session.unsettled.settle_tag(1, False, Outcome.RELEASED, house.broker.now)
    assert len(ready(queue)) == 1


def test_lost_session_delays_the_retry_of_its_deliveries() -> None:
    house, queue = a_queue(retry_delay=1000)
    house.publish_now("a", CHARGE, 3)
    house.broker.consume(house.session, Consumer("c", house.session, queue, False, False, 0))
    while house.broker.next_batch() is not None:
        pass
    assert int(queue.unacked_messages) == 3
    house.broker.end_session(house.session)
    house.broker.run(1000)
    assert (int(queue.delayed_messages), len(ready(queue))) == (3, 0)
    house.later(1.01)
    assert [int(message.sequence) for message in queue.ready_queue.messages()] == [1, 2, 3]


def test_delivery_limit_ends_the_retries() -> None:
    house, queue = a_queue(retry_delay=10, delivery_limit=1)
    house.publish_now("a", CHARGE)
    for _ in range(2):
        assert house.session.get(queue, False, house.broker.now) is not None
        house.session.unsettled.settle_tag(0, True, Outcome.FAILED, house.broker.now)
        house.later(1)
    assert int(queue.messages) == 0


def test_message_that_expires_while_it_waits_for_a_retry_expires_when_that_is_due() -> None:
    house, queue = a_queue(retry_delay=10_000)
    queue.enqueue(Envelope("", "a", 0, 5.0), b"x", CHARGE, house.broker.now)
    house.session.get(queue, False, house.broker.now)
    house.session.unsettled.settle_tag(1, False, Outcome.FAILED, house.broker.now)
    house.later(9)
    assert int(queue.messages) == 1
    house.later(1.01)
    house.later(0.1)
    house.later(0.1)
    assert int(queue.messages) == 0
    assert int(queue.counters.expired) == 1


@pytest.mark.parametrize(
    ("failures", "delay_s"), [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (63, 60.0), (32767, 60.0)]
)
def test_retry_delay_doubles_with_each_failure_up_to_the_longest(failures: int, delay_s: float) -> None:
    assert retry_delay_s(1.0, 60.0, failures) == delay_s


def test_longest_retry_delay_is_never_below_the_first() -> None:
    assert retry_delay_s(60.0, 1.0, 9) == 60.0


def test_list_of_delayed_messages_has_the_first_ones_by_due_time() -> None:
    house, queue = a_queue(capacity_messages="none", capacity_bytes="none")
    for number in range(200):
        publish(house, "a", b"%d" % number, 1 + number * 37 % 101)
    delays = delays_of(queue)
    assert delays is not None
    found = [message.envelope.due_time() for message in delays.first(50)]
    assert found == sorted(message.envelope.due_time() for message in delayed(queue))[:50]


def test_cancelled_messages_leave_the_order_of_the_others_as_it_was() -> None:
    house, queue = a_queue(capacity_messages="none", capacity_bytes="none")
    for number in range(300):
        publish(house, "a", b"%d" % number, 1 + number * 37 % 101)
    delays = delays_of(queue)
    assert delays is not None
    listed = delays.first(1000)
    for message in listed[::3]:
        assert delays.cancel(message, house.broker.now)
    rest = [message.content for index, message in enumerate(listed) if index % 3]
    house.later(200)
    house.later(1)
    assert ready(queue) == rest


def test_priority_of_a_delayed_message_counts_when_it_is_due() -> None:
    house, queue = a_queue(**{"x-max-priority": 5})
    route = house.vhost.route("", "a", True)
    house.vhost.resolve(route, {})
    house.publish_now("a", CHARGE)
    house.producer("p").publish(route.with_priority(4).delayed(house.broker.now + 1), b"urgent", CHARGE)
    house.later(2)
    following = queue.ready_queue.next()
    assert following is not None
    assert following.content == b"urgent"


def test_cursor_reads_a_delayed_message_once_when_it_is_due() -> None:
    desk = Desk(2)
    cursor = desk.attach()
    route = desk.vhost.route("", "q", True)
    desk.vhost.resolve(route, {})
    producer = Producer(desk.broker, "p", HoldBudget(1 << 20))
    producer.publish(route.delayed(10.0), b"later", CHARGE)
    desk.put(1)
    cursor.plan("q", 0, 10, 1 << 40, 1 << 40)
    assert sequences(cursor, 0, 3) == [1, 2, 3]
    desk.broker.begin(10.0)
    desk.broker.run(1000)
    cursor.plan("q", 3, 10, 1 << 40, 1 << 40)
    (message,) = cursor.read("q", 3, 4, 1 << 40, 1 << 40)
    assert (int(message.sequence), message.content) == (4, b"later")
    cursor.settle("q", 4, 10.0)
    desk.broker.run(1000)
    assert int(desk.queue.messages) == 0
