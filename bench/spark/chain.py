"""Rate of a chain q1 → A → q2 → B whose two queues count in one full limit, beside the rate without that limit.

A and B do what the tasks of two queries do, without a JVM: A reads batches of one queue and sends them to the other
before it settles them, B reads and settles. A producer fills q1 all the time. `python -m bench.spark.chain SECONDS`
prints the rows a second that arrive at B: without a limit, and with 1,000 messages for a virtual host, an address, or
16 MiB of memory of the node. Each queue has a capacity too. Rounds are interleaved, and half of the time is for the
chain without a limit. On a machine with other load, the share of the round beside it says more than the medians.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.options import sink_options, source_options
from pyspark_penstock.publish import Sender
from pyspark_penstock.reader import PenstockStreamReader

LIMIT = 1_000
BODY = 4_000
MEMORY = 16 << 20
"""Limit of the memory: blocks on their way to readers count in it as well."""
CAPACITIES = {"memory": 8 * LIMIT}
"""Capacity of each queue, with a limit and beside it, if it is not that of the limit."""
ROWS = LIMIT // 2
"""Most rows of a batch; a plan takes no more of a limit."""
ROUNDS = 2
SETTLING_IN = 0.2
"""Part of a round before it counts."""
EXCHANGE = "chain"
LIMITS: dict[str, tuple[str, str, dict[str, object]]] = {
    "virtual host": ("vhost", "/", {"capacity-messages": LIMIT}),
    "address": ("address", EXCHANGE, {"capacity-messages": LIMIT}),
    "memory": ("broker", "", {"memory-capacity": MEMORY}),
}


def ask(address: str, operation: str, **fields: object) -> dict[str, Any]:
    """Ask for a control operation."""
    host, port = address.split(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        replies = channel.queue_declare("", exclusive=True).method.queue
        properties = pika.BasicProperties(reply_to=replies, correlation_id="1")
        channel.basic_publish("penstock.control", operation, json.dumps(fields).encode(), properties)
        for _, reply, body in channel.consume(replies, auto_ack=True, inactivity_timeout=60):
            if reply is None or reply.content_type != "application/json":
                raise RuntimeError(f"{operation} was refused: {body!r}")
            found: dict[str, Any] = json.loads(body)
            return found
    raise RuntimeError("the channel was closed")


def _as_task_of(query: str) -> None:
    """Be a task of a query, as Spark's local properties tell."""
    context = TaskContext._getOrCreate()
    context._localProperties = {"sql.streaming.queryId": query, "streaming.sql.batchId": "0"}


def _rows(until: float) -> Iterator[pa.RecordBatch]:
    batch = pa.RecordBatch.from_pydict({"value": [bytes(BODY)] * ROWS})
    while time.monotonic() < until:
        yield batch


def _to(address: str, queue: str) -> Sender:
    options = {"servers": address, "exchange": EXCHANGE, "routingKey": queue, "publishTimeout": "60s"}
    return Sender(sink_options(options))


def produce(address: str, seconds: float, ready: Any) -> None:
    """Fill q1 as fast as it takes."""
    sender = _to(address, "q1")
    ready.wait()
    sender.send(_rows(time.monotonic() + seconds))


def pass_on(address: str, seconds: float, ready: Any) -> None:
    """Be query A: send each batch of q1 to q2, then settle it."""
    _as_task_of("a")
    reader = _reader(address, "q1")
    start = reader.initialOffset()
    ready.wait()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        end = reader.latestOffset(start, ReadMaxRows(ROWS))
        if end == start:
            continue
        for partition in reader.partitions(start, end):
            _to(address, "q2").send(batch.select(["value"]) for batch in reader.read(partition))
        start = end
    reader.stop()


def take_out(address: str, seconds: float, ready: Any, found: Any) -> None:
    """Be query B: read and settle q2; tells the rows a second of its time."""
    _as_task_of("b")
    reader = _reader(address, "q2")
    start, count = reader.initialOffset(), 0
    ready.wait()
    since = time.monotonic() + seconds * SETTLING_IN
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        end = reader.latestOffset(start, ReadMaxRows(ROWS))
        if end == start:
            continue
        for partition in reader.partitions(start, end):
            rows = sum(batch.num_rows for batch in reader.read(partition))
            count += rows if time.monotonic() > since else 0
        start = end
    reader.stop()
    found.put(count / (until - since))


def _reader(address: str, queue: str) -> PenstockStreamReader:
    return PenstockStreamReader(source_options({"servers": address, "subscribe": queue, "cursor": queue}))


@contextmanager
def broker(capacity: int) -> Iterator[str]:
    """Run a broker with the two queues, which have this capacity; gives its address."""
    command = (sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--memory")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split("amqp://")[1].split()[0].rstrip("/")
        host, port = address.split(":")
        with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
            channel = connection.channel()
            channel.exchange_declare(EXCHANGE, "direct")
            for queue in ("q1", "q2"):
                channel.queue_declare(queue, arguments={"hold-deadline": 0, "capacity-messages": capacity})
                channel.queue_bind(queue, EXCHANGE, queue)
        try:
            yield address
        finally:
            process.terminate()


def rate(limit: str, is_set: bool, seconds: float) -> float:
    """Return the rows a second that arrive at B, within a limit, or without it but with the same queues."""
    with broker(CAPACITIES.get(limit, LIMIT)) as address:
        if is_set:
            scope, pattern, settings = LIMITS[limit]
            ask(address, "settings.set", scope=scope, pattern=pattern, settings=settings)
        processes = multiprocessing.get_context("spawn")
        found, ready = processes.Queue(), processes.Barrier(3)
        parts = [
            processes.Process(target=produce, args=(address, seconds, ready), daemon=True),
            processes.Process(target=pass_on, args=(address, seconds, ready), daemon=True),
            processes.Process(target=take_out, args=(address, seconds, ready, found), daemon=True),
        ]
        for part in parts:
            part.start()
        answer = float(found.get(timeout=seconds + 120))
        for part in parts:
            part.kill()
            part.join()
        return answer


def compare(seconds: float, limits: list[str], rounds: int = ROUNDS) -> dict[str, list[tuple[float, float]]]:
    """Return the rates within each limit, round by round, each with that without it right after."""
    each = seconds / (2 * rounds * len(limits))
    rates: dict[str, list[tuple[float, float]]] = {limit: [] for limit in limits}
    for _ in range(rounds):
        for limit in limits:
            within, free = rate(limit, True, each), rate(limit, False, each)
            print(f"{limit}: {within:,.0f} and {free:,.0f} without", file=sys.stderr, flush=True)
            rates[limit].append((within, free))
    return rates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, help="of all rounds")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--limits", nargs="*", choices=LIMITS, default=list(LIMITS), help="limits of these kinds only")
    given = parser.parse_args()
    print(f"rows a second through q1 → A → q2 → B, batches of {ROWS}, {LIMIT:,} messages in a limit")
    for limit, pairs in compare(given.seconds, given.limits, given.rounds).items():
        within, free = (statistics.median(rates) for rates in zip(*pairs, strict=True))
        part = statistics.median(inside / max(outside, 1.0) for inside, outside in pairs)
        print(
            f"  {limit}: {within:,.0f} of {free:,.0f} without it, medians; {part:.0%} of the round beside it",
            flush=True,
        )
    print("load averages at the end:", *(f"{each:.1f}" for each in os.getloadavg()))


if __name__ == "__main__":
    main()
