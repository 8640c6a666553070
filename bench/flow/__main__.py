"""Run the flow-control scorecard: ours, RabbitMQ beside it where it is installed, or any broker by its URL.

Every experiment runs against one broker at a time. Publishers and consumers are one Python program (bench/flow/wire.py)
that takes a few thousand messages a second, far below what it could; only `throughput` is driven by the C generator
(bench/loadgen.c). The table shows each experiment's worst cell; bench/output/flow.jsonl has a line for every cell.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import loadgen, peers10, processes
from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, STARTERS, Broker, start
from bench.flow import experiments as run
from bench.flow import links
from bench.flow.card import EXPERIMENTS, Cell, by_key, met, table
from bench.flow.experiments import KIB_64, MIB
from bench.flow.parties import Target

OUTPUT = Path(__file__).resolve().parents[1] / "output" / "flow.jsonl"
CAPACITIES = {"1 MiB": MIB, "64 KiB": KIB_64}
GREEDY = [1000, *[10] * 7]


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def cpu_of(pids: list[int]) -> float:
    """Return the CPU seconds of these processes, a user's and the kernel's."""
    ticks = 0
    for pid in pids:
        fields = (processes.PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Card:
    """One broker's run."""

    def __init__(self, name: str, target: Target, broker: Broker | None, quick: bool) -> None:
        self.name = name
        self.target = target
        self.broker = broker
        """None for one that is only known by its URL: what needs its CPU time is left out."""
        self.quick = quick
        self.seconds = 2.0 if quick else 5.0

    def cells(self, wanted: set[str]) -> Iterator[Cell]:
        """Run the experiments, one after the other."""
        parts = (self._overshoot, self._standstill, self._shares, self._resume, self._isolation, self._throughput)
        for make in (*parts, self._crowd):
            yield from make(wanted)

    def _cell(self, key: str, condition: str, found: dict[str, Any]) -> Cell:
        experiment = by_key(key)
        verdict = "" if experiment.met(found) else "   <- misses the goal"
        say(f"{self.name}: {experiment.title}, {condition}: {experiment.words(found)}{verdict}")
        return Cell(key, self.name, condition, found)

    def _overshoot(self, wanted: set[str]) -> Iterator[Cell]:
        if "overshoot" not in wanted:
            return
        for title, capacity in CAPACITIES.items():
            for count in (1, 8, 64):
                for window in (50, 1000):
                    found = asyncio.run(run.overshoot(self.target, count, window, capacity))
                    found["rss_mib"] = self._rss_mib()
                    yield self._cell("overshoot", f"{count} x {window}, {title}", found)

    def _standstill(self, wanted: set[str]) -> Iterator[Cell]:
        if "standstill" in wanted:
            found = asyncio.run(run.standstill(self.target, 2, 3))
            yield self._cell("standstill", "hold deadline 2 s, until 3 refusals", found)

    def _shares(self, wanted: set[str]) -> Iterator[Cell]:
        orders: list[int] = []
        if wanted & {"starvation", "equal", "order"}:
            for title, capacity in CAPACITIES.items():
                for count in (1, 8) if self.quick else (1, 8, 64):
                    for window in (50, 1000):
                        found = asyncio.run(run.pace(self.target, [window] * count, capacity, self.seconds))
                        orders.append(found["out_of_order"])
                        condition = f"{count} x {window}, {title}"
                        if capacity == KIB_64 and "starvation" in wanted:
                            yield self._cell("starvation", condition, found)
                        if count == 8 and "equal" in wanted:
                            yield self._cell("equal", condition, found)
        if "greedy" in wanted:
            for title, capacity in CAPACITIES.items():
                found = asyncio.run(run.pace(self.target, GREEDY, capacity, self.seconds))
                orders.append(found["out_of_order"])
                yield self._cell("greedy", title, found)
        if "order" in wanted and orders:
            yield self._cell("order", f"{len(orders)} runs", {"out_of_order": sum(orders)})

    def _resume(self, wanted: set[str]) -> Iterator[Cell]:
        if "resume" in wanted:
            found = asyncio.run(run.resume(self.target, 20 if self.quick else 100))
            yield self._cell("resume", f"{found['cycles']} cycles, 64 KiB", found)

    def _isolation(self, wanted: set[str]) -> Iterator[Cell]:
        if "isolation" in wanted:
            yield self._cell("isolation", "64 KiB", asyncio.run(run.isolation(self.target, self.seconds)))

    def _throughput(self, wanted: set[str]) -> Iterator[Cell]:
        if "throughput" not in wanted or self.broker is None or not self.target.ours:
            return  # One that refuses at its bound drives the generator into retries: nothing to compare.
        bound = [f"--argument={name}={value}" for name, value in self.target.bounded(MIB).items()]
        for window in (50, 500):
            load = ("--sizes", "1024", "--confirms", str(window), "--in-flight", "800")
            best: dict[bool, tuple[float, float]] = {}
            for _ in range(1 if self.quick else 3):
                for limited in (False, True):
                    options = (*load, "--seconds", str(self.seconds / 2), *(bound if limited else ()))
                    result = loadgen.run(self.broker.port, *options, pids=self.broker.pids())
                    rate, cost = result["rate"], result["broker_cpu"] / max(1, result["messages"])
                    before = best.get(limited, (rate, cost))
                    best[limited] = max(before[0], rate), min(before[1], cost)
            found = {
                "rate_ratio": best[True][0] / best[False][0],
                "cpu_ratio": best[True][1] / best[False][1],
                "rate": best[True][0],
                "cpu_us": best[True][1] * 1e6,
            }
            yield self._cell("throughput", f"1 x {window}, 1 KiB", found)

    def _crowd(self, wanted: set[str]) -> Iterator[Cell]:
        if "crowd" not in wanted or self.broker is None or not self.target.ours:
            return
        pids = self.broker.pids()
        cost: Callable[[], float] = lambda: cpu_of(pids)  # noqa: E731
        few = asyncio.run(run.crowd(self.target, 100, 100, cost))
        many = asyncio.run(run.crowd(self.target, 10_000, 100, cost))
        found = {
            "ratio": many["cpu_us_per_message"] / few["cpu_us_per_message"],
            "cpu_us": many["cpu_us_per_message"],
            "few": few,
            "many": many,
        }
        yield self._cell("crowd", "100 resumes, 64 KiB", found)

    def _rss_mib(self) -> float | None:
        if self.broker is None:
            return None
        return processes.resident_mib(self.broker.pids())


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.flow", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = [experiment.key for experiment in EXPERIMENTS]
    parser.add_argument("--quick", action="store_true", help="shorter runs, fewer cells: about two minutes")
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, metavar="EXPERIMENT", help=", ".join(keys))
    parser.add_argument("--protocol", choices=[loadgen.AMQP091, loadgen.AMQP1], default=loadgen.AMQP091,
                        help="amqp1: what links send, against the places (default %(default)s)")  # fmt: skip
    parser.add_argument("--brokers", nargs="+", choices=sorted({*STARTERS, *peers10.NAMES}), metavar="BROKER",
                        help="%(choices)s; by default the compiled form and the peers")  # fmt: skip
    parser.add_argument("--url", help="a broker that runs already (amqp://...), instead of those that are started here")
    parser.add_argument("--penstock", action="store_true", help="the broker at --url is a Penstock")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="one JSON line a cell (default %(default)s)")
    wanted = parser.parse_args()
    if wanted.protocol == loadgen.AMQP091:
        wanted.brokers = wanted.brokers or [COMPILED, RABBITMQ]
    return wanted


def cards(wanted: argparse.Namespace, scratch: Path, stack: ExitStack) -> Iterator[Card]:
    """Start the brokers one by one, or take the one that runs."""
    if wanted.url:
        yield Card("at the URL", Target(wanted.url, wanted.penstock), None, wanted.quick)
        return
    for name in wanted.brokers:
        broker = start(name, scratch, stack, say)
        if broker is not None:
            url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
            yield Card(name, Target(url, name in (COMPILED, INTERPRETED)), broker, wanted.quick)


def main() -> int:
    """Run it; 1 if one of our goals is missed or nothing could be run."""
    wanted = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if wanted.protocol == loadgen.AMQP1:
        return links.main(wanted, say)
    found: list[Cell] = []
    names: list[str] = []
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-flow-"))
        lines = stack.enter_context(wanted.output.open("w"))
        for card in cards(wanted, Path(scratch), stack):
            names.append(card.name)
            for cell in card.cells(set(wanted.only)):
                found.append(cell)
                line = {"experiment": cell.experiment, "broker": cell.broker, "condition": cell.condition}
                lines.write(json.dumps(line | cell.found) + "\n")
                lines.flush()
    if not found:
        say("Nothing could be run.")
        return 1
    ours = names[0]
    say("")
    say(table(found, names, ours))
    say(f"\nA line for each of the {len(found)} cells: {wanted.output}")
    mine = [cell for cell in found if cell.broker == ours]
    return 0 if all(met([cell]) for cell in mine) else 1


if __name__ == "__main__":
    sys.exit(main())
