"""What a query costs while nothing arrives, beyond what its session costs at rest."""

import itertools
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark.cpu import Cpu, so_far
from bench.spark.node import Node
from bench.spark.session import jvm_of
from penstock.content.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 20.0
_numbers = itertools.count(1)


class Idle:
    """An empty queue, and queries that wait for it."""

    def __init__(self, spark: "SparkSession", node: Node, scratch: Path) -> None:
        self.spark, self.node, self.scratch = spark, node, scratch
        node.fill("idle", 0, lambda number: (Properties(), b""))

    def measured(self, options: dict[str, str]) -> tuple[Cpu, float]:
        """Return the percentages of a core that an idle query adds, and the seconds of its stop()."""
        rest = self._cost()
        number = next(_numbers)
        given = {"servers": self.node.address, "subscribe": "idle", "cursor": f"idle-{number}", **options}
        frame = self.spark.readStream.format("penstock").options(**given).load()
        checkpoint = str(self.scratch / f"idle-{number}")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        time.sleep(5)
        cost = self._cost() - rest
        began = time.monotonic()
        query.stop()
        took = time.monotonic() - began
        with self.node.connected() as control:
            control.delete_cursor(f"idle-{number}")
        percent = 100 / SECONDS
        return Cpu(cost.jvm * percent, cost.python * percent, cost.broker * percent), took

    def _cost(self) -> Cpu:
        before = so_far(jvm_of(self.spark), self.node.pid)
        time.sleep(SECONDS)
        return so_far(jvm_of(self.spark), self.node.pid) - before

    def report(self, ways: dict[str, dict[str, str]], rounds: int) -> None:
        """Measure in turns and print medians."""
        found: dict[str, list[tuple[Cpu, float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, options in ways.items():
                found[name].append(self.measured(options))
        print("\nidle query beyond the idle session: percent of a core, and seconds of stop()")
        for name, each in found.items():
            shares, stops = zip(*each, strict=True)
            jvm, python, broker = (
                statistics.median(getattr(share, part) for share in shares) for part in ("jvm", "python", "broker")
            )
            whole = statistics.median(share.whole for share in shares)
            rounds_text = " ".join(f"{share.whole:.2f}" for share in shares)
            print(
                f"{name:<40} JVM {jvm:.2f} + Python {python:.2f} + broker {broker:.2f} = {whole:.2f} %"
                f"  stop {max(stops):.2f} s  ({rounds_text})",
                flush=True,
            )
