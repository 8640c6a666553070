"""Kill Spark's drivers, workers and executors and the broker at random, and count what was delivered.

Each round is a query that reads a queue to its end: into Parquet files, into a queue with delivery=dedup or
transactional, or through an aggregation. Every result must be there once. Finished rounds are in results.jsonl, and a
run that is started again goes on after them. Exit code 1 when a round was not exact; its folder stays.
"""

import argparse
import json
import secrets
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from bench.crash_spark.rounds import Result, RoundFailed, plan_of, remove, run

OUTPUT = Path(__file__).resolve().parents[1] / "output" / "crash_spark"


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.crash_spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200, help="how many in all (default %(default)s)")
    parser.add_argument("--messages", type=int, default=3_000, help="of a round (default %(default)s)")
    parser.add_argument("--seed", type=int, help="what chance begins with (default: that of the run before, or any)")
    parser.add_argument("--no-cluster", action="store_true", help="kill no executors: they need a local cluster")
    parser.add_argument("--again", type=int, metavar="N", help="run round N only, and keep its folder")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where results are (default %(default)s)")
    wanted = parser.parse_args()
    if wanted.messages < 1_000 or wanted.messages % 100:
        parser.error(f"--messages {wanted.messages}: hundreds, and at least 1000")
    return wanted


def finished(results: Path) -> list[dict[str, object]]:
    """Return the rounds of earlier runs."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def seed_of(wanted: argparse.Namespace) -> int:
    """Return the seed: the one that was given, that of an earlier run, or a new one."""
    path = wanted.output / "seed"
    if wanted.seed is None and path.exists():
        return int(path.read_text())
    seed = secrets.randbelow(1_000_000) if wanted.seed is None else wanted.seed
    path.write_text(str(seed))
    return int(seed)


def one(number: int, seed: int, wanted: argparse.Namespace, keep: bool) -> Result:
    """Run a round; a folder is left of one that was not exact."""
    folder = wanted.output / f"round-{number}"
    remove(folder)
    plan = plan_of(number, seed, wanted.messages, not wanted.no_cluster)
    try:
        result = run(plan, folder)
    except RoundFailed as error:
        result = Result(number, asdict(plan), f"failed: {error}", False, 0, 0.0)
    if result.exact and not keep:
        remove(folder)
    killed = ", ".join(result.killed) or "nothing"
    say(
        f"round {number}: {plan.kind} to {plan.sink}, {plan.master}: {result.verdict}; killed {killed}; "
        f"{result.starts} starts, {result.seconds:.0f} s"
    )
    return result


def main() -> int:
    """Run the rounds that are left, and sum up all of them."""
    wanted = arguments()
    wanted.output.mkdir(parents=True, exist_ok=True)
    seed = seed_of(wanted)
    if wanted.again is not None:
        return 0 if one(wanted.again, seed, wanted, True).exact else 1
    results = wanted.output / "results.jsonl"
    before = finished(results)
    say(f"seed {seed}, {len(before)} of {wanted.rounds} rounds are done")
    for number in range(len(before) + 1, wanted.rounds + 1):
        result = one(number, seed, wanted, False)
        with results.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
    every = finished(results)
    wrong = [each for each in every if not each["exact"]]
    killed = Counter(str(kill).split()[0].strip(",") for each in every for kill in each["killed"])  # type: ignore[attr-defined]
    say(f"{len(every)} rounds, {len(wrong)} not exact; killed: " + ", ".join(f"{n} {who}" for who, n in killed.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
