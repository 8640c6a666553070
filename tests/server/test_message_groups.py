"""Message groups of stored and paged queues: order within each group after a kill, and while pages are read."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, serving
from tests.support.pika_helpers import client_of

GROUPS = ["a", "b", "c"]
COUNT = 40
PAGED: dict[str, Any] = {"x-overflow": "page", "capacity-bytes": 16 * 1024}


class Workers:
    """Consumers on one connection, which acknowledge each delivery and remember it."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self.got: list[tuple[int, str]] = []
        """Number of the consumer, and the body."""
        for number in range(count):
            channel = self.connection.channel()
            channel.basic_qos(prefetch_count=3)
            channel.basic_consume("q", lambda *delivery, number=number: self._take(number, *delivery))

    def _take(
        self, number: int, channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes
    ) -> None:
        self.got.append((number, body.decode().rstrip(".")))
        channel.basic_ack(method.delivery_tag)

    def wait_for(self, count: int) -> None:
        eventually(lambda: self.connection.process_data_events(0) or len(self.got) >= count, f"{count} deliveries")

    def lose(self) -> None:
        """Let the connection find that its broker is gone."""
        with pytest.raises(pika.exceptions.AMQPConnectionError):  # noqa: PT012 - deliveries that came before are handled
            while True:
                self.connection.process_data_events(PATIENCE)

    def numbers(self) -> dict[str, list[int]]:
        """Return the numbers of the messages by group, in the order of their deliveries."""
        found: dict[str, list[int]] = defaultdict(list)
        for _, body in self.got:
            group, _, number = body.partition("-")
            found[group].append(int(number))
        return found


def publish(channel: BlockingChannel, size: int) -> None:
    for number in range(COUNT):
        for group in GROUPS:
            properties = pika.BasicProperties(headers={"JMSXGroupID": group}, delivery_mode=2)
            channel.basic_publish("", "q", f"{group}-{number}".ljust(size, ".").encode(), properties)


@pytest.mark.parametrize(("terms", "size"), [({}, 10), (PAGED, 1000)], ids=["in memory", "paged"])
def test_groups_keep_their_order_after_a_kill(tmp_path: Path, data: str, terms: dict[str, Any], size: int) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments={"group-by": "group-id", **terms})
        publish(client.channel, size)
        before = Workers(broker, 2)
        before.wait_for(30)
        first = before.numbers()
        broker.kill()
        before.lose()
    assert all(numbers == list(range(len(numbers))) for numbers in first.values())
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        left = client.depth("q")
        after = Workers(broker, 3)
        after.wait_for(left)
        second = after.numbers()
        assert client.depth("q") == 0
        after.connection.close()
    for group in GROUPS:
        # Acknowledgements of the last moment may be lost, and nothing else.
        numbers = second[group]
        assert numbers == list(range(COUNT - len(numbers), COUNT))
        assert len(numbers) >= COUNT - len(first[group])
