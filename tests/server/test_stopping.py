"""A broker with a store that is stopped or backed up under load: no confirmed message is missing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
from pamqp import commands

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving
from tests.support.pika_helpers import LOST, Client, client_of
from tests.support.raw_client import Peer, open_peer, publish_frames

PAGE: dict[str, Any] = {"x-overflow": "page", "capacity-messages": 20}
BEHIND = 50
"""Messages that a consumer leaves in its queue."""
QUEUES: dict[str, dict[str, Any]] = {"plain": {}, "paged": PAGE}


class Party(threading.Thread):
    """A client at work in a thread of its own, until its broker ends the connection or it is told to end."""

    def __init__(self, broker: BrokerProcess, queue: str) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.queue = queue
        self.numbers: list[int] = []
        """What was confirmed, or acknowledged."""
        self.ended: pika.exceptions.ConnectionClosedByBroker | None = None
        self.over = threading.Event()

    def run(self) -> None:
        try:
            with client_of(self.broker) as client:
                while not self.over.is_set():
                    self.act(client)
        except pika.exceptions.ConnectionClosedByBroker as ended:
            self.ended = ended

    def act(self, client: Client) -> None:
        raise NotImplementedError


class Publisher(Party):
    """Publishes numbers, each when the one before it was confirmed."""

    def act(self, client: Client) -> None:
        number = len(self.numbers)
        client.publish(self.queue, "transient", properties=LOST)
        client.publish(self.queue, str(number) + "." * 500)
        self.numbers.append(number)


class Consumer(Party):
    """Takes what comes, some way behind its publisher."""

    def __init__(self, broker: BrokerProcess, publisher: Publisher) -> None:
        super().__init__(broker, publisher.queue)
        self.publisher = publisher

    def act(self, client: Client) -> None:
        if len(self.numbers) + BEHIND > len(self.publisher.numbers):
            client.connection.process_data_events(0.01)
            return
        method, _, body = client.channel.basic_get(self.queue)
        if method is None or body is None:
            return
        client.channel.basic_ack(method.delivery_tag)
        if body != b"transient":
            self.numbers.append(number_of(body.decode()))


def number_of(body: str) -> int:
    return int(body.partition(".")[0])


@contextmanager
def at_work(broker: BrokerProcess) -> Iterator[dict[str, tuple[Publisher, Consumer]]]:
    """Have publishers and consumers at work."""
    with client_of(broker) as client:
        for name, arguments in QUEUES.items():
            client.channel.queue_declare(name, durable=True, arguments=arguments)
    publishers = [Publisher(broker, name) for name in QUEUES]
    parties = {publisher.queue: (publisher, Consumer(broker, publisher)) for publisher in publishers}
    everybody = [party for pair in parties.values() for party in pair]
    for party in everybody:
        party.start()
    yield parties
    for party in everybody:
        party.over.set()
        party.join(PATIENCE)
        assert not party.is_alive()


def waits_for(parties: dict[str, tuple[Publisher, Consumer]], more: int) -> None:
    """Wait until everybody has done so much more."""
    everybody = [party for pair in parties.values() for party in pair]
    aims = [(party, len(party.numbers) + more) for party in everybody]
    eventually(lambda: all(len(party.numbers) >= aim for party, aim in aims), "everybody gets on", 60.0)


def drained(broker: BrokerProcess) -> dict[str, list[tuple[int, bool]]]:
    """Take what is in the queues; transient messages are none of it."""
    with client_of(broker) as client:
        return {name: [(number_of(body), again) for body, again in client.drain(name)] for name in QUEUES}


def test_broker_that_is_stopped_under_load_has_everything_when_it_comes_back(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker:
        with at_work(broker) as parties:
            waits_for(parties, 100)
            assert broker.stop() == 0
        everybody = [party for pair in parties.values() for party in pair]
        assert [party.ended and party.ended.reply_code for party in everybody] == [320] * len(everybody)
        assert all(party.ended and "broker is shutting down" in party.ended.reply_text for party in everybody)
        assert "Traceback" not in broker.log()
    with serving(tmp_path, "--data", data) as broker:
        for name, found in drained(broker).items():
            publisher, consumer = parties[name]
            numbers = [number for number, _ in found]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert numbers[-1] in (len(publisher.numbers) - 1, len(publisher.numbers)), "one was under way"
            assert consumer.numbers == list(range(len(consumer.numbers)))
            assert abs(numbers[0] - len(consumer.numbers)) <= 1, "one was under way"
            assert all(number <= len(consumer.numbers) for number, again in found if again), "after an orderly stop"


def test_broker_starts_from_a_backup_that_was_made_under_load(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(tmp_path, "--data", str(data)) as broker, at_work(broker) as parties:
        waits_for(parties, 100)
        before = {name: len(publisher.numbers) for name, (publisher, _) in parties.items()}
        done = penstock_command("backup", str(copy), "--data", str(data), timeout=60.0)
        assert done.stdout.startswith(f"backed up to {copy}: "), done.stderr
        after = {name: len(consumer.numbers) for name, (_, consumer) in parties.items()}
        waits_for(parties, 20)
    with serving(tmp_path, "--data", str(copy)) as broker:
        for name, found in drained(broker).items():
            numbers = [number for number, _ in found]
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), "one moment"
            assert numbers[-1] >= before[name] - 1, "what was confirmed before it began"
            assert numbers[0] <= after[name], "what was not acknowledged when it ended"


def test_messages_of_many_consumers_are_in_the_store_before_the_broker_ends(tmp_path: Path) -> None:
    data, count = str(tmp_path / "data"), 12_000
    quorum = {"x-queue-type": "quorum"}
    with serving(tmp_path, "--data", data) as broker, open_peer(broker) as peer:
        peer.ask(1, commands.Queue.Declare(queue="many", durable=True, arguments=quorum), commands.Queue.DeclareOk)
        peer.confirm()
        peer.say(publish_frames(1, "", "many", b"x", {"delivery_mode": 2}) * count)
        confirmed = 0
        while confirmed < count:
            confirmed = peer.expect(1, commands.Basic.Ack).delivery_tag or 0
        peer.ask(1, commands.Basic.Consume(queue="many", consumer_tag="c"), commands.Basic.ConsumeOk)
        delivered(peer, count)
        peer.send(1, commands.Basic.Nack(0, multiple=True, requeue=True))
        assert delivered(peer, count) == {1: count}
        broker.process.send_signal(signal.SIGTERM)
        peer.expect(0, commands.Connection.Close)
        peer.close()  # Nobody is left whom the broker would wait for.
        broker.process.wait()
    with serving(tmp_path, "--data", data) as broker, open_peer(broker) as peer:
        peer.ask(1, commands.Basic.Consume(queue="many", consumer_tag="c", no_ack=True), commands.Basic.ConsumeOk)
        assert delivered(peer, count) == {2: count}


def delivered(peer: Peer, count: int) -> dict[int, int]:
    """Hear so many deliveries; how many of them have come back how often."""
    found: dict[int, int] = {}
    for _ in range(count):
        peer.expect(1, commands.Basic.Deliver)
        headers = peer.content()[0].headers or {}
        back = int(str(headers.get("x-delivery-count", 0)))
        found[back] = found.get(back, 0) + 1
    return found
