"""The brake through three brokers in a row: producers, a queue of 1 MiB, a bridge, and so on to a slow consumer.

Producers publish as fast as they may, with confirms; the last consumer takes 500 messages a second. When the first
queue is full, the producers have the consumer's rate. At the end the producers stop, the rest is taken, and each number
must have come once. `neighbours` measures what other clients of the first broker notice of a bridge that is held.
"""

import json
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench import loadgen
from bench.bridges.cost import PROTOCOLS, bridge_command, url_of
from bench.brokers import Broker, start_penstock
from penstock.sync import connect

QUEUE = "q"
BROKERS = ("first", "second", "third")
CAPACITY = 1 << 20
"""Bytes of each queue, which each message charges with its body and 240."""
FULL = CAPACITY * 0.78
"""Bytes from which a queue counts as full: its gate closes at 80 %, and exact credit ends a message earlier."""
RATE = 500.0
"""Messages a second that the last consumer takes."""
PRODUCERS = 2
WINDOW = 100
"""Messages of a producer without a confirm."""
BODY = 300
LOOK_S = 0.2
QUIET_S = 3.0
"""Seconds without a message after which all are taken."""
PATIENCE_S = 120.0
WITHIN_S = 3.0
"""Most seconds from the first queue's full until the producers have the consumer's rate."""
TOLERANCE = 0.2
"""Part by which the producers' rate over `SPAN_S` may differ from the consumer's."""
SPAN_S = 10
SHARE = 0.95
"""Least part of its rate that a neighbour keeps beside a bridge that is held."""
SLICE_S = 3
SLICES = 10


@dataclass
class Seen:
    """What was seen, by the clock of `time.monotonic`."""

    began: float
    sent: list[float] = field(default_factory=list)
    """Times of the confirms."""
    taken: list[float] = field(default_factory=list)
    bodies: Counter[bytes] = field(default_factory=Counter)
    highest: dict[str, int] = field(default_factory=dict)
    """Highest depth of each queue in bytes, as its broker counts it."""
    full_at: float | None = None
    """Time at which the first queue was full first."""

    def per_second(self, times: Sequence[float], seconds: int) -> list[int]:
        """Return how many of these there were in each second."""
        counts = Counter(int(at - self.began) for at in times)
        return [counts[second] for second in range(seconds)]


@contextmanager
def three(form: str) -> Iterator[list[Broker]]:
    """Run three brokers with a queue each."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        brokers = []
        for name in BROKERS:
            (Path(folder) / name).mkdir()
            broker = start_penstock(form, Path(folder) / name)
            stack.callback(broker.stop)
            with connect(url_of(broker), protocol="amqp091") as connection:
                connection.declare_queue(QUEUE, capacity_bytes=CAPACITY)
            brokers.append(broker)
        yield brokers


@contextmanager
def bridged(source: Broker, target: Broker, protocol: str) -> Iterator[subprocess.Popen[str]]:
    """Run a bridge between two brokers; it ends in order."""
    process = subprocess.Popen(
        bridge_command(source, target, QUEUE, protocol, "--json"),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()


class Parties:
    """Producers, the consumer and an observer, in threads."""

    def __init__(self, brokers: Sequence[Broker], protocol: str, rate: float) -> None:
        self.seen = Seen(time.monotonic())
        self._brokers = brokers
        self._protocol = protocol
        self._rate = rate
        self._stop_producing = threading.Event()
        self._stop_looking = threading.Event()
        self.is_to_end = threading.Event()
        """Set when the consumer takes what is left as fast as it comes, and ends."""
        self.problems: list[BaseException] = []

    def start(self) -> list[threading.Thread]:
        """Start all; the consumer is the last."""
        acts = [lambda number=number: self._produce(number) for number in range(PRODUCERS)]
        threads = [threading.Thread(target=self._kept(act)) for act in (*acts, self._look, self._consume)]
        for thread in threads:
            thread.start()
        return threads

    def end(self, threads: Sequence[threading.Thread]) -> None:
        """Stop the producers, let everything be taken, and stop the others."""
        self._stop_producing.set()
        for thread in threads[:PRODUCERS]:
            thread.join(PATIENCE_S)
        self.is_to_end.set()
        threads[-1].join(PATIENCE_S)
        self._stop_looking.set()
        threads[PRODUCERS].join(PATIENCE_S)
        if self.problems:
            raise self.problems[0]

    def _kept(self, act: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                act()
            except BaseException as problem:
                self.problems.append(problem)

        return run

    def _produce(self, number: int) -> None:
        sent = self.seen.sent
        with connect(f"{url_of(self._brokers[0])}?protocol={self._protocol}") as connection:
            publisher = connection.publisher(QUEUE, window=WINDOW, durable=False, flow_control_wait_failure=PATIENCE_S)
            count = 0
            while not self._stop_producing.is_set():
                body = b"%d.%d" % (number, count)
                receipt = publisher.publish(body + bytes(BODY - len(body)))
                receipt.add_callback(lambda receipt: sent.append(time.monotonic()))
                count += 1
            publisher.drain(PATIENCE_S)

    def _consume(self) -> None:
        seen, due = self.seen, time.monotonic()
        with (
            connect(url_of(self._brokers[-1]), protocol="amqp091") as connection,
            connection.receiver(QUEUE, prefetch=50) as receiver,
        ):
            while True:
                delivery = receiver.receive(QUIET_S if self.is_to_end.is_set() else LOOK_S)
                now = time.monotonic()
                if delivery is None:
                    if self.is_to_end.is_set():
                        return
                    due = now
                    continue
                seen.bodies[delivery.body.rstrip(b"\0")] += 1
                seen.taken.append(now)
                delivery.accept()
                if not self.is_to_end.is_set():
                    due = max(due + 1 / self._rate, now - 0.1)
                    time.sleep(max(0.0, due - now))

    def _look(self) -> None:
        with ExitStack() as stack:
            connections = [stack.enter_context(connect(url_of(broker), protocol="amqp091")) for broker in self._brokers]
            while not self._stop_looking.wait(LOOK_S):
                for name, connection in zip(BROKERS, connections, strict=True):
                    row = connection.request("list", kind="queues")["items"][0]["penstock"]
                    highest = self.seen.highest[name] = row["highest"]["bytes"]
                    if name == BROKERS[0] and self.seen.full_at is None and highest >= FULL:
                        self.seen.full_at = time.monotonic()


def spans(rates: Sequence[int]) -> list[float]:
    """Return the mean rates over spans that follow each other."""
    return [statistics.fmean(rates[at : at + SPAN_S]) for at in range(0, len(rates) - SPAN_S + 1, SPAN_S)]


def slowed_after(rates: Sequence[int], full: int, rate: float) -> int | None:
    """Return the seconds from the full queue until three seconds together have the consumer's rate; None for never."""
    for second in range(full, len(rates) - 2):
        if statistics.fmean(rates[second : second + 3]) <= rate * (1 + TOLERANCE):
            return second - full
    return None


def run(protocol: str, seconds: int, rate: float, form: str) -> bool:
    """Run it once over a protocol, and print; return whether the goals are met."""
    with ExitStack() as stack:
        brokers = stack.enter_context(three(form))
        for source, target in pairwise(brokers):
            stack.enter_context(bridged(source, target, protocol))
        parties = Parties(brokers, protocol, rate)
        threads = parties.start()
        try:
            time.sleep(seconds)
            with connect(url_of(brokers[0]), protocol="amqp091") as connection:
                why = connection.why(QUEUE)
        finally:
            parties.end(threads)
        return report(protocol, seconds, rate, parties.seen, why.sentences)


def report(protocol: str, seconds: int, rate: float, seen: Seen, why: Sequence[str]) -> bool:
    """Print what was seen; return whether the goals are met."""
    sent, taken = seen.per_second(seen.sent, seconds), seen.per_second(seen.taken, seconds)
    full = seconds if seen.full_at is None else int(seen.full_at - seen.began)
    after = slowed_after(sent, full, rate)
    steady = sent[full + (after or 0) :]
    published = len(seen.sent)
    lost = published - len(seen.bodies)
    twice = sum(count - 1 for count in seen.bodies.values())
    highest = max(seen.highest.values(), default=0)
    print(f"{protocol}, {seconds} s, last consumer {rate:g}/s: {published:,} published, {lost} lost, {twice} twice")
    print(f"  first queue full after {full} s; producers at the consumer's rate after {after} s more")
    means = spans(steady)
    if means:
        bursts = f"in a second {min(steady)} to {max(steady)}, {steady.count(0)} of {len(steady)} without any"
        print(f"  producers over {SPAN_S} s: {min(means):.0f} to {max(means):.0f}/s; {bursts}")
    print(f"  consumer: {min(taken[3:-1], default=0)} to {max(taken)} a second")
    print(f"  highest depth {highest:,} of {CAPACITY:,} bytes: {json.dumps(seen.highest)}")
    print("  why: " + " | ".join(why[:3]))
    is_slowed = after is not None and after <= WITHIN_S
    is_even = all(abs(mean - rate) <= rate * TOLERANCE for mean in means)
    return lost == 0 and highest <= CAPACITY and is_slowed and is_even


def neighbours(protocol: str, form: str) -> bool:
    """Measure what another client pays beside a bridge that is held, and without it.

    Return whether it keeps `SHARE` of what the broker can do for it, by processor time: rates have all other load of
    the machine in them.
    """
    with three(form) as (first, second, _):
        fill(second)
        rates: dict[bool, list[float]] = {True: [], False: []}
        costs: dict[bool, list[float]] = {True: [], False: []}
        for number in range(2 * SLICES):
            is_held = number % 2 == 1
            with ExitStack() as stack:
                if is_held:
                    fill(first)
                    stack.enter_context(bridged(first, second, protocol))
                    time.sleep(2)  # Its start is not what is measured.
                found = loadgen.run(first.port, "--seconds", str(SLICE_S), "--ack", "100", pids=first.pids())
                rates[is_held].append(found["rate"])
                costs[is_held].append(found["broker_cpu"] / found["messages"] * 1e6)
    held, free = (statistics.median(rates[is_held]) for is_held in (True, False))
    paid, alone = (min(costs[is_held]) for is_held in (True, False))
    share = alone / paid
    print(
        f"{protocol}: another client has {held:,.0f}/s beside a held bridge and {free:,.0f}/s without; "
        f"the broker pays {paid:.3f} and {alone:.3f} us a message: {share:.1%}"
    )
    return share >= SHARE


def fill(broker: Broker) -> None:
    """Fill the queue up to its gate."""
    with connect(url_of(broker), protocol="amqp10") as connection:
        publisher = connection.publisher(QUEUE, durable=False)
        while publisher.try_publish(bytes(BODY)):
            publisher.drain(PATIENCE_S)


def measure(protocols: Sequence[str], seconds: int, rate: float, form: str) -> int:
    """Run all; return 1 if a goal is missed."""
    found = [run(protocol, seconds, rate, form) for protocol in protocols]
    found += [neighbours(protocol, form) for protocol in protocols]
    return 0 if all(found) else 1


__all__ = ["PROTOCOLS", "measure"]
