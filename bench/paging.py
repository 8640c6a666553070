"""A queue that pages, filled with many times its capacity and emptied again: its memory, its depth, and how fast.

Prints the highest memory beside that of the empty broker, and the rate at which a consumer gets paged messages beside
that at which it gets them from memory; writes both over time as a picture.
"""

import argparse
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock
from bench import processes
from bench.brokers import COMPILED, INTERPRETED, Broker, start_penstock
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, Properties, decode_method, encode_header, frame, method_frame
from penstock.wire.sasl import plain_response

OUTPUT = Path(__file__).resolve().parent / "output"
MIB = 1 << 20
SAMPLE_S = 0.1
BODY = 1024
CHARGE = BODY + 240 + 3
"""Of one message: body, overhead, and its encoded properties."""
IN_MEMORY_MIB = 256
"""As much is in a queue that does not page, for comparison; no more than in the one that does."""
BATCH = 64
PREFETCH = 2000
READ = 256 * 1024
QUEUE = "paging"


@dataclass(frozen=True)
class Sample:
    """One look at the broker."""

    at: float
    resident_mib: float
    depth: int


class Link:
    """A blocking connection with one channel."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(120.0)
        self._rest = b""
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._method()
        tune = self._ask(0, spec.CONNECTION_START_OK, client_properties={}, mechanism="PLAIN",
                         response=plain_response("guest", "guest"), locale="en_US").args  # fmt: skip
        agreed = {name: int(str(tune[name])) for name in ("channel_max", "frame_max")}
        self.send(method_frame(0, spec.CONNECTION_TUNE_OK, heartbeat=0, **agreed))
        self._ask(0, spec.CONNECTION_OPEN, virtual_host="/")
        self.ask(spec.CHANNEL_OPEN)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, method: int, **args: Any) -> Method:
        return self._ask(1, method, **args)

    def read(self) -> bytes:
        data = self._rest or self.socket.recv(READ)
        self._rest = b""
        if not data:
            raise SystemExit("The broker has closed the connection.")
        return data

    def depth(self) -> int:
        return int(str(self.ask(spec.QUEUE_DECLARE, queue=QUEUE, passive=True).args["message_count"]))

    def _ask(self, channel: int, method: int, **args: Any) -> Method:
        self.send(method_frame(channel, method, **args))
        return self._method()

    def _method(self) -> Method:
        data = b""
        while len(data) < 8 or len(data) < 8 + int.from_bytes(data[3:7], "big"):
            data += self.read()
        end = 8 + int.from_bytes(data[3:7], "big")
        self._rest = data[end:]
        method = decode_method(data[7 : end - 1])
        if method.id in (spec.CHANNEL_CLOSE, spec.CONNECTION_CLOSE):
            raise SystemExit(f"The broker has closed the channel: {method.args['reply_text']}")
        return method


class Watch:
    """Looks at the broker every tenth of a second, until it is told to stop."""

    def __init__(self, broker: Broker) -> None:
        self.samples: list[Sample] = []
        self._broker = broker
        self._link = Link(broker.port)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            resident = processes.resident_mib([self._broker.process.pid])
            self.samples.append(Sample(time.monotonic(), resident, self._link.depth()))


def fill(link: Link, messages: int) -> float:
    """Publish so many persistent messages, and wait until all are confirmed; returns how many a second."""
    head = method_frame(1, spec.BASIC_PUBLISH, exchange="", routing_key=QUEUE)
    head += frame(2, 1, encode_header(BODY, Properties(delivery_mode=2)))
    link.ask(spec.CONFIRM_SELECT)
    began, confirmed, unread = time.monotonic(), 0, b""
    for first in range(1, messages + 1, BATCH):
        numbers = range(first, min(first + BATCH, messages + 1))
        link.send(b"".join([head + frame(3, 1, number.to_bytes(8, "big").ljust(BODY, b".")) for number in numbers]))
        while numbers[-1] - confirmed > (PREFETCH if numbers[-1] < messages else 0):
            confirmed, unread = _confirms(unread + link.read(), confirmed)
    return messages / (time.monotonic() - began)


def _confirms(data: bytes, confirmed: int) -> tuple[int, bytes]:
    size = 8 + 13  # basic.ack: class, method, tag, multiple
    whole = len(data) // size * size
    for at in range(0, whole, size):
        if data[at + 7 : at + 11] != b"\x00\x3c\x00\x50":
            raise SystemExit("The broker has refused a message, or closed the channel.")
        confirmed = max(confirmed, int.from_bytes(data[at + 11 : at + 19], "big"))
    return confirmed, data[whole:]


def drain(link: Link, messages: int) -> float:
    """Consume so many messages and acknowledge them; they must come in order. Returns how many a second."""
    link.ask(spec.BASIC_QOS, prefetch_count=PREFETCH)
    tag = str(link.ask(spec.BASIC_CONSUME, queue=QUEUE, consumer_tag="c").args["consumer_tag"])
    method = 8 + 4 + 1 + len(tag) + 8 + 1 + 1 + 1 + len(QUEUE)
    before = method + 8 + len(encode_header(BODY, Properties(delivery_mode=2))) + 7
    size = before + BODY + 1
    began, seen, data = time.monotonic(), 0, b""
    while seen < messages:
        data += link.read()
        whole = len(data) // size
        for at in range(whole):
            (number,) = struct.unpack_from(">Q", data, at * size + before)
            seen += 1
            if number != seen:
                raise SystemExit(f"Message {number:,} came where {seen:,} was due.")
        data = data[whole * size :]
        if whole:
            link.send(method_frame(1, spec.BASIC_ACK, delivery_tag=seen, multiple=True))
    rate = messages / (time.monotonic() - began)
    link.ask(spec.BASIC_CANCEL, consumer_tag=tag)
    return rate


@contextmanager
def broker_with(form: str, folder: Path, arguments: dict[str, object]) -> Iterator[tuple[Broker, Link]]:
    """Run a broker with one queue."""
    folder.mkdir()
    broker = start_penstock(form, folder)
    try:
        link = Link(broker.port)
        link.ask(spec.QUEUE_DECLARE, queue=QUEUE, durable=True, arguments=arguments)
        yield broker, link
    finally:
        broker.stop()


def draw(samples: list[Sample], empty_mib: float, capacity_mib: int, path: Path) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 7), sharex=True, layout="constrained")
    try:
        times = [sample.at - samples[0].at for sample in samples]
        above.plot(times, [sample.depth * CHARGE / MIB for sample in samples], color="#0072B2")
        above.axhline(capacity_mib, color="#D55E00", linestyle="--", label="capacity in memory")
        above.set_ylabel("depth of the queue, MiB")
        above.set_ylim(bottom=0)
        above.legend(frameon=False)
        below.plot(times, [sample.resident_mib for sample in samples], color="#0072B2")
        below.axhline(empty_mib + capacity_mib, color="#D55E00", linestyle="--", label="empty broker and capacity")
        below.axhline(empty_mib, color="#8C8C8C", linestyle=":", label="empty broker")
        below.set_ylabel("memory of the broker, MiB")
        below.set_xlabel("seconds")
        below.set_ylim(bottom=0)
        below.legend(frameon=False)
        figure.suptitle("A queue that pages: filled far beyond its capacity, then emptied", x=0.01, ha="left")
        figure.savefig(path, dpi=130)
    finally:
        plt.close(figure)


def main() -> int:
    """Measure, print, draw; 1 if paged messages come at less than half the rate."""
    parser = argparse.ArgumentParser(prog="bench.paging", description=__doc__)
    parser.add_argument("--capacity-mib", type=int, default=8, help="of the queue (default %(default)s)")
    parser.add_argument("--times", type=int, default=100, help="so many times that is published (default %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT / "paging.png", help="the picture (default %(default)s)")
    wanted = parser.parse_args()
    form = COMPILED if penstock.compiled() else INTERPRETED
    messages = wanted.capacity_mib * wanted.times * MIB // CHARGE
    capacity: dict[str, object] = {"capacity-bytes": wanted.capacity_mib * MIB}
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-paging-") as scratch:
        with broker_with(form, Path(scratch, "paged"), {**capacity, "overflow": "page"}) as (broker, link):
            print(broker.title)
            empty = processes.resident_mib([broker.process.pid])
            watch = Watch(broker)
            filled = fill(link, messages)
            paged = drain(Link(broker.port), messages)
            watch.stop()
        plenty: dict[str, object] = {"capacity-bytes": 2 * IN_MEMORY_MIB * MIB}
        with broker_with(form, Path(scratch, "memory"), plenty) as (broker, link):
            kept = min(messages, IN_MEMORY_MIB * MIB // CHARGE)
            filled_memory = fill(link, kept)
            memory = drain(Link(broker.port), kept)
    highest = max(sample.resident_mib for sample in watch.samples)
    print(f"{messages:,} persistent messages of {BODY} bytes, {wanted.times} times the capacity")
    print(f"memory: empty {empty:.1f} MiB, capacity {wanted.capacity_mib} MiB, highest {highest:.1f} MiB")
    print(f"published a second: {filled:,.0f} paged, {filled_memory:,.0f} in memory")
    print(f"consumed a second: {paged:,.0f} paged, {memory:,.0f} from memory: {paged / memory:.0%}")
    draw(watch.samples, empty, wanted.capacity_mib, wanted.output)
    print(f"picture: {wanted.output}")
    return 0 if paged * 2 >= memory else 1


if __name__ == "__main__":
    sys.exit(main())
