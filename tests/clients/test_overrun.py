"""Producers at full speed: no queue is overrun, the broker's memory is flat, and equal producers get equal shares."""

from __future__ import annotations

import threading
import time

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.soak import overrun
from tests.support.brokers import PATIENCE, BrokerProcess, eventually

pytestmark = pytest.mark.clients

MIB = 1024 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("confirming", [False, True], ids=["without-confirms", "with-confirms"])
def test_producer_at_full_speed_without_a_consumer_overruns_nothing(
    own_broker: BrokerProcess, confirming: bool
) -> None:
    seen = overrun(own_broker, seconds=3, capacity=4 * MIB, body=1000, confirming=confirming, step=0.5)
    assert seen.capacity == 4 * MIB
    assert 3 * MIB < seen.highest <= 4 * MIB
    assert max(seen.rss) - seen.rss[0] < 24 * MIB, "the queue, what is held, and buffers"
    assert seen.full_at, "the queue grows no more"
    flat = seen.rss[seen.full_at + 1 :]
    assert max(flat) - flat[0] < 4 * MIB, "flat from the step after that on"


@pytest.mark.slow
def test_eight_equal_producers_get_equal_shares(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"capacity-messages": 8, "stop-messages": 6, "resume-messages": 4})
    over = threading.Event()

    def publish(who: int) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        publishing = connection.channel()
        publishing.confirm_delivery()
        while not over.is_set():
            publishing.basic_publish("", name, str(who).encode())
        connection.close()

    threads = [threading.Thread(target=publish, args=(who,), daemon=True) for who in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(broker.queue(name)["blocked"]) == len(threads), "all of them wait")
    counts = [0] * 8
    for _ in range(800):
        method, _, body = eventually(lambda: (got := channel.basic_get(name, auto_ack=True))[0] and got, "a message")
        assert method is not None
        counts[int(body)] += 1
    over.set()
    deadline = time.monotonic() + PATIENCE
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        channel.basic_get(name, auto_ack=True)
    assert not any(thread.is_alive() for thread in threads)
    assert min(counts) >= 60, counts  # Each publishes when it has its answer, and some threads are slower than others.
    assert max(counts) <= 150, counts
    channel.queue_delete(name)
