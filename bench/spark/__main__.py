"""`make bench-spark`: processor seconds for a million rows, of the JVM, of Python and of the broker.

Each way runs with few and with many rows, in turns with the others, and the difference counts: neither the start of a
query nor what a session costs at rest. The medians of the rounds are printed.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from bench.spark import brake, small
from bench.spark.cpu import Cpu, so_far
from bench.spark.idle import Idle
from bench.spark.node import running
from bench.spark.reading import BATCH, Case, Reading
from bench.spark.session import jvm_of, session
from bench.spark.writing import Writing

WAYS: dict[str, dict[str, str]] = {"Penstock": {}, "Penstock, three columns": {"columns": "value,sequence,timestamp"}}
ROWS = {100: 1_000_000, 1024: 600_000}
"""Rows of a long run by the octets of a body."""
TRIES = 5


def options_of(words: list[str]) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--octets", type=int, nargs="*", default=[100, 1024], help="octets of the bodies")
    parser.add_argument("--ids", action="store_true", help="messages that are read have a message_id, too")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each way")
    parser.add_argument("--rows", type=int, help="rows of a long run, a multiple of the batch")
    parser.add_argument("--only", nargs="*", default=[], help="ways whose name has one of these texts")
    parser.add_argument("--writing", action="store_true", help="what the sink costs, in place of the source")
    parser.add_argument("--small", action="store_true", help="what a batch of 1,000 rows costs, in place of the source")
    parser.add_argument("--idle", action="store_true", help="what an idle query costs, too")
    parser.add_argument("--brake", type=float, metavar="SECONDS", help="only the brake (bench.spark.brake), so long")
    parser.add_argument("--with", dest="more", nargs="*", default=[], help="further ways: option=value;option=value")
    return parser.parse_args(words)


def ways_of(more: list[str], ways: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return these ways and those of the command line, each with options of the source."""
    return ways | {text: dict(pair.split("=") for pair in text.split(";")) for text in more}


def measured(case: Case, jvm: int, broker: int) -> Cpu:
    """Return what a million rows cost in one way, measured once."""
    few, many = (cost_of(case, rows, jvm, broker) for rows in (case.short, case.long))
    return (many - few).per_million(case.long - case.short)


def cost_of(case: Case, rows: int, jvm: int, broker: int) -> Cpu:
    """Return what one run costs.

    Spark waits for ten seconds for the process of a source. On a very busy machine that is not always enough, and the
    run is repeated.
    """
    from pyspark.errors import StreamingQueryException

    for left in reversed(range(TRIES)):
        case.before(rows)
        before = so_far(jvm, case.broker or broker)
        try:
            case.run(rows)
            return so_far(jvm, case.broker or broker) - before
        except StreamingQueryException as error:
            if not left or "failed to connect back" not in str(error):
                raise
    raise AssertionError("unreachable: the last try raises or returns")


def median(found: list[Cpu]) -> Cpu:
    """Return the medians, each for itself."""
    return Cpu(*(statistics.median(getattr(each, name) for each in found) for name in ("jvm", "python", "broker")))


def main() -> None:
    """Measure and print."""
    options = options_of(sys.argv[1:])
    if options.brake:
        sys.exit(brake.run_all(options.brake, [brake.PLAIN, brake.BOUNDED], brake.OUTPUT))
    ways = ways_of(options.more, WAYS)
    with (
        tempfile.TemporaryDirectory() as folder,
        running() as node,
        running(Path(folder) / "data") as durable,
        session() as spark,
    ):
        jvm = jvm_of(spark)
        if options.idle:
            Idle(spark, node, Path(folder)).report(ways_of(options.more, {"Penstock": {}}), options.rounds)
        for octets in options.octets:
            rows = options.rows or ROWS.get(octets, 3 * BATCH)
            if options.small:
                cases = small.cases(Reading(spark, node, Path(folder), octets, rows), options.rows)
            elif options.writing:
                cases = Writing(spark, {False: node, True: durable}, Path(folder), octets, rows).cases()
            else:
                cases = Reading(spark, node, Path(folder), octets, rows, options.ids).cases(ways)
            cases = [case for case in cases if not options.only or any(text in case.name for text in options.only)]
            found: dict[str, list[Cpu]] = {case.name: [] for case in cases}
            for case in cases:  # The JVM compiles what it runs often.
                cost_of(case, case.short, jvm, node.pid)
            for number in range(options.rounds):
                for case in cases:
                    found[case.name].append(measured(case, jvm, node.pid))
                print(f"{octets} octets: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            report(
                octets, found, "milliseconds per batch of 1,000 rows" if options.small else "seconds per million rows"
            )


def report(octets: int, found: dict[str, list[Cpu]], unit: str) -> None:
    """Print the medians of the rounds, and the load of the machine."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"\nload averages {load}\nbodies of {octets} octets, {unit}: JVM + Python + broker = all (rounds)", flush=True
    )
    for name, rounds in found.items():
        cost = median(rounds)
        each = " ".join(f"{one.whole:.2f}" for one in rounds)
        print(
            f"{name:<40} {cost.jvm:5.2f} + {cost.python:5.2f} + {cost.broker:5.2f} = {cost.whole:5.2f}  ({each})",
            flush=True,
        )


main()
