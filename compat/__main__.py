"""Run the suites against Penstock, and against RabbitMQ where it is installed; one table at the end.

The exit code is 1 when a test fails on ours that passes on RabbitMQ and is not explained in compat/explained.py.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import penstock
from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, STARTERS
from compat import golang, javaclient, results, rust, suites
from compat.explained import EXPLAINED
from compat.nodes import ControlledBroker, free_ports, start
from compat.preparing import prepare
from compat.results import FAILED, PASSED, SKIPPED, Outcome
from compat.sources import fetch
from compat.substitutions import SourcesUnavailable
from compat.suites import SUITES, TOOLS, Suite

OUTPUT = Path(__file__).resolve().parent / "output"


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="compat", description=(__doc__ or "").partition("\n")[0])
    keys = [suite.key for suite in SUITES]
    mine = COMPILED if penstock.compiled() else INTERPRETED
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, metavar="SUITE", help=", ".join(keys))
    parser.add_argument("--brokers", nargs="+", choices=list(STARTERS), default=[mine, RABBITMQ], metavar="BROKER",
                        help=f"{', '.join(STARTERS)} (default: {mine} {RABBITMQ})")  # fmt: skip
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="the folder for logs and results (default %(default)s)"
    )
    return parser.parse_args()


def run(suite: Suite, broker: ControlledBroker, sources: dict[str, Path], scratch: Path, output: Path) -> list[Outcome]:
    """Run one suite against one broker, with a line before it and the failures after it."""
    begun = time.monotonic()
    found = results.read(suite.key, broker.name, suites.run(suite, broker, sources, scratch, output))
    counts = ", ".join(f"{sum(one.outcome == word for one in found)} {word}" for word in (PASSED, FAILED, SKIPPED))
    say(f"{suite.title}, {broker.name}: {counts} ({time.monotonic() - begun:.0f} s)")
    for one in found:
        if one.outcome == FAILED:
            say(f"  failed: {one.test}: {one.why}")
    for reason in sorted({one.why for one in found if one.outcome == SKIPPED}):
        say(f"  skipped: {reason}")
    if not found:
        found = [
            Outcome(
                suite.key, broker.name, "the whole suite", FAILED, f"nothing ran; see {suite.key}-{broker.name}.log"
            )
        ]
        say(f"  failed: {found[0].why}")
    return found


def possible(wanted: list[Suite], scratch: Path) -> tuple[list[Suite], dict[str, Path]]:
    """Fetch the sources; suites whose sources cannot be had are left out, each with one sentence."""
    sources: dict[str, Path] = {}
    absent: set[str] = set()

    def had(projects: set[str], fetch: Callable[[], dict[str, Path]]) -> None:
        needed = projects & {suite.project for suite in wanted if suite.project}
        try:
            sources.update(fetch() if needed else {})
        except SourcesUnavailable as reason:
            say(f"Without the tests of {', '.join(sorted(needed))}: {reason}")
            absent.update(needed)

    fetchers: dict[str, Callable[[Path], Path]] = {
        **{name: partial(golang.fetch, module) for name, module in golang.MODULES.items()},
        **{name: partial(rust.fetch, name) for name in rust.CRATES},
        javaclient.PROJECT: javaclient.fetch,
    }
    python = {suite.project for suite in wanted if suite.project} - set(fetchers)
    had(python, lambda: fetch(scratch / "sources", scratch / TOOLS))
    for name, of_one in fetchers.items():
        had({name}, lambda name=name, of_one=of_one: {name: of_one(scratch / name)})  # type: ignore[misc]
    return [suite for suite in wanted if suite.project not in absent], sources


Found = dict[str, list[Outcome]]
"""Outcomes by broker."""


def run_together(chosen: list[Suite], names: list[str], sources: dict[str, Path], scratch: Path, output: Path) -> Found:
    """Run suites on one broker of each name. Exits where a broker ends meanwhile."""
    found: Found = {}
    with ExitStack() as stack:
        started = {name: start(name, scratch, stack, say) for name in (names if chosen else [])}
        brokers = {name: broker for name, broker in started.items() if broker is not None}
        for suite in chosen:
            if suite.why_not:
                say(f"{suite.title}: left out are {suite.why_not}")
            for name, broker in brokers.items():
                found.setdefault(name, []).extend(run(suite, broker, sources, scratch, output))
                if broker.process.poll() is not None:
                    sys.exit(f"{name} has ended with {broker.process.returncode}.")
    return found


def run_alone(chosen: list[Suite], names: list[str], sources: dict[str, Path], scratch: Path, output: Path) -> Found:
    """Run each suite on a broker of its own, one after the other, always at the same ports: some are compiled in."""
    found: Found = {}
    ports = free_ports()
    for suite in chosen:
        if suite.why_not:
            say(f"{suite.title}: left out are {suite.why_not}")
        for name in names:
            place = scratch / f"{suite.key}-{name}"
            place.mkdir()
            with ExitStack() as stack:
                broker = start(name, place, stack, say, ports)
                if broker is not None:
                    prepare(suite.key, broker.http_port)
                    found.setdefault(name, []).extend(run(suite, broker, sources, scratch, output))
    return found


def main() -> int:
    """Run what was asked for; return the exit code."""
    wanted = arguments()
    # The brokers run in sessions of their own: whoever ends this program must not leave them behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    output: Path = wanted.output
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-compat-") as folder:
        scratch = Path(folder)
        chosen, sources = possible([suite for suite in SUITES if suite.key in wanted.only], scratch)
        found: Found = {}
        for alone, run_them in ((False, run_together), (True, run_alone)):
            some = [suite for suite in chosen if suite.alone is alone]
            for name, outcomes in run_them(some, wanted.brokers, sources, scratch, output).items():
                found.setdefault(name, []).extend(outcomes)
    return conclude(chosen, found, output)


def conclude(chosen: list[Suite], found: dict[str, list[Outcome]], output: Path) -> int:
    """Print the table and write the results down; return the exit code."""
    with (output / "clients.jsonl").open("w") as file:
        file.writelines(f"{one.as_line()}\n" for outcomes in found.values() for one in outcomes)
    mine = next((outcomes for name, outcomes in found.items() if name != RABBITMQ), [])
    differences = results.differences(mine, found.get(RABBITMQ), EXPLAINED)
    titles = {suite.key: suite.title for suite in chosen}
    (output / "table.md").write_text(results.page(titles, found, differences))
    say(f"\n{results.table(titles, found, differences)}\n")
    for one in differences:
        say(one.words())
    stale = results.stale(mine, differences, EXPLAINED)
    for key in stale:
        say(f"{' '.join(key)} is explained in compat/explained.py, and yet does not differ.")
    unexplained = [one for one in differences if one.is_ours_to_mend]
    say(f"{len(unexplained)} of {len(differences)} differences are ours to mend. Written to {output}.")
    return 1 if unexplained or not mine else 0


if __name__ == "__main__":
    sys.exit(main())
