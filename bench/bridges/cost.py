"""Processor time of a carried message: of the source, the bridge and the target, beside RabbitMQ's shovel.

A durable queue is filled, and then carried into a queue of another broker, which confirms each message. What a bridge
needs to start is left out: the time of a short run is taken from that of a long one. RabbitMQ has two nodes too. Its
shovel runs in the first, reads the queue without a socket, and acknowledges after confirms (its default).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pika  # type: ignore[import-untyped]

from bench import processes
from bench.brokers import COMPILED, RABBITMQ, Broker, BrokerUnavailable, RabbitmqNode, start_node, start_penstock
from penstock.sync import connect

SIZES = (100, 1024)
MESSAGES = 100_000
SHORT = 2_000
"""Messages of the short run."""
ROUNDS = 3
QUEUE = "carried"
PROTOCOLS = ("amqp091", "amqp10")
GOALS = {100: 15.0, 1024: 8.0}
"""Least ratios of RabbitMQ's processor time to ours, by bytes of the body."""
PATIENCE_S = 600.0
LOOK_S = 0.25


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time for a message."""

    source: float
    bridge: float
    target: float

    @property
    def total(self) -> float:
        """Return the time of all processes."""
        return self.source + self.bridge + self.target

    def __str__(self) -> str:
        parts = f"source {self.source:.2f}, bridge {self.bridge:.2f}, target {self.target:.2f}"
        return f"{self.total:.2f} us a message ({parts})"


Spent = tuple[float, float, float]
"""Seconds of the source, the bridge and the target."""
Carry = Callable[[Broker, Broker, int], Spent]
"""Function that carries so many messages from one broker to another."""


def cpu_seconds(broker: Broker) -> float:
    """Return the processor time of a broker and all that it has started."""
    ticks = 0
    for pid in broker.pids():
        fields = (processes.PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def url_of(broker: Broker) -> str:
    """Return the URL of a broker."""
    return f"amqp://guest:guest@127.0.0.1:{broker.port}/"


def fill(broker: Broker, count: int, size: int) -> None:
    """Publish persistent messages into the queue."""
    body = bytes(size)
    with connect(url_of(broker), protocol="amqp091") as connection:
        result = connection.publisher(QUEUE).send_many(body for _ in range(count))
        assert result.confirmed == count, result


def depth(broker: Broker) -> int:
    """Return how many messages wait in the queue."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        return int(connection.channel().queue_declare(QUEUE, passive=True).method.message_count)


def empty(broker: Broker) -> None:
    """Drop the messages of the queue."""
    with connect(url_of(broker), protocol="amqp091") as connection:
        connection.purge_queue(QUEUE)


def bridge_command(source: Broker, target: Broker, queue: str, protocol: str, *options: str) -> list[str]:
    """Return the command of a bridge between queues of the same name."""
    ends = [f"{url_of(broker)}?queue={queue}&protocol={protocol}" for broker in (source, target)]
    return [sys.executable, "-m", "penstock", "bridges", "run", *ends, *options]


def carry_here(protocol: str, source: Broker, target: Broker, count: int) -> Spent:
    """Carry messages by `penstock bridges run`; return what it took."""
    before = (cpu_seconds(source), cpu_seconds(target))
    command = bridge_command(source, target, QUEUE, protocol, "--count", str(count))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the bridge ended with exit code {process.returncode}")
    bridge = used.ru_utime + used.ru_stime
    return cpu_seconds(source) - before[0], bridge, cpu_seconds(target) - before[1]


def carry_by_shovel(node: RabbitmqNode, source: Broker, target: Broker, count: int) -> Spent:
    """Carry the messages of the queue by a shovel of the source; what it takes itself counts as the source's."""
    value = {
        "src-protocol": "amqp091",
        "src-uri": "amqp://",
        "src-queue": QUEUE,
        "src-delete-after": count,
        "dest-protocol": "amqp091",
        "dest-uri": url_of(target) + "%2f",  # RabbitMQ takes an empty path for a virtual host without a name.
        "dest-queue": QUEUE,
        "ack-mode": "on-confirm",
    }
    before = (cpu_seconds(source), cpu_seconds(target))
    done = node.control("set_parameter", "shovel", "carried", json.dumps(value))
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + PATIENCE_S
    while depth(target) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"the shovel has not carried {count:,} messages within {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)  # It reports its end to nobody.
    return cpu_seconds(source) - before[0], 0.0, cpu_seconds(target) - before[1]


def cost_of(source: Broker, target: Broker, size: int, messages: int, carry: Carry) -> Cost:
    """Return the cost of a message: of a long run without a short one."""
    spent = []
    for count in (SHORT, SHORT + messages):
        fill(source, count, size)
        spent.append(carry(source, target, count))
        empty(target)
    return between(spent[0], spent[1], messages)


def between(short: Spent, long: Spent, messages: int) -> Cost:
    """Return the cost of each of the messages that a long run has more than a short one."""
    source, bridge, target = ((more - less) / messages * 1e6 for less, more in zip(short, long, strict=True))
    return Cost(source, bridge, target)


def best(costs: list[Cost]) -> Cost:
    """Return the least disturbed of several."""
    return min(costs, key=lambda cost: cost.total)


def ours(scratch: Path, sizes: tuple[int, ...], messages: int, rounds: int) -> dict[tuple[str, int], list[Cost]]:
    """Measure ours, by protocol and size."""
    found: dict[tuple[str, int], list[Cost]] = {}
    with ExitStack() as stack:
        brokers = []
        for name in ("source", "target"):
            (scratch / name).mkdir()
            broker = start_penstock(COMPILED, scratch / name)
            stack.callback(broker.stop)
            with connect(url_of(broker), protocol="amqp091") as connection:
                connection.declare_queue(QUEUE, durable=True, capacity_bytes="none", capacity_messages="none")
            brokers.append(broker)
        print(brokers[0].title, flush=True)
        for _ in range(rounds):
            for protocol in PROTOCOLS:
                for size in sizes:
                    cost = cost_of(brokers[0], brokers[1], size, messages, partial(carry_here, protocol))
                    found.setdefault((protocol, size), []).append(cost)
                    print(f"  {protocol}, {size:,} B: {cost}", flush=True)
    return found


def theirs(scratch: Path, sizes: tuple[int, ...], messages: int, rounds: int) -> dict[int, list[Cost]]:
    """Measure RabbitMQ's shovel, by size; nothing where RabbitMQ is not installed."""
    found: dict[int, list[Cost]] = {}
    with ExitStack() as stack:
        nodes, brokers = [], []
        for name in ("source", "target"):
            (scratch / f"rabbitmq-{name}").mkdir()
            try:
                node = RabbitmqNode(scratch / f"rabbitmq-{name}", plugins=("rabbitmq_shovel",))
                broker = start_node(RABBITMQ, node)
            except BrokerUnavailable as reason:
                print(f"Without RabbitMQ: {reason}")
                return {}
            stack.callback(broker.stop)
            with connect(url_of(broker), protocol="amqp091") as connection:
                connection.declare_queue(QUEUE, durable=True)
            nodes.append(node)
            brokers.append(broker)
        print(f"{brokers[0].title.replace('no plugins', 'its shovel')}, two nodes", flush=True)
        for _ in range(rounds):
            for size in sizes:
                cost = cost_of(brokers[0], brokers[1], size, messages, partial(carry_by_shovel, nodes[0]))
                found.setdefault(size, []).append(cost)
                print(f"  {size:,} B: {cost}", flush=True)
    return found


def measure(sizes: tuple[int, ...], messages: int, rounds: int, beside: bool) -> int:
    """Measure and print; return 1 if a goal is missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        here = ours(scratch, sizes, messages, rounds)
        there = theirs(scratch, sizes, max(messages // 5, 1), rounds) if beside else {}
    for (protocol, size), costs in here.items():
        cost = best(costs)
        line = f"{protocol}, {size:,} B: {cost}"
        if size in there:
            ratio = best(there[size]).total / cost.total
            goal = GOALS.get(size, 0.0)
            missed += ratio < goal
            line += f"; RabbitMQ {best(there[size]).total:.1f}: 1/{ratio:.1f} (goal 1/{goal:g})"
        print(line)
    return 1 if missed else 0
