"""Brokers of AMQP that a test may kill and start again: ours, and RabbitMQ, LavinMQ and Artemis if installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest

from bench import peers10
from bench.brokers import INTERPRETED, RABBITMQ, BrokerUnavailable, PenstockNode, RabbitmqNode
from bench.peers10 import ARTEMIS
from bench.processes import free_port
from pyspark_amqp.spool.settings import AMQP091, AMQP1
from tests.support.brokers import eventually, some_name
from tests.support.fetched_clients import ClientMissingError, artemis_home
from tests.support.lavinmq import LAVINMQ, LavinmqNode

OURS = "penstock"
PEERS = [OURS, *os.environ.get("PENSTOCK_BESIDE", "").split()]
"""Brokers of the tests for each of them; PENSTOCK_BESIDE=rabbitmq adds that one, ``lavinmq`` and ``artemis`` these."""


class PeerLostError(Exception):
    """The connection to a peer is lost, or there was none."""


class Peer:
    """A broker at one address, with a store."""

    protocols: tuple[str, ...] = (AMQP091, AMQP1)

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.protocol = AMQP091
        """Protocol by which the source reads it; the test itself speaks AMQP 0-9-1."""
        self.node: PenstockNode | RabbitmqNode | LavinmqNode
        if name == OURS:
            self.node = PenstockNode(INTERPRETED, scratch, port=free_port())
        elif name == RABBITMQ:
            try:
                self.node = RabbitmqNode(scratch, plugins=("rabbitmq_amqp1_0",))
            except BrokerUnavailable as reason:
                pytest.skip(str(reason))
        elif name == LAVINMQ:
            self.protocols = (AMQP091,)
            try:
                self.node = LavinmqNode(scratch)
            except BrokerUnavailable as reason:
                pytest.skip(str(reason))
        else:
            raise ValueError(f"PENSTOCK_BESIDE={name}: known are {RABBITMQ}, {LAVINMQ} and {ARTEMIS}")
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self._process = self.node.launch()
        self.port = self.node.port(self._process)

    def kill(self) -> None:
        """End it as a power failure does, with all that it has started but its epmd."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        self.kill()
        self.node.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port))

    def declare(self, **arguments: object) -> str:
        """Declare a durable queue under a name that no other test uses; arguments with underscores for hyphens."""
        name = some_name("orders")
        with self.connect() as connection:
            given = {key.replace("_", "-"): value for key, value in arguments.items()}
            connection.channel().queue_declare(name, durable=True, arguments=given)
        return name

    def delete(self, queue: str) -> None:
        with self.connect() as connection:
            connection.channel().queue_delete(queue)

    def set_consumer_timeout(self, milliseconds: int) -> None:
        """Set it for a node that has no such argument of a queue; ours has one."""
        if isinstance(self.node, RabbitmqNode):
            # It looks for overdue deliveries at each tick of a channel, a minute by default.
            settings = {"consumer_timeout": milliseconds, "channel_tick_interval": 500}
            said = [f"application:set_env(rabbit, {name}, {value})" for name, value in settings.items()]
            done = self.node.control("eval", ", ".join(said) + ".")
            assert done.returncode == 0, done.stderr

    def publish(self, queue: str, bodies: Iterable[bytes], **properties: Any) -> None:
        """Publish persistent messages; they are in the queue when this returns."""
        with self.sender(queue) as send:
            for body in bodies:
                send(body, **properties)

    @contextmanager
    def sender(self, queue: str) -> Iterator[Callable[..., None]]:
        """A function that publishes one persistent message with properties, and returns when the broker has it.

        Raises PeerLostError when the broker is lost.
        """
        try:
            with self.connect() as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                yield lambda body, **properties: channel.basic_publish(
                    "", queue, body, pika.BasicProperties(delivery_mode=2, **properties), mandatory=True
                )
        except (pika.exceptions.AMQPError, OSError) as error:
            raise PeerLostError(queue) from error

    def ready(self, queue: str) -> int:
        """Return how many messages wait for a consumer."""
        with self.connect() as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)

    def await_ready(self, queue: str, count: int) -> None:
        """Wait until so many messages wait: the broker has seen the end of a connection, or an acknowledgement."""
        eventually(lambda: self.ready(queue) == count, f"{count} messages of {queue} wait")


class ArtemisPeer(Peer):
    """Artemis with its journal, which the test speaks to by AMQP 1.0 too."""

    protocols = (AMQP1,)

    def __init__(self, scratch: Path) -> None:
        self.name, self.protocol, self._scratch = ARTEMIS, AMQP1, scratch
        try:
            os.environ[peers10.ARTEMIS_HOME] = str(artemis_home())
            self._title, self._command, self.port = peers10.make_artemis(peers10.ARTEMIS_NIO, scratch, None)
        except (BrokerUnavailable, ClientMissingError) as reason:
            pytest.skip(str(reason))
        self.start()

    def start(self) -> None:
        self._process = peers10.run(self.name, self._title, self._command, self.port, self._scratch).process

    def close(self) -> None:
        self.kill()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        from proton import ProtonException
        from proton.utils import BlockingConnection

        connection = BlockingConnection(f"amqp://guest:guest@{self.address}", allowed_mechs="PLAIN", timeout=60)
        try:
            yield connection
        finally:
            with suppress(ProtonException):
                connection.close()

    def declare(self, **arguments: object) -> str:
        if arguments:
            pytest.skip(f"Artemis has no queue with the arguments {', '.join(arguments)}")
        name = some_name("orders")
        self._manage("broker", "createQueue", f'{{"name": "{name}", "address": "{name}", "routing-type": "ANYCAST"}}')
        return name

    def bound(self, pattern: str, **settings: object) -> None:
        """Set settings of the addresses that match a pattern."""
        self._manage("broker", "addAddressSettings", pattern, json.dumps(settings))

    def delete(self, queue: str) -> None:
        self._manage("broker", "destroyQueue", queue, True)

    @contextmanager
    def sender(self, queue: str) -> Iterator[Callable[..., None]]:
        from proton import Message, ProtonException

        try:
            with self._connected() as connection:
                sender = connection.create_sender(queue)

                def send(body: bytes, headers: dict[str, object] | None = None, **properties: Any) -> None:
                    known = {"id" if name == "message_id" else name: value for name, value in properties.items()}
                    sender.send(Message(body, durable=True, inferred=True, properties=headers, **known))

                yield send
        except (ProtonException, OSError) as error:
            raise PeerLostError(queue) from error

    def set_consumer_timeout(self, milliseconds: int) -> None:
        pytest.skip("Artemis closes no consumer that acknowledges late")

    def ready(self, queue: str) -> int:
        name = f"queue.{queue}"
        total, delivering = self._manage(name, "getMessageCount"), self._manage(name, "getDeliveringCount")
        return total - delivering

    def _manage(self, resource: str, operation: str, *arguments: object) -> Any:
        """Call an operation of its management, whose arguments and results are JSON."""
        from proton import Message

        with self._connected() as connection:
            answers = connection.create_receiver(None, dynamic=True)
            properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
            request = Message(json.dumps(arguments), properties=properties, reply_to=answers.link.remote_source.address)
            connection.create_sender("activemq.management").send(request)
            answer = answers.receive()
            assert answer.properties["_AMQ_OperationSucceeded"], answer.body
            return json.loads(answer.body)[0] if answer.body else None


@contextmanager
def peer(name: str, scratch: Path) -> Iterator[Peer]:
    """A broker for as long as the context lasts."""
    broker = ArtemisPeer(scratch) if name == ARTEMIS else Peer(name, scratch)
    try:
        yield broker
    finally:
        broker.close()
