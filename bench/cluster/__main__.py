"""Figures of a node with shards, beside a broker without them in the same run: `python -m bench.cluster`.

Costs are the processor time of all processes. Each figure has its goal; exit code 1 if one is not met.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import penstock
from bench import loadgen, report
from bench.brokers import COMPILED, INTERPRETED, BrokerUnavailable
from bench.cluster import costs, deaths
from bench.cluster.figures import Figure, table
from bench.run import NORMAL, QUICK, Effort

PARTS: dict[str, Callable[[str, Path, Effort], Iterator[Figure]]] = {
    "messages": costs.messages,
    "logins": costs.logins,
    "tenants": costs.tenants,
    "tls": costs.by_tls,
    "kills": deaths.kills,
    "crowd": deaths.crowd,
}
OUTPUT = Path(__file__).resolve().parents[1] / "output"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    ours = COMPILED if penstock.compiled() else INTERPRETED
    parser.add_argument("--form", choices=(COMPILED, INTERPRETED), default=ours)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="one repetition, windows of a second")
    parser.add_argument("--clients", type=int, default=deaths.CROWD, help="clients that come back")
    parser.add_argument("--crowd", type=int, metavar="PORT", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.clients < 1:
        parser.error(f"--clients {wanted.clients}: at least 1 is wanted")
    return wanted


def measure(wanted: argparse.Namespace) -> list[Figure]:
    """Measure the parts that are wanted, with a line for each figure."""
    effort = QUICK if wanted.quick else NORMAL
    found: list[Figure] = []
    OUTPUT.mkdir(exist_ok=True)
    for name in wanted.only:
        with tempfile.TemporaryDirectory(prefix="cluster-", dir=OUTPUT) as folder:
            try:
                figures = PARTS[name](wanted.form, Path(folder), effort)
                if name == "crowd":
                    figures = deaths.crowd(wanted.form, Path(folder), effort, wanted.clients)
                for figure in figures:
                    print(table([figure]), flush=True)
                    found.append(figure)
            except (loadgen.LoadError, BrokerUnavailable, RuntimeError, AssertionError, OSError) as reason:
                print(f"Without {name}: {reason}", flush=True)
                found.append(Figure(name, "not measured", "to be measured", False))
    return found


def main() -> int:
    """Measure and print; 1 if a goal is not met."""
    wanted = arguments()
    if wanted.crowd is not None:
        return deaths.be_crowd(wanted.crowd, wanted.clients)
    about = report.conditions(OUTPUT.parent)
    found = measure(wanted)
    print(f"\n{table(found)}")
    machine = f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, {about['system']}"
    print(f"Conditions: {machine}, CPython {about['python']}, {wanted.form}; "
          f"load {about['load_before']} before, {os.getloadavg()} after.")  # fmt: skip
    return 1 if any(figure.is_met is False for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
