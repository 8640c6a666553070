"""Random kills of the spool's process, the driver and the broker, under a steady producer."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from random import Random
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from tests.profiles import thorough
from tests.support.amqp_peers import Peer, PeerLostError
from tests.support.spark_readers import bodies

pytestmark = pytest.mark.skipif(not thorough(), reason="the kills of test_reader.py at random: make test-long")

DEATHS = 30


class Producer(threading.Thread):
    """Publishes numbers with confirms until it is told to end, over as many connections as it takes."""

    def __init__(self, broker: Peer, queue: str) -> None:
        super().__init__()
        self.broker, self.queue = broker, queue
        self.ending = threading.Event()
        self.confirmed: list[bytes] = []
        self.sent = 0

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                with self.broker.sender(self.queue) as send:
                    while not self.ending.is_set():
                        self.sent += 1
                        body = b"%d" % self.sent
                        # Half of them have an id, by which a lost acknowledgement is found out.
                        send(body, **({"message_id": body.decode()} if self.sent % 2 else {}))
                        self.confirmed.append(body)
            except PeerLostError:
                self.ending.wait(0.1)


# pika leaves sockets of its own open when a broker dies while it connects.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("acknowledge", ["settled", "spooled"])
def test_messages_survive_kills_at_random(broker, reader_of, acknowledge):
    """The test keeps what Spark keeps: the borders of each batch before it is read, and its rows when it is done."""
    random = Random(acknowledge)
    queue = broker.declare()
    producer = Producer(broker, queue)
    producer.start()
    options = {"acknowledge": acknowledge, "prefetch": "300", "spoolBytes": "2m"}
    reader = reader_of(broker, queue, **options)
    start = reader.initialOffset()
    done: list[bytes] = []
    deaths = 0

    def batch(reader: Any, start: dict[str, Any], planned: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        """Run a batch, with a death somewhere in it; return the reader that lives, and the batch's end."""
        nonlocal deaths
        end = planned or reader.latestOffset(start, ReadMaxRows(random.randint(1, 200)))
        if end == start:
            return reader, end
        victim = random.choice(["nobody", "spool", "driver", "broker"])
        deaths += victim != "nobody"
        if victim == "spool":
            os.kill(reader._process.pid, signal.SIGKILL)
        elif victim == "broker":
            broker.kill()
            broker.start()
        elif victim == "driver":
            os.kill(reader._process.pid, random.choice([signal.SIGKILL, signal.SIGTERM]))
            reader.stop()
            reader = reader_of(broker, queue, **options)
        found = bodies(reader, start, end)
        assert len(found) == end["n"] - start["n"]
        assert bodies(reader, start, end) == found, "a batch is the same when it is read again"
        done.extend(found)
        return reader, end

    try:
        while deaths < DEATHS:
            reader, start = batch(reader, start, None)
    finally:
        producer.ending.set()
        producer.join()
    reader.stop()
    reader = reader_of(broker, queue, **options)
    reader.prepareForTriggerAvailableNow()
    while (end := reader.latestOffset(start, ReadMaxRows(1_000))) != start:
        done += bodies(reader, start, end)
        start = end
    reader.stop()
    assert set(producer.confirmed) - set(done) == set()
    assert broker.ready(queue) == 0
    twice = Counter(int(body) % 2 for body, count in Counter(done).items() for _ in range(count - 1))
    print(f"{acknowledge}: {len(done)} rows, {deaths} deaths, {twice[0]} twice, {twice[1]} with an id")
