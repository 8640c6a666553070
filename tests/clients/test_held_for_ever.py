"""A hold deadline of 0 never ends: no publisher is refused or given up, and memory stays bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.support.brokers import BrokerProcess, eventually, in_background, serving, settings_file, some_name
from tests.support.pika_helpers import consumed
from tests.support.stalls import undisturbed

pytestmark = pytest.mark.clients

KIB = 1024


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose own deadline, from which its bounds are reckoned, is one second."""
    with serving(tmp_path, *settings_file(tmp_path, "[broker]\nhold-deadline-s = 1\nhold-bytes = 262144\n")) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.mark.slow
def test_publisher_without_confirms_waits_without_a_deadline(broker: BrokerProcess) -> None:
    """With heartbeats every second."""
    undisturbed(lambda: hold(broker, some_name("q")), broker)


def hold(broker: BrokerProcess, name: str) -> None:
    count, size = 64, 128 * KIB
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare(name, arguments={"capacity-messages": 4, "hold-deadline": 0})
    parameters = pika.URLParameters(broker.url)
    parameters.heartbeat = 1
    held: list[float] = []

    def publish() -> None:
        publishing = pika.BlockingConnection(parameters)
        sending = publishing.channel()
        for number in range(count):
            sending.basic_publish("", name, str(number).encode().ljust(size))
        publishing.close()

    try:
        with in_background(publish):
            eventually(lambda: broker.queue(name)["blocked"], "it is blocked")
            before = broker.rss()
            start = time.monotonic()
            while time.monotonic() < start + 5:
                connection.process_data_events(0.25)
                view = broker.queue(name)
                assert len(view["blocked"]) == 1, "it waits, and is neither refused nor given up"
                held.append(view["blocked"][0]["held_bytes"])
            assert max(held) <= 3 * 1024 * KIB, "most of the eight MiB is left where it is"
            assert broker.rss() - before < 6 * 1024 * KIB
            got = [int(body) for body in consumed(channel, name, count)]
        assert got == list(range(count))
    finally:
        connection.channel().queue_delete(name)
        connection.close()
