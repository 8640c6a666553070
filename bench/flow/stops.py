"""Stops over AMQP 1.0: senders whose credit is used up again and again, while somebody consumes.

A stop is a link whose credit has come to its end. Every one must be followed by a resume: the generator gives up (a
hang) when nothing arrives for a while. The rate stands beside that of the same load to a queue without a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench import loadgen
from bench.brokers import Broker

WINDOW = 50
LEAST_STOPS = 1000
RUNS_MAX = 12
STALL_S = "10"
IN_FLIGHT = "700"
"""Messages that were sent and have not been received, at most, with and without the bound: fewer than its places."""
LEAST_RATIO = 0.97


@dataclass(frozen=True)
class Stops:
    """What was found in one cell; the rates are the best of its runs, in messages a second."""

    broker: str
    condition: str
    stops: int
    hangs: int
    rate: float
    unlimited: float
    failed: int
    """Messages that were rejected or released."""

    def ratio(self) -> float:
        """Return the rate as a part of the unlimited one."""
        return self.rate / max(1.0, self.unlimited)

    def met(self) -> bool:
        """Tell whether nothing hung or failed, and the bound costs little of the rate."""
        return self.hangs == 0 and self.failed == 0 and self.ratio() >= LEAST_RATIO

    def words(self) -> str:
        """Return it as one line."""
        line = (
            f"{self.broker}: {self.condition}: {self.stops:,} stops, {self.hangs} hangs, {self.failed:,} rejected or "
            f"released, {self.rate:,.0f}/s of {self.unlimited:,.0f}/s ({self.ratio():.0%})"
        )
        return line if self.met() else f"{line}   <- misses the goal"


def stops(
    broker: Broker, name: str, links: int, take_rate: int, bound: tuple[str, ...], title: str, seconds: float
) -> Stops:
    """Let links stop and resume at least 1,000 times, at a bounded queue (`bound`) and an unbounded one in turns."""
    load = ("--sizes", "1024", "--links", str(links), "--confirms", str(WINDOW), "--take-rate", str(take_rate),
            "--prefetch", "1000", "--ack", "50", "--in-flight", IN_FLIGHT, "--warm-up", "0.3",
            "--seconds", str(seconds), "--stall", STALL_S)  # fmt: skip
    best = {False: 0.0, True: 0.0}
    count = hangs = failed = runs = 0
    while runs < 2 or (count < LEAST_STOPS and runs < RUNS_MAX):
        runs += 1
        for bounded in (False, True):
            try:
                found = loadgen.run(broker.port, *broker.options, *load, *(bound if bounded else ()),
                                    protocol=loadgen.AMQP1)  # fmt: skip
            except loadgen.LoadError as failure:
                if "nothing arrived" not in str(failure):
                    raise
                hangs += 1
                continue
            best[bounded] = max(best[bounded], found["rate"])
            if bounded:
                count += found["stops"]
                failed += found["rejected"] + found["released"] + found["modified"]
    pace = f"consumer of {take_rate:,}/s" if take_rate else "fast consumer"
    condition = f"{links} x {WINDOW}, {title}, {pace}, {runs} runs"
    return Stops(name, condition, count, hangs, best[True], best[False], failed)
