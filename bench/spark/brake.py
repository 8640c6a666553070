"""The brake: a last sink of 500 rows a second holds the first producers, through three queues and two queries.

Producers publish into q1 as fast as they may, with confirms. Query A writes what it reads from q1 into q2, query B what
it reads from q2 into q3, and a consumer takes 500 messages a second from q3. `python -m bench.spark.brake SECONDS` runs
that once plain, and once in a virtual host that holds no more than one of the queues. Each second it looks at depths,
gates and rates. At the end the producers stop, all queues are emptied, and each number must have come once.

Samples are written as JSON and as a picture. Exit code 1 if a queue was above its capacity, the virtual host above its
bound (decision 56), or if something was lost or doubled.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.crash_spark.judge import Verdict, judge
from bench.spark.node import Node, running
from bench.spark.session import session
from penstock.client.engine.window import SendResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OUTPUT = Path(__file__).resolve().parents[1] / "output" / "brake"
QUEUES = ("q1", "q2", "q3")
CAPACITY = 4_000
"""Messages of each queue; in a bounded virtual host, also of all of them."""
RATE = 500.0
"""Messages a second that the last sink takes."""
PRODUCERS = 2
WINDOW = 200
"""Messages of a producer without a confirm."""
PREFETCH = 100
TAKEN = 50
"""Messages that the last sink takes at a time: it is not what the measurement is about."""
CATCHING_UP = 1.0
"""Seconds that the last sink may be behind its rate and make up for."""
CORES = 4
"""Tasks at a time: those of A and B wait for room, and hold a core meanwhile."""
SETTLING_IN = 90.0
"""Seconds until the producers are held; at most a third of the run."""
SMOOTH = 20
"""Seconds over which a rate is averaged in the picture: a batch makes room at once."""
DRAINING = 600.0
STARTS = 5
BODY = 100
PLAIN, BOUNDED = "plain", "bounded-vhost"


@dataclass(frozen=True)
class Sample:
    """What was seen at one moment, in seconds since the producers began."""

    at: float
    depths: dict[str, int]
    highest: dict[str, int]
    """Highest depth of each queue so far, as the broker counts it."""
    open: dict[str, bool]
    """Whether each gate is open: of the queues, and of the virtual host."""
    total: int
    """Messages in the virtual host."""
    accepted: int
    """Publishes that were confirmed so far."""
    out: int
    """Messages that the last sink has taken so far."""


@dataclass
class Run:
    """One run: its conditions, what was seen, and what came of it."""

    kind: str
    seconds: float
    limit: int | None
    """Capacity of the virtual host in messages; None if it has none."""
    load: tuple[float, ...] = ()
    """Load averages of the machine at the end."""
    samples: list[Sample] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict(0, 0, 0, 0))

    def faults(self) -> list[str]:
        """Return what was not as it must be."""
        found = [] if self.verdict.is_exact() else [self.verdict.describe()]
        for queue in QUEUES:
            highest = max(sample.highest[queue] for sample in self.samples)
            if highest > CAPACITY:
                found.append(f"{queue} had {highest:,} messages, its capacity is {CAPACITY:,}")
        bound = None if self.limit is None else 2 * self.limit  # decision 56: two queries, each a half
        total = max(sample.total for sample in self.samples)
        if bound is not None and total > bound:
            found.append(f"the virtual host had {total:,} messages, its bound is {bound:,}")
        return found

    def held(self) -> list[Sample]:
        """Return the samples of the time that counts: from when the chain is full until the producers stop."""
        since = min(SETTLING_IN, self.seconds / 3)
        return [sample for sample in self.samples if since <= sample.at <= self.seconds]

    def rate(self, count: Callable[[Sample], int]) -> float:
        """Return messages a second over the time that counts."""
        first, *_, last = self.held()
        return (count(last) - count(first)) / (last.at - first.at)

    def smooth(self, count: Callable[[Sample], int]) -> list[tuple[float, float]]:
        """Return messages a second, each over the seconds before it."""
        pairs = zip(self.samples, self.samples[SMOOTH:], strict=False)
        return [(later.at, (count(later) - count(first)) / (later.at - first.at)) for first, later in pairs]

    def told(self) -> list[str]:
        """Return what was seen, line by line."""
        counted = self.held()
        depths = [
            f"{queue} {max(sample.highest[queue] for sample in self.samples):,} at most, "
            f"median {statistics.median(sample.depths[queue] for sample in counted):,.0f}"
            for queue in QUEUES
        ]
        total = max(sample.total for sample in self.samples)
        limit = "no limit" if self.limit is None else f"limit {self.limit:,}"
        shut = sum(not sample.open["q1"] or not sample.open.get("vhost", True) for sample in counted)
        load = ", ".join(f"{each:.1f}" for each in self.load)
        return [
            f"{self.kind}: {self.seconds:.0f} s, load averages {load}",
            f"  accepted {self.rate(_accepted):.0f}/s, out {self.rate(_out):.0f}/s after the first "
            f"{counted[0].at:.0f} s; the producers' gate was closed in {shut / len(counted):.0%} of the looks",
            f"  depths (capacity {CAPACITY:,}): {'; '.join(depths)}; all {total:,} at most ({limit})",
            f"  {self.verdict.describe()}",
            *(f"  FAULT: {fault}" for fault in self.faults()),
        ]


def _accepted(sample: Sample) -> int:
    return sample.accepted


def _out(sample: Sample) -> int:
    return sample.out


class Producer(threading.Thread):
    """Publishes numbered messages as fast as it may, until it is told to stop; then waits for all confirms."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self._node, self._number = node, number
        self.leave = threading.Event()
        self.result = SendResult()
        self.published = 0

    def run(self) -> None:
        """Publish."""
        with self._node.connected() as connection:
            publisher = connection.publisher(QUEUES[0], window=WINDOW, durable=False, flow_control_wait_failure=0)
            publisher.send_many(self._bodies(), result=self.result)

    def _bodies(self) -> Iterator[bytes]:
        while not self.leave.is_set():
            yield self.body(self.published)
            self.published += 1

    @property
    def accepted(self) -> int:
        """Return how many messages are confirmed."""
        return self.result.confirmed

    @property
    def refused(self) -> int:
        """Return how many messages were refused."""
        return self.result.refused_count

    def name_of(self, number: int) -> str:
        """Return the text by which a message is known."""
        return f"{self._number}-{number}"

    def body(self, number: int) -> bytes:
        """Return a message."""
        return self.name_of(number).encode().ljust(BODY)


class LastSink(threading.Thread):
    """Takes messages from the last queue at a rate, or as they come when there is none."""

    def __init__(self, node: Node) -> None:
        super().__init__(name="last sink", daemon=True)
        self._node = node
        self.rate: float | None = RATE
        self.leave = threading.Event()
        self.found: list[str] = []

    def run(self) -> None:
        """Consume."""
        with self._node.connected() as connection:
            receiver = connection.receiver(QUEUES[-1], prefetch=PREFETCH, consumerWindowSize=-1)
            due, count = time.monotonic(), 0
            while not self.leave.is_set():
                delivery = receiver.receive(0.5) if count == 0 else receiver.receive_nowait()
                if delivery is not None:
                    self.found.append(delivery.body.decode().rstrip())
                    delivery.accept()
                    count += 1
                if count == TAKEN or (delivery is None and count):
                    connection.poll(0)
                    if self.rate is not None:
                        due = max(due + count / self.rate, time.monotonic() - CATCHING_UP)
                        time.sleep(max(due - time.monotonic(), 0.0))
                    count = 0


def query(spark: "SparkSession", node: Node, name: str, source: str, target: str, scratch: Path) -> "StreamingQuery":
    """Start a query that writes what it reads from a queue into another one, with the default options."""
    frame = (
        spark.readStream.format("penstock")
        .option("servers", node.address)
        .option("subscribe", source)
        .option("cursor", name)
        .load()
    )
    writer = frame.select("value").writeStream.format("penstock").queryName(name)
    writer = writer.option("servers", node.address).option("queue", target)
    return writer.option("checkpointLocation", str(scratch / f"checkpoint-{name}")).start()


def attached(start: Callable[[], "StreamingQuery"], node: Node, queue: str) -> "StreamingQuery":
    """Start a query, and wait until its cursor is there.

    Spark waits for ten seconds for the process of a source, which are not enough on a very busy machine.
    """
    with node.connected() as control:
        for _ in range(STARTS):
            found = start()
            while found.isActive:
                if control.why(queue).raw["cursors"]:
                    return found
                time.sleep(0.2)
            print(f"{found.name} has ended at its start: {found.exception()}", file=sys.stderr)
    raise RuntimeError(f"the query of {queue} has ended {STARTS} times at its start")


@contextmanager
def chain(spark: "SparkSession", node: Node, scratch: Path, limit: int | None) -> Iterator[list["StreamingQuery"]]:
    """Declare the queues and run the two queries."""
    with node.connected() as connection:
        for queue in QUEUES:
            connection.declare_queue(queue, durable=False, hold_deadline=0, capacity_messages=CAPACITY)
    if limit is not None:
        settings = {"capacity-messages": limit}
        with node.connected() as control:
            control.set("vhost", "/", settings)
    queries: list[StreamingQuery] = []
    try:
        for source, target in itertools.pairwise(QUEUES):
            queries.append(
                attached(partial(query, spark, node, f"query-{source}", source, target, scratch), node, source)
            )
        yield queries
    finally:
        for each in queries:
            each.stop()


def look(control: Any, at: float, producers: list[Producer], sink: LastSink) -> Sample:
    """Ask the broker about the queues."""
    views = {queue: control.why(queue) for queue in QUEUES}
    gates = {queue: bool(view["gate"]["open"]) for queue, view in views.items()}
    depths = {queue: int(view["depth"]["messages"]) for queue, view in views.items()}
    vhost = next((gate for gate in views["q1"]["gates"] if gate["kind"] == "vhost"), None)
    if vhost is not None:
        gates["vhost"] = bool(vhost["open"])
    return Sample(
        round(at, 3),
        depths,
        {queue: int(view["highest"]["messages"]) for queue, view in views.items()},
        gates,
        sum(depths.values()) if vhost is None else int(vhost["depth"]["messages"]),
        sum(producer.accepted for producer in producers),
        len(sink.found),
    )


def measured(kind: str, seconds: float) -> Run:
    """Run the chain once. Raises `RuntimeError` if a query or a thread has ended, or the queues do not get empty."""
    run = Run(kind, seconds, CAPACITY if kind == BOUNDED else None)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(log=Path(folder) / "broker.log") as node,
        session(CORES) as spark,
        chain(spark, node, Path(folder), run.limit) as queries,
        node.connected() as control,
    ):
        producers = [Producer(node, number) for number in range(PRODUCERS)]
        sink = LastSink(node)
        began = time.monotonic()
        for thread in (*producers, sink):
            thread.start()
        for second in range(1, int(seconds + DRAINING)):
            time.sleep(max(began + second - time.monotonic(), 0.0))
            at = time.monotonic() - began
            run.samples.append(look(control, at, producers, sink))
            _check(queries, [sink, *producers] if at < seconds else [sink])
            if second % 30 == 0:
                last = run.samples[-1]
                print(f"{kind} {at:.0f} s: {last.depths}, {last.accepted:,} in, {last.out:,} out", file=sys.stderr)
            if at >= seconds:
                sink.rate = None
                for producer in producers:
                    producer.leave.set()
                if not any(producer.is_alive() for producer in producers) and not run.samples[-1].total:
                    break
        run.load = os.getloadavg()
        time.sleep(2.0)  # what comes too often, comes now
        sink.leave.set()
        sink.join()
        expected = [each.name_of(number) for each in producers for number in range(each.published)]
        run.verdict = judge(expected, sink.found)
        refused = sum(producer.refused for producer in producers)
        if refused:
            raise RuntimeError(f"{refused} publishes were refused")
    return run


def _check(queries: list["StreamingQuery"], threads: Sequence[threading.Thread]) -> None:
    for each in queries:
        if not each.isActive:
            raise RuntimeError(f"{each.name} has ended: {each.exception()}")
    for thread in threads:
        if not thread.is_alive():
            raise RuntimeError(f"the {thread.name} has ended")


def draw(run: Run, path: Path) -> None:
    """Write the picture (matplotlib is in the dependency group `demo`): depths and capacities above, rates below."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
    matplotlib.rcParams["svg.hashsalt"] = run.kind
    import matplotlib.pyplot as plt

    at = [sample.at for sample in run.samples]
    lines = {queue: [sample.depths[queue] for sample in run.samples] for queue in QUEUES}
    limits = dict.fromkeys(QUEUES, (CAPACITY, "capacity"))
    if run.limit is not None:
        lines["all queues"] = [sample.total for sample in run.samples]
        limits["all queues"] = (run.limit, "capacity of the virtual host")
    figure, panels = plt.subplots(len(lines) + 1, 1, figsize=(10, 1.5 * len(lines) + 2.2), sharex=True)
    figure.set_layout_engine("constrained")
    for panel, (name, depths) in zip(panels, lines.items(), strict=False):
        panel.plot(at, depths, color="#0072B2", lw=0.8)
        limit, words = limits[name]
        panel.axhline(limit, color="#D55E00", lw=1.2, ls="--", label=words)
        panel.set_ylim(0, max(limit, *depths) * 1.2)
        panel.set_ylabel(name)
        panel.legend(loc="lower right", fontsize=8)
    panels[0].set_title(f"Messages in the queues, looked at each second ({run.kind})", loc="left", fontsize=10)
    for count, colour, words in ((_accepted, "#0072B2", "accepted from producers"), (_out, "#00785A", "last sink")):
        panels[-1].plot(*zip(*run.smooth(count), strict=True), color=colour, lw=0.9, label=words)
    panels[-1].axhline(RATE, color="#D55E00", lw=1.2, ls="--", label=f"{RATE:.0f}/s")
    panels[-1].set_ylim(0, 2 * RATE)
    panels[-1].set_ylabel(f"messages/s\n(over {SMOOTH} s)")
    panels[-1].set_xlabel("seconds since the producers began")
    panels[-1].legend(loc="lower right", fontsize=8, ncols=3)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def report(run: Run, folder: Path) -> None:
    """Print what was seen; write the samples and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {**asdict(run), "capacity": CAPACITY, "rate": RATE}
    (folder / f"{run.kind}.json").write_text(json.dumps(told) + "\n")
    print("\n".join(run.told()), flush=True)
    draw(run, folder / f"{run.kind}.svg")
    print(f"  samples and picture: {folder / run.kind}.json, .svg", flush=True)


def run_all(seconds: float, kinds: list[str], folder: Path) -> int:
    """Run the kinds that are wanted; return the exit code."""
    faults = []
    for kind in kinds:
        run = measured(kind, seconds)
        report(run, folder)
        faults += run.faults()
    return 1 if faults else 0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark.brake", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float, help="of each run, before the queues are emptied; at least 30")
    parser.add_argument("--only", choices=(PLAIN, BOUNDED), help="one of the two runs")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where samples and pictures are (%(default)s)")
    given = parser.parse_args()
    if given.seconds < 30:
        parser.error(f"{given.seconds:g} seconds are not enough for a chain to fill; at least 30")
    return run_all(given.seconds, [given.only] if given.only else [PLAIN, BOUNDED], given.output)


if __name__ == "__main__":
    sys.exit(main())
