"""A broker of its own for these tests, and one Spark session for the whole process."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest

from bench.crash_spark.query import CONF
from tests.profiles import thorough
from tests.support.brokers import serving

INTERPRETING = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Plans of few rows are run as they are: to compile each takes longer than to run it. The long run compiles them."""
_numbers = itertools.count(1)


@dataclass
class RunningBroker:
    """A broker in a process of its own, and what a test says to it as an ordinary client."""

    address: str
    pid: int

    def connect(self) -> pika.BlockingConnection:
        host, port = self.address.split(":")
        return pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))

    def declare(self, durable: bool = False, name: str = "", **arguments: object) -> str:
        """Declare a queue, without a name one that no other test uses; arguments with underscores for hyphens."""
        name = name or f"orders-{next(_numbers)}"
        with self.connect() as connection:
            connection.channel().queue_declare(
                name,
                durable=durable,
                arguments={key.replace("_", "-"): value for key, value in arguments.items()},
            )
        return name

    def delete(self, queue: str) -> None:
        with self.connect() as connection:
            connection.channel().queue_delete(queue)

    def publish(self, queue: str, bodies: Iterable[bytes], persistent: bool = False) -> None:
        """Publish messages; they are in the queue when this returns."""
        with self.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for body in bodies:
                properties = pika.BasicProperties(message_id=body[:100].decode(), delivery_mode=1 + persistent)
                channel.basic_publish("", queue, body, properties, mandatory=True)

    def depth(self, queue: str) -> int:
        """Return how many messages are in a queue, those that a cursor has read and not settled included."""
        return self.control("why", queue=queue)["depth"]["messages"]

    def control(self, operation: str, **fields: object) -> dict:
        """Ask a control operation as any client may; the reply must be JSON."""
        with self.connect() as connection:
            channel = connection.channel()
            replies = channel.queue_declare("", exclusive=True).method.queue
            properties = pika.BasicProperties(reply_to=replies, correlation_id="1")
            channel.basic_publish("penstock.control", operation, json.dumps(fields).encode(), properties)
            for _, reply, body in channel.consume(replies, auto_ack=True, inactivity_timeout=60):
                assert reply is not None, f"no reply to {operation}"
                assert reply.content_type == "application/json", body
                return json.loads(body)
        raise AssertionError("the channel was closed")

    def drain(self, queue: str, count: int) -> list[bytes]:
        """Consume `count` messages with acknowledgements, and return their bodies in order."""
        found: list[bytes] = []
        with self.connect() as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            for method, _, body in channel.consume(queue, inactivity_timeout=60):
                assert method is not None, f"only {len(found)} of {count} messages came"
                found.append(body)
                channel.basic_ack(method.delivery_tag)
                if len(found) == count:
                    break
            channel.cancel()
        return found


@contextmanager
def running(listen: str = "127.0.0.1:0", data: Path | None = None) -> Iterator[RunningBroker]:
    """A broker in a process of its own, for as long as the context lasts; without `data` it keeps nothing."""
    store = () if data is None else ("--data", str(data))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *store, listen=(listen,)) as process:
        try:
            yield RunningBroker(f"{process.host}:{process.port}", process.pid)
        finally:
            sys.stderr.write(process.log())


@pytest.fixture(scope="session")
def broker() -> Iterator[RunningBroker]:
    with running() as broker:
        yield broker


@pytest.fixture
def queue(broker: RunningBroker) -> str:
    """A queue that no other test uses."""
    return broker.declare()


@pytest.fixture
def restarts(tmp_path: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Starts of one broker with a store, at one address: each call ends the one before, or kills it."""
    with ExitStack() as whole:
        brokers: list[tuple[RunningBroker, ExitStack]] = []

        def start(kill: bool = False) -> RunningBroker:
            if brokers:
                if kill:
                    os.kill(brokers[-1][0].pid, signal.SIGKILL)
                brokers[-1][1].close()
            life = whole.enter_context(ExitStack())
            listen = brokers[0][0].address if brokers else "127.0.0.1:0"
            brokers.append((life.enter_context(running(listen, tmp_path / "data")), life))
            return brokers[-1][0]

        yield start
        close_links()


def close_links() -> None:
    """Close what tasks of this process keep open: a broker that stops waits for its clients."""
    from pyspark_penstock import connections

    for link in connections._links.values():
        link.close()
    for connection in connections._block_connections.values():
        connection.take_over()  # A thread of the test may have opened it.
        connection.close()


@pytest.fixture
def second_broker() -> Iterator[RunningBroker]:
    with running() as broker:
        yield broker
        close_links()


@pytest.fixture
def open_reader() -> Iterator[Callable[..., Any]]:
    """Readers of the source `penstock` for a broker, by their options; they are stopped at the end."""
    from tests.support.spark_readers import stopped_readers  # An older PySpark has no readers of streams.

    with stopped_readers() as make:
        yield make


@pytest.fixture(scope="session")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise Spark takes the first python3 on the path
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for key, value in ((CONF | INTERPRETING) if not thorough() else CONF).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # The JVM ends with its input, and the processor time of a part has that of the JVM.
    gateway.proc.wait(60)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def until(condition, what: str, seconds: float = 300) -> None:
    """Wait for a state of another process, which tells nobody when it is reached."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def run_spark(*command: str, **options: Any) -> None:
    """Run a program of Spark to its end, and again where a worker came too late.

    Spark gives a Python worker ten seconds to connect and has no setting for that; a busy machine may need more.
    """
    for _ in range(5):
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False, **options
        )
        if done.returncode == 0 or "Python worker failed to connect back" not in done.stdout:
            break
    assert done.returncode == 0, done.stdout[-4000:]
