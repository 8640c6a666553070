"""Brokers of AMQP that a test may kill and start again: ours, and RabbitMQ where it is installed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from bench.brokers import INTERPRETED, RABBITMQ, BrokerUnavailable, PenstockNode, RabbitmqNode
from bench.processes import free_port
from tests.support.brokers import eventually, some_name

OURS = "penstock"
PEERS = [OURS, *os.environ.get("PENSTOCK_BESIDE", "").split()]
"""Brokers of the tests for each of them; PENSTOCK_BESIDE=rabbitmq adds that one."""


class Peer:
    """A broker at one address, with a store."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.protocol = "amqp091"
        """Protocol by which the source reads it; the test itself speaks AMQP 0-9-1."""
        self.node: PenstockNode | RabbitmqNode
        if name == OURS:
            self.node = PenstockNode(INTERPRETED, scratch, port=free_port())
        elif name == RABBITMQ:
            try:
                self.node = RabbitmqNode(scratch, plugins=("rabbitmq_amqp1_0",))
            except BrokerUnavailable as reason:
                pytest.skip(str(reason))
        else:
            raise ValueError(f"PENSTOCK_BESIDE={name}: known is {RABBITMQ}")
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

    def publish(self, queue: str, bodies: Iterable[bytes], **properties: object) -> None:
        """Publish persistent messages; they are in the queue when this returns."""
        with self.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, **properties), True)

    def ready(self, queue: str) -> int:
        """Return how many messages wait for a consumer."""
        with self.connect() as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)

    def await_ready(self, queue: str, count: int) -> None:
        """Wait until so many messages wait: the broker has seen the end of a connection, or an acknowledgement."""
        eventually(lambda: self.ready(queue) == count, f"{count} messages of {queue} wait")


@contextmanager
def peer(name: str, scratch: Path) -> Iterator[Peer]:
    """A broker for as long as the context lasts."""
    broker = Peer(name, scratch)
    try:
        yield broker
    finally:
        broker.kill()
        broker.node.close()
