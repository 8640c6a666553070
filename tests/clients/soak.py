"""A producer at full speed and nobody who consumes, for as long as wanted: highest depth and memory over time.

python -m tests.clients.soak --seconds 60 --capacity-mib 4
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pika
from pika.exceptions import AMQPError

import penstock
from tests.support.brokers import PATIENCE, BrokerProcess, serving, some_name

MIB = 1024 * 1024
LOOKS = 4
"""Looks at the broker at the least once the queue grows no more, however long they take."""


@dataclass
class Seen:
    """What was seen of an attempt to overrun a queue."""

    capacity: int = 0
    highest: int = 0
    messages: int = 0
    rss: list[int] = field(default_factory=list)
    """Resident memory of the broker in bytes, before the first publish and after every step."""
    full_at: int = 0
    """Index in `rss` of the first step at which the queue grew no more; 0 if it never stopped."""


def publish_for_ever(url: str, queue: str, body: int, confirming: bool) -> None:
    """Publish as fast as the broker takes it, until this process is ended or the broker has had enough."""
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    if confirming:
        channel.confirm_delivery()
    with suppress(AMQPError):
        while True:
            channel.basic_publish("", queue, bytes(body))


def overrun(
    broker: BrokerProcess,
    *,
    seconds: float,
    capacity: int,
    body: int,
    confirming: bool,
    step: float,
    tell: bool = False,
) -> Seen:
    """Let a producer try until the queue grows no more, and for so many seconds more; look every `step` seconds.

    There are `LOOKS` of them at the least. A queue that still grows after `PATIENCE` seconds is left alone.
    """
    seen = Seen()
    queue = some_name("overrun")
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    connection.channel().queue_declare(queue, arguments={"capacity-bytes": capacity, "hold-deadline": 0})
    broker.queue(queue)
    seen.rss.append(broker.rss())
    context = multiprocessing.get_context("spawn")
    producer = context.Process(target=publish_for_ever, args=(broker.url, queue, body, confirming), daemon=True)
    producer.start()
    start = time.monotonic()
    end = start + PATIENCE
    depth = 0
    try:
        while time.monotonic() < end or (seen.full_at and len(seen.rss) < seen.full_at + LOOKS):
            connection.process_data_events(step)
            view = broker.queue(queue)
            seen.capacity = view["capacity"]["bytes"]
            seen.highest = max(seen.highest, view["highest"]["bytes"])
            seen.messages = view["depth"]["messages"]
            seen.rss.append(broker.rss())
            grown, depth = view["depth"]["bytes"] != depth, view["depth"]["bytes"]
            if not seen.full_at and not grown and not view["gate"]["open"]:
                seen.full_at = len(seen.rss) - 1
                end = time.monotonic() + seconds
            if tell:
                shown = f"depth {view['depth']['bytes']:,} of {seen.capacity:,} bytes, {seen.messages:,} messages"
                memory = f"highest {seen.highest:,}; memory {seen.rss[-1] / MIB:.1f} MiB"
                print(f"{time.monotonic() - start:5.0f} s  {shown}, {memory}", flush=True)
    finally:
        producer.kill()
        producer.join()
        connection.channel().queue_delete(queue)
        connection.close()
    return seen


def main() -> None:
    """Read the options, start a broker and let a producer try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--capacity-mib", type=float, default=4)
    parser.add_argument("--body", type=int, default=1000, help="octets of each message")
    parser.add_argument("--confirms", action="store_true")
    parser.add_argument("--step", type=float, default=10, help="seconds between two looks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as broker:
        form = "compiled" if penstock.compiled() else "interpreted"
        print(
            f"{form}, a producer {'with' if options.confirms else 'without'} confirms, bodies of {options.body} octets"
        )
        seen = overrun(
            broker,
            seconds=options.seconds,
            capacity=int(options.capacity_mib * MIB),
            body=options.body,
            confirming=options.confirms,
            step=options.step,
            tell=True,
        )
    verdict = "not overrun" if seen.highest <= seen.capacity else "OVERRUN"
    print(
        f"{verdict}: highest depth {seen.highest:,} of {seen.capacity:,} bytes; memory {seen.rss[0] / MIB:.1f} MiB "
        f"before, {max(seen.rss) / MIB:.1f} MiB at most, {seen.rss[-1] / MIB:.1f} MiB at the end"
    )


if __name__ == "__main__":
    main()
