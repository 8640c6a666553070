"""A queue that pages, filled with many times its capacity and emptied again: its memory, its depth, and how fast.

First one queue with 100 times its capacity: prints the highest memory beside that of the empty broker, and draws memory
and depth over time. Then, for messages of two sizes, persistent and transient, and in turn, queues of the same depth
that page and that do not, filled and then emptied: how fast they are emptied, and what processor time of the broker a
message takes.
"""

import argparse
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock
from bench import processes
from bench.brokers import COMPILED, INTERPRETED, Broker, PenstockNode, start_penstock
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.sasl import plain_response

OUTPUT = Path(__file__).resolve().parent / "output"
MIB = 1 << 20
SAMPLE_S = 0.1
COMPARED_MIB = 160
"""As much (charges) is in each of the queues that are compared."""
BATCH = 64
PREFETCH = 2000
READ = 256 * 1024
REST_S = 0.3
QUEUE = "paging"


@dataclass(frozen=True)
class Kind:
    """What is published."""

    body: int
    persistent: bool

    def __str__(self) -> str:
        return f"{self.body:,} bytes, {'persistent' if self.persistent else 'transient'}"

    def header(self) -> bytes:
        """Return what stands before the body's frame: the content header."""
        properties = Properties(delivery_mode=2) if self.persistent else Properties()
        return frame(2, 1, encode_header(self.body, properties))

    def charge(self) -> int:
        """Return what the broker counts for a message: body, overhead, and its encoded properties."""
        return self.body + 240 + (3 if self.persistent else 2)


@dataclass(frozen=True)
class Emptied:
    """How a queue was emptied."""

    rate: float
    """Messages a second."""
    loop_us: float
    others_us: float
    """Processor time of the broker for a message, in microseconds: of its event loop, and of its other threads."""


@dataclass(frozen=True)
class Sample:
    """One look at the broker."""

    at: float
    resident_mib: float
    depth: int


class Link:
    """A blocking connection with one channel; use it with `closing`."""

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

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

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
        self._link.close()

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            resident = processes.resident_mib([self._broker.process.pid])
            self.samples.append(Sample(time.monotonic(), resident, self._link.depth()))


def fill(link: Link, kind: Kind, messages: int) -> float:
    """Publish so many messages, and wait until all are confirmed; returns how many a second."""
    head = method_frame(1, spec.BASIC_PUBLISH, exchange="", routing_key=QUEUE) + kind.header()
    link.ask(spec.CONFIRM_SELECT)
    began, confirmed, unread = time.monotonic(), 0, b""
    for first in range(1, messages + 1, BATCH):
        numbers = range(first, min(first + BATCH, messages + 1))
        link.send(
            b"".join([head + frame(3, 1, number.to_bytes(8, "big").ljust(kind.body, b".")) for number in numbers])
        )
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


def drain(link: Link, kind: Kind, messages: int) -> float:
    """Consume so many messages and acknowledge them; they must come in order. Returns how many a second."""
    link.ask(spec.BASIC_QOS, prefetch_count=PREFETCH)
    tag = str(link.ask(spec.BASIC_CONSUME, queue=QUEUE, consumer_tag="c").args["consumer_tag"])
    before = 8 + 4 + 1 + len(tag) + 8 + 1 + 1 + 1 + len(QUEUE) + len(kind.header()) + 7
    size = before + kind.body + 1
    form = struct.Struct(f">{before}xQ{size - before - 8}x")
    began, seen, data = time.monotonic(), 0, b""
    while seen < messages:
        data += link.read()
        whole = len(data) // size
        if whole:
            for (number,) in form.iter_unpack(data[: whole * size]):
                seen += 1
                if number != seen:
                    raise SystemExit(f"Message {number:,} came where {seen:,} was due.")
            data = data[whole * size :]
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
        with closing(Link(broker.port)) as link:
            link.ask(spec.QUEUE_DECLARE, queue=QUEUE, durable=True, arguments=arguments)
            yield broker, link
    finally:
        broker.stop()


def grow(form: str, folder: Path, capacity_mib: int, times: int, picture: Path) -> None:
    """Fill a queue with so many times its capacity, empty it, and print and draw what was seen."""
    kind = Kind(1024, True)
    messages = capacity_mib * times * MIB // kind.charge()
    arguments: dict[str, object] = {"capacity-bytes": capacity_mib * MIB, "overflow": "page"}
    with broker_with(form, folder, arguments) as (broker, link):
        empty = processes.resident_mib([broker.process.pid])
        watch = Watch(broker)
        filled = fill(link, kind, messages)
        with closing(Link(broker.port)) as consuming:
            emptied = drain(consuming, kind, messages)
        watch.stop()
        left = link.depth()
    highest = max(sample.resident_mib for sample in watch.samples)
    print(f"{messages:,} messages of {kind}, {times} times the capacity: {filled:,.0f}/s in, {emptied:,.0f}/s out")
    print(
        f"memory: empty {empty:.1f} MiB, capacity {capacity_mib} MiB, highest {highest:.1f} MiB: "
        f"{highest - empty - capacity_mib:.1f} MiB beyond"
    )
    depth = max(sample.depth for sample in watch.samples) * kind.charge() / MIB
    print(f"depth: highest {depth:,.0f} MiB; left in the queue: {left:,} messages")
    draw(watch.samples, kind, empty, capacity_mib, picture)
    print(f"picture: {picture}")


def measure(form: str, folder: Path, kind: Kind, arguments: dict[str, object]) -> Emptied:
    """Fill a queue, wait until the broker is at rest, and empty it."""
    messages = COMPARED_MIB * MIB // kind.charge()
    with broker_with(form, folder, arguments) as (broker, link):
        fill(link, kind, messages)
        before = at_rest(broker)
        with closing(Link(broker.port)) as consuming:
            rate = drain(consuming, kind, messages)
        after = cpu_seconds(broker)
    return Emptied(rate, (after[0] - before[0]) / messages * 1e6, (after[1] - before[1]) / messages * 1e6)


def at_rest(broker: Broker) -> tuple[float, float]:
    """Wait until the broker has nothing to do any more; returns its processor time until then."""
    seen = cpu_seconds(broker)
    while True:
        time.sleep(REST_S)
        now = cpu_seconds(broker)
        if sum(now) - sum(seen) < REST_S / 10:
            return now
        seen = now


def cpu_seconds(broker: Broker) -> tuple[float, float]:
    """Return the processor time that the broker's event loop has taken, and its other threads."""
    times = {int(task.name): int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks(broker)}
    loop = times.pop(broker.process.pid)
    return loop, sum(times.values())


def tasks(broker: Broker) -> list[Path]:
    """Return the folders of its threads."""
    return list((processes.PROC / str(broker.process.pid) / "task").iterdir())


def compare(form: str, scratch: Path, capacity_mib: int, rounds: int, kind: Kind) -> float:
    """Print how queues that page and that do not are emptied, in turn; returns the ratio of the medians."""
    paging: dict[str, object] = {"capacity-bytes": capacity_mib * MIB, "overflow": "page"}
    plain: dict[str, object] = {"capacity-bytes": 4 * COMPARED_MIB * MIB}
    found: dict[str, list[Emptied]] = {"from memory": [], "paged": []}
    for number in range(rounds):
        for name, arguments in (("from memory", plain), ("paged", paging)):
            folder = scratch / f"{kind.body}-{kind.persistent}-{name}-{number}"
            found[name].append(measure(form, folder, kind, arguments))
    rates = {name: statistics.median(each.rate for each in all_of) for name, all_of in found.items()}
    ratio = rates["paged"] / rates["from memory"]
    for name, all_of in found.items():
        loop = min(each.loop_us for each in all_of)
        others = min(each.others_us for each in all_of)
        print(f"{kind!s:24} {name:12} {rates[name]:10,.0f}/s  broker {loop:.2f} + {others:.2f} us a message")
    print(f"{kind!s:24} {'ratio':12} {ratio:10.0%}")
    return ratio


def draw(samples: list[Sample], kind: Kind, empty_mib: float, capacity_mib: int, path: Path) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 7), sharex=True, layout="constrained")
    try:
        times = [sample.at - samples[0].at for sample in samples]
        above.plot(times, [sample.depth * kind.charge() / MIB for sample in samples], color="#0072B2")
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


def main(words: list[str] | None = None) -> int:
    """Measure, print, draw; 1 if any paged messages come at less than half the rate."""
    parser = argparse.ArgumentParser(prog="bench.paging", description=__doc__)
    parser.add_argument("--capacity-mib", type=int, default=8, help="of the queues that page (default %(default)s)")
    parser.add_argument("--times", type=int, default=100, help="so many times that is published (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison, 0: none (default %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT / "paging.png", help="the picture (default %(default)s)")
    wanted = parser.parse_args(words)
    form = COMPILED if penstock.compiled() else INTERPRETED
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-paging-") as folder:
        scratch = Path(folder)
        print(PenstockNode(form, scratch).title)
        grow(form, scratch / "grown", wanted.capacity_mib, wanted.times, wanted.output)
        if not wanted.rounds:
            return 0
        kinds = [Kind(body, persistent) for body in (1024, 100) for persistent in (True, False)]
        ratios = [compare(form, scratch, wanted.capacity_mib, wanted.rounds, kind) for kind in kinds]
    return 0 if min(ratios) >= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
