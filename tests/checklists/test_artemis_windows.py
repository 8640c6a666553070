"""Artemis' checklist, consumers: windows in bytes, and consumers that are too slow.

There a window is a client's buffer, and a window of 0 is a message that is asked for. AMQP 0-9-1 has no such question
for a consumer: here a window bounds what is delivered and not settled, and a window of 0 is one message at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.brokers import BrokerProcess, eventually
from tests.support.checklist_clients import Board, Consumer, Producer, Taker
from tests.support.stalls import undisturbed

pytestmark = pytest.mark.clients

S = 500
"""The charge of a message in these tests."""
LARGE = 300_000
"""Octets of a large one: it comes in several frames."""


def test_get_from_an_empty_queue_leaves_later_messages_to_any_consumer(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Artemis, window 0: an empty receive leaves no trace; a message that comes later goes to anybody."""
    name = queue()
    first, second = taker(name), taker(name)
    assert first.channel.basic_get(name)[0] is None
    assert second.channel.basic_get(name)[0] is None
    publishing = producer(name).send().confirmed()
    assert second.rest() == [0]
    publishing.send().confirmed()
    assert first.rest() == [1]


def test_concurrent_gets_share_out_each_message_once(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Artemis, window 0: many threads that receive at once get each message once."""
    name = queue()
    producer(name).send(300).confirmed()
    takers = [taker(name) for _ in range(6)]
    with ThreadPoolExecutor(len(takers)) as threads:
        found = list(threads.map(Taker.rest, takers))
    assert sorted(number for numbers in found for number in numbers) == list(range(300))


@pytest.mark.parametrize("charge", [S, LARGE], ids=["small", "large"])
def test_consumer_window_of_0_delivers_one_message_to_an_idle_consumer(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    consumer: Callable[..., Consumer],
    charge: int,
) -> None:
    """Artemis, window 0: what one consumer does not use the other gets, large messages too; whoever listens has exactly
    one. (An idle one buffers none there; here it has one.)"""
    name = queue()
    idle, busy = (consumer(name, {"consumer-window-bytes": 0}) for _ in range(2))
    producer(name).send(8, charge).confirmed()
    assert (idle.buffers(), busy.buffers()) == (1, 1)
    while len(busy.bodies) < 7:
        busy.ack()
        assert busy.buffers() == 1
    busy.ack()
    assert (idle.buffers(), busy.buffers()) == (1, 0)
    assert sorted(idle.numbers + busy.numbers) == list(range(8))


def test_consumer_window_of_1_byte_delivers_one_message(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """Artemis, window 1: one message is larger than the window, and passes alone."""
    name = queue()
    producer(name).send(5, S).confirmed()
    consuming = consumer(name, {"consumer-window-bytes": 1})
    for _ in range(5):
        assert consuming.buffers() == 1
        consuming.ack()
    assert consuming.numbers == [0, 1, 2, 3, 4]


def test_window_of_ten_messages_gives_each_consumer_ten_and_its_end_gives_them_back(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer], board: Board
) -> None:
    """Artemis, window N messages: two consumers get their share each; one closes, and the rest is back in its queue."""
    name = queue()
    leaving, staying = (consumer(name, {"consumer-window-bytes": 10 * S}) for _ in range(2))
    producer(name).send(25, S).confirmed()
    assert (leaving.buffers(), staying.buffers()) == (10, 10)
    assert board.view(name)["unacknowledged"] == {"messages": 20, "bytes": 20 * S}
    leaving.close()
    eventually(lambda: board.view(name)["unacknowledged"]["messages"] == 10, "they are back")
    while len(staying.bodies) < 25:
        staying.ack()
        assert staying.buffers() <= 10
    assert sorted(staying.numbers) == list(range(25))


def test_messages_alternate_between_consumers_without_a_window(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """Artemis, window -1: two consumers get the same number, in turn."""
    name = queue()
    consumers = [consumer(name, {"consumer-window-bytes": -1}) for _ in range(2)]
    publishing = producer(name)
    for _ in range(40):
        publishing.send(1, S).settled()
    assert [each.buffers() for each in consumers] == [20, 20]


def test_wide_window_is_filled_and_filled_again_while_its_consumer_goes_on(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """Artemis, window 300,000: at least ten messages are out, and others come as they are acknowledged."""
    name = queue()
    producer(name).send(50, 10_000).confirmed()
    consuming = consumer(name, {"consumer-window-bytes": 300_000})
    assert consuming.buffers() == 30
    consuming.ack(15)
    assert consuming.buffers() == 30
    consuming.ack()
    assert consuming.buffers() == 5


def test_window_comes_from_the_settings_of_the_queues_name(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    consumer: Callable[..., Consumer],
    say: Callable[..., None],
    board: Board,
) -> None:
    """Artemis, window from address settings: by exact name, by pattern, and where the message went to another name (its
    exchange); what the consumer asks for itself wins."""
    exact, near, far = queue(prefix="windows.exact"), queue(name="windows.near.one"), queue(name="windows.far.one.two")
    say("queue", exact, {"default-consumer-window-size": 2 * S})
    say("queue", "windows.*.*", {"default-consumer-window-size": "3kb"})
    say("queue", "windows.#", {"consumer-window-bytes": 0})
    for name in (exact, near, far):
        board.keeper.queue_bind(name, "amq.fanout")
    producer("", "amq.fanout").send(10, S).confirmed()
    assert [consumer(name).buffers() for name in (exact, near, far)] == [2, 3 * 1024 // S, 1]
    assert consumer(far, {"consumerWindowSize": 4 * S}).buffers() == 4


@pytest.mark.parametrize("how", ["nack", "recover", "rollback"])
def test_returned_message_restores_exactly_its_credit(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    consumer: Callable[..., Consumer],
    how: str,
) -> None:
    """Artemis, credits of messages that are rolled back: none is lost and none is won, however often."""
    name = queue()
    producer(name).send(20, S).confirmed()
    consuming = consumer(name, {"consumer-window-bytes": 5 * S})
    if how == "rollback":
        consuming.channel.tx_select()
    for _ in range(10):
        assert consuming.buffers() == 5
        if how == "nack":
            consuming.back()
            continue
        if how == "rollback":
            for tag in consuming.tags:
                consuming.channel.basic_ack(tag)
            consuming.channel.tx_rollback()
        consuming.tags.clear()
        consuming.channel.basic_recover(requeue=True)
        if how == "rollback":
            consuming.channel.tx_commit()
    assert consuming.buffers() == 5
    assert set(consuming.numbers) <= set(range(20))


def test_large_unsettled_message_does_not_delay_the_next(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """Artemis, ignored large bodies: without a window the next ones come although the large one is not settled."""
    name = queue()
    producer(name).send(1, LARGE).send(9, S).confirmed()
    consuming = consumer(name)
    assert consuming.buffers() == 10
    assert consuming.numbers == list(range(10))


# Slow consumers

SLOW = {"slow-consumer-threshold": 100, "slow-consumer-check-period": "0.1", "slow-consumer-policy": "KILL"}


def cancelled(consumer: Consumer) -> bool:
    consumer.connection.process_data_events(0)
    return bool(consumer.cancelled)


def test_slow_consumer_of_a_pattern_is_cancelled_and_logged_with_its_rate(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    consumer: Callable[..., Consumer],
    say: Callable[..., None],
    board: Board,
) -> None:
    """Artemis, slow consumers: killed on a queue that a wildcard matches, and the notification names who and how slow.
    Only the consumer ends here, not its connection."""
    name = queue(prefix="slow.one")
    say("queue", "slow.#", dict(SLOW))
    producer(name).send(5, S).confirmed()
    slow = consumer(name, prefetch=1)
    eventually(lambda: cancelled(slow), "its end")
    board.logged(f"Slow Consumer {slow.tag} : 0 messages/s, Least : 100, cancelled", 1)
    assert slow.connection.is_open
    assert (board.view(name)["consumers"], board.depth(name)) == (0, 5)


def test_consumer_that_was_fast_for_a_burst_is_cancelled_when_it_stops(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """Artemis, slow consumers: killed after a burst, when messages wait and nothing is settled any more."""
    name = queue()
    publishing = producer(name).send(50, S).confirmed()
    consuming = consumer(name, dict(SLOW), prefetch=50)
    assert consuming.buffers() == 50
    consuming.ack()
    publishing.send(60, S).confirmed()
    assert consuming.buffers() == 50
    eventually(lambda: cancelled(consuming), "its end")


def test_slow_consumers_of_three_are_cancelled_and_the_fast_one_stays(
    broker: BrokerProcess,
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    consumer: Callable[..., Consumer],
) -> None:
    """Artemis, slow consumers: of three on one queue only the slow ones die; who acknowledges enough is spared."""

    def compete() -> None:
        name = queue()
        producer(name).send(3000, S).confirmed()
        terms = {"slow-consumer-rate": 1, "slow-consumer-period": 1, "slow-consumer-policy": "cancel"}
        fast, *slow = (consumer(name, terms, prefetch=1) for _ in range(3))

        def goes_on() -> bool:
            fast.connection.process_data_events(0)
            fast.ack()
            ended = [cancelled(each) for each in slow]
            return all(ended)

        eventually(goes_on, "the end of the slow ones")
        assert fast.cancelled == []

    undisturbed(compete, broker)


def test_consumer_of_an_idle_queue_is_spared(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """Artemis, slow consumers: spared when the queue itself is slow, and when the burst has been dealt with. Another
    one, subscribed later and slow, shows that the time for it has come."""
    idle, busy = queue(), queue()
    producer(idle).send(5, S).confirmed()
    spared = consumer(idle, dict(SLOW))
    assert spared.buffers() == 5
    spared.ack()
    assert spared.buffers() == 0
    producer(busy).send(5, S).confirmed()
    slow = consumer(busy, dict(SLOW), prefetch=1)
    eventually(lambda: cancelled(slow), "the end of the other")
    assert not cancelled(spared)


def test_threshold_of_0_is_refused(refused: Callable[[dict[str, object]], str]) -> None:
    """Artemis, slow consumers: a threshold of 0 kills whoever is idle there. Here it is no threshold; -1 is none."""
    assert "slow-consumer-threshold=0" in refused({"slow-consumer-threshold": 0})
