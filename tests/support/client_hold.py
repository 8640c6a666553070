"""One hold, the same for every client: published past a small capacity, held, consuming beside it, and let go on.

Each client is a driver (`drivers/`, `node/hold.js`, `java/Hold.java`) in a process of its own. The table of a long
hold in docs/inside/clients.md, all clients side by side:

PENSTOCK_HOLD_S=60 python -m tests.support.client_hold
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.connections.connection_limits import ConnectionLimits
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, serving, settings_file, some_name
from tests.support.fetched_clients import (
    ClientMissingError,
    azure_python,
    framework_jars,
    go_program,
    jms_jars,
    lapin_program,
    nest_packages,
    rust_program,
    uamqp_python,
)
from tests.support.pika_helpers import consumed

HOLD_S = float(os.environ.get("PENSTOCK_HOLD_S", "3"))
"""Seconds of the hold."""
DEADLINE_S = int(HOLD_S) + 60
"""Seconds of the broker's own hold deadline."""
PERIOD_S = 0.1
"""Seconds between two messages to the consumer that goes on meanwhile."""
FED_A_SECOND = 5
"""Messages that it gets at the least; on a slow machine the hold is longer for that."""
CAPACITY = 4
"""Messages; the stop threshold that goes with it is 3."""
SIZE = 30_000
"""Octets of a message; amqp-publish reads lines of no more than 32 KiB."""
HERE = Path(__file__).resolve().parents[1] / "clients"
ROOT = HERE.parents[1]
JARS = tuple(Path("/usr/share/java", jar) for jar in ("amqp-client.jar", "slf4j-api.jar", "slf4j-nop.jar"))
PACKAGES = {
    "RabbitMQ's Java client": ("librabbitmq-client-java", JARS),
    "php-amqplib": ("php-cli php-amqplib", (Path("/usr/share/php/PhpAmqpLib/autoload.php"),)),
}
"""Packages of Debian that a client needs, and files of them, by its name."""


@dataclass(frozen=True)
class Client:
    """A client library and how its driver is started."""

    name: str
    words: tuple[str, ...]
    """Those with `@` stand for what is fetched."""
    ways: tuple[str, ...] = ("confirms",)
    """How it is held: "confirms", "plain" without them, or "credit" of AMQP 1.0."""
    shows_reason: bool = False
    """Whether it passes the reason of connection.blocked on to its application, and its driver tells it."""

    def missing(self) -> str:
        """Say in a sentence what is not installed; empty if nothing is."""
        if self.name == "Qpid Proton" and importlib.util.find_spec("proton") is None:
            return "python-qpid-proton is not installed: there was no C compiler"
        for word in self.words:
            try:
                FETCHED.get(word, Path)()
            except ClientMissingError as missing:
                return str(missing)
        if (
            self.words[0] == "node"
            and "@NEST" not in self.words
            and not (HERE / "node" / "node_modules" / self.name).is_dir()
        ):
            return f"{self.name} is not installed in tests/clients/node: npm was not found by `make setup`"
        if self.name in PACKAGES and not all(path.exists() for path in PACKAGES[self.name][1]):
            return f"{self.name} is not installed (on Debian: apt-get install {PACKAGES[self.name][0]})"
        if self.name == "librabbitmq" and shutil.which("amqp-publish") is None:
            return "amqp-publish is not installed (on Debian: apt-get install amqp-tools)"
        if self.name == "Bunny" and not ruby_has_bunny():
            return "Bunny is not installed (on Debian: apt-get install ruby-bunny)"
        if shutil.which(self.words[0]) is None and self.words[0] not in FETCHED:
            return f"{self.words[0]} is not installed"
        if self.words[0] == "java" and not java_compiles():
            return "this java cannot run a source file: it has no module jdk.compiler"
        return ""

    def skip_if_missing(self) -> None:
        """Skip the test if something is not installed."""
        if missing := self.missing():
            pytest.skip(missing)

    def command(self) -> list[str]:
        """Return its words, those of what is fetched replaced."""
        fetched = {word: FETCHED[word]() for word in self.words if word in FETCHED}
        return [f"{fetched[word]}/*" if word in JAR_FOLDERS else str(fetched.get(word, word)) for word in self.words]


FETCHED = {
    "@JARS": jms_jars,
    "@FRAMEWORKS": framework_jars,
    "@GO": go_program,
    "@NEST": nest_packages,
    "@RUST": rust_program,
    "@LAPIN": lapin_program,
    "@AZURE": azure_python,
    "@UAMQP": uamqp_python,
}


JAR_FOLDERS = ("@JARS", "@FRAMEWORKS")


@cache
def ruby_has_bunny() -> bool:
    """Tell whether ruby is installed, and finds Bunny."""
    if shutil.which("ruby") is None:
        return False
    return subprocess.run(["ruby", "-e", "require 'bunny'"], capture_output=True, check=False).returncode == 0


@cache
def java_compiles() -> bool:
    """Tell whether java runs a source file as it is."""
    listed = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.compiler" in listed


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"tests.clients.drivers.{module}")


_JAVA = ("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, JARS)))
_FRAMEWORKS = ("java", "-Xmx160m", _JAVA[2], "-cp", "@FRAMEWORKS", str(HERE / "java" / "frameworks" / "Hold.java"))
CLIENTS = (
    Client("pika", _python("with_pika")),
    Client("aio-pika", _python("with_aio_pika")),
    Client("py-amqp", _python("with_py_amqp"), ("confirms", "plain")),
    Client("kombu", _python("with_kombu")),
    Client("amqpstorm", _python("with_amqpstorm"), ("confirms", "plain")),
    Client("amqplib", ("node", str(HERE / "node" / "hold.js"))),
    Client("RabbitMQ's Java client", (*_JAVA, str(HERE / "java" / "Hold.java")), ("confirms", "plain")),
    Client("librabbitmq", _python("with_amqp_tools"), ("plain",)),
    Client("amqp091-go", ("@GO", "amqp091-go"), ("confirms", "plain"), shows_reason=True),
    Client("Watermill", ("@GO", "watermill"), shows_reason=True),
    Client("NestJS", ("node", str(HERE / "node" / "nest" / "hold.js"), "@NEST"), shows_reason=True),
    Client("Spring AMQP", (*_FRAMEWORKS, "spring"), shows_reason=True),
    Client("reactor-rabbitmq", (*_FRAMEWORKS, "reactor"), shows_reason=True),
    Client("Bunny", ("ruby", str(HERE / "ruby" / "hold.rb")), ("confirms", "plain")),
    Client("rabbitmq-client", ("node", str(HERE / "node" / "hold_rabbitmq_client.js")), ("confirms", "plain")),
    Client("lapin", ("@LAPIN",), ("confirms", "plain")),
    Client("php-amqplib", ("php", str(HERE / "php" / "hold.php")), ("confirms", "plain")),
)
CASES = tuple((client, way) for client in CLIENTS for way in client.ways)
_JMS = (*_JAVA[:3], "-cp", "@JARS", str(HERE / "java" / "jms" / "Hold.java"))
AMQP10_CLIENTS = (
    Client("Qpid Proton", _python("with_proton"), ("credit",)),
    Client("Qpid JMS", _JMS, ("credit",)),
    Client("rhea", ("node", str(HERE / "node" / "hold_rhea.js")), ("credit",)),
    Client("go-amqp", ("@GO", "go-amqp"), ("credit",)),
    Client("fe2o3-amqp", ("@RUST", "hold"), ("credit",)),
    Client("azure-servicebus", ("@AZURE", "-m", "tests.clients.drivers.with_azure"), ("credit",)),
    Client("uamqp", ("@UAMQP", "-m", "tests.clients.drivers.with_uamqp"), ("credit",)),
)
"""Clients of AMQP 1.0: a full queue holds them by giving no credit."""


class Driver:
    """A client at work; what it tells is kept by kind."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: dict[str, list[object]] = {}
        self._events: queue.SimpleQueue[dict[str, object] | None] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def listen(self, kind: str, count: int = 1) -> list[object]:
        """Wait until it has told so many of a kind, and return all of that kind."""
        deadline = time.monotonic() + PATIENCE
        while len(self.told.get(kind, ())) < count:
            try:
                event = self._events.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise AssertionError(f"it has not told {count} {kind}, but {self.summary()}") from None
            assert event is not None, f"it ended without having told {count} {kind}: {self.summary()}"
            for key, value in event.items():
                self.told.setdefault(key, []).append(value)
        return self.told.get(kind, [])

    def hear(self) -> bool:
        """Wait until it tells something; return False if it has ended instead."""
        try:
            event = self._events.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"it has told nothing more than {self.summary()}") from None
        for key, value in (event or {}).items():
            self.told.setdefault(key, []).append(value)
        return event is not None

    def summary(self) -> str:
        return ", ".join(f"{key}: {len(each)}, last {each[-1]}" for key, each in self.told.items())

    def leave(self) -> None:
        """Let it say goodbye, and hear all that it tells until it has gone."""
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.summary()
        self.reader.join(PATIENCE)
        while event := self._events.get(timeout=PATIENCE):
            for key, value in event.items():
                self.told.setdefault(key, []).append(value)


@contextmanager
def driving(
    client: Client, way: str, url: str, held: str, beside: str, count: int, size: int = SIZE
) -> Iterator[Driver]:
    """Start a client's driver, and see that it has gone in the end."""
    words = [*client.command(), url + "%2F", held, beside, str(count), str(size), way]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    driver = Driver(process)
    try:
        yield driver
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        driver.reader.join(PATIENCE)
        process.stdout.close()


@contextmanager
def our_side(broker: BrokerProcess) -> Iterator[tuple[pika.BlockingConnection, BlockingChannel]]:
    """The connection that feeds the consumer, and that empties what is held."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection, connection.channel()


@dataclass
class Held:
    """How a client bore its hold."""

    client: str
    version: str
    way: str
    seconds: float
    fed: int
    """Messages to its consumer during the hold."""
    received: list[object]
    """What its consumer received during the hold."""
    confirmed_early: int
    """Confirmations before the end of the hold."""
    count: int
    """Messages that it published."""
    taken: list[int]
    """What came out of the queue."""
    left: int
    """Messages in the queue when all had come out of it."""
    highest: int
    """Messages: the highest depth of the queue."""
    confirmed: list[object]
    failed: list[object]

    @property
    def lost(self) -> int:
        return self.count - len(set(self.taken))

    @property
    def doubled(self) -> int:
        return len(self.taken) + self.left - len(set(self.taken))

    def row(self) -> str:
        """Return it as a row of the table in docs/inside/clients.md."""
        after = "all sent" if self.way == "plain" else "all confirmed"
        means = {"confirms": "its confirmations", "plain": "no confirms", "credit": "its credit"}[self.way]
        return (
            f"| {self.client} | {self.version} | {means} | {len(self.received)} of {self.fed} | {self.count:,} "
            f"| {self.lost} | {self.doubled} | {after} |"
        )


def count_for(way: str) -> int:
    """Return how many messages are more than can leave a client while it is held, however slow the machine is.

    Without confirms that is what kernels may ever buffer for its socket, for they let buffers grow to their bounds as
    it pleases them; what the broker holds of it; and all pulses that it may read until its own deadline.
    """
    if way != "plain":
        return 12
    policy = ConnectionLimits()
    pulses = int(policy.pulsing_s(DEADLINE_S) / policy.pulse_s) + 1
    octets = kernel_bound("tcp_rmem") + kernel_bound("tcp_wmem") + policy.hold_bytes + pulses * policy.pulse_bytes
    return octets // SIZE + CAPACITY + 10


def kernel_bound(name: str) -> int:
    """Return the octets to which the kernel lets a socket's buffer grow: the last of least, first and most."""
    bounds = Path("/proc/sys/net/ipv4", name)
    return int(bounds.read_text().split()[2]) if bounds.exists() else 8 * 1024 * 1024


def hold(broker: BrokerProcess, client: Client, way: str, seconds: float = HOLD_S) -> Held:
    """Hold a client for so many seconds, and let it go on."""
    held, beside, count = some_name("held"), some_name("beside"), count_for(way)
    with our_side(broker) as (connection, channel):
        channel.queue_declare(held, arguments={"capacity-messages": CAPACITY, "hold-deadline": int(seconds) + 60})
        channel.queue_declare(beside)
        with driving(client, way, broker.url, held, beside, count) as driver:
            eventually(lambda: broker.queue(held)["blocked"], f"{client.name} is blocked")
            start, fed = time.monotonic(), 0
            while time.monotonic() < start + seconds or fed < FED_A_SECOND * seconds:
                channel.basic_publish("", beside, str(fed).encode() + b"\n")
                fed += 1
                driver.listen("received", fed)
                connection.process_data_events(PERIOD_S)
            assert broker.queue(held)["blocked"], f"{client.name} is held all the while"
            received, early = list(driver.told["received"]), len(driver.told.get("confirmed", ()))
            assert "done" not in driver.told, f"{client.name} has not got rid of all its messages"
            taken = take(channel, held, count)
            driver.listen("done")
            channel.basic_publish("", beside, str(fed).encode() + b"\n")
            driver.listen("received", fed + 1)
            driver.leave()
        view = broker.queue(held)
        left, highest = view["depth"]["messages"], view["highest"]["messages"]
        channel.queue_delete(held)
        channel.queue_delete(beside)
    told = driver.told
    return Held(
        client.name, str(told["version"][0]), way, seconds, fed, received, early, count, taken, left, highest,
        told.get("confirmed", []), told.get("failed", []),
    )  # fmt: skip


def take(channel: BlockingChannel, name: str, count: int) -> list[int]:
    """Consume so many messages, acknowledging each; what does not come in time is lost."""
    return [int(body) for body in consumed(channel, name, count, 10)]


@dataclass
class Refused:
    """What a client was told when its publishes had been held until their deadline."""

    told: dict[str, list[object]]
    kept: list[int]
    """What is in the queue."""
    queue: str
    """The queue that was full."""


def refuse(broker: BrokerProcess, client: Client, way: str) -> Refused:
    """Hold a client past a deadline of one second."""
    held, beside = some_name("held"), some_name("beside")
    with our_side(broker) as (_, channel):
        channel.queue_declare(held, arguments={"capacity-messages": 2, "hold-deadline": 1})
        channel.queue_declare(beside)
        with driving(client, way, broker.url, held, beside, 4) as driver:
            eventually(lambda: broker.queue(held)["refused"], f"{client.name} has been held and is refused")
            if way == "confirms":
                driver.listen("done")
            driver.leave()
        kept = take(channel, held, 2)
        left = broker.depth(held)
        assert left == 0, f"{left} messages more than the queue takes"
        channel.queue_delete(held)
        channel.queue_delete(beside)
    return Refused(driver.told, kept, held)


@contextmanager
def holding_broker(folder: Path) -> Iterator[BrokerProcess]:
    """A broker that reads what it has paused, in pulses, for as long as the hold lasts."""
    with serving(folder, *settings_file(folder, f"[broker]\nhold-deadline-s = {DEADLINE_S}\n")) as broker:
        yield broker


def main() -> None:
    """Print the table."""
    print("| client | version | held by | deliveries during the hold | published | lost | doubled | after opening |")
    print("|---|---|---|---|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        holding_broker(Path(folder)) as broker,
        ThreadPoolExecutor(len(CASES) + len(AMQP10_CLIENTS)) as pool,
    ):
        cases = (*CASES, *((client, "credit") for client in AMQP10_CLIENTS))
        begun = [pool.submit(hold, broker, client, way) for client, way in cases if not client.missing()]
        for future in begun:
            print(future.result().row(), flush=True)


if __name__ == "__main__":
    main()
