"""Flow logs of any size, and what `penstock flow analyze` makes of them.

`python -m bench.flowlog write DIR --records 100000000` runs a broker with clients for a minute, and repeats its flow
log with other times, queues and clients. `python -m bench.flowlog measure DIR` runs `penstock flow analyze` on it,
compares the tables with the counts of the recording, and tells the cost. 100 million records take 14 GiB, half of them
compressed; the analysis needs 2 GiB more. DIR is removed by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.brokers import COMPILED, INTERPRETED, ROOT, BrokerUnavailable
from bench.flowlog import copies, cost
from bench.flowlog.live import LiveError, record

MILLION = 1_000_000


def main() -> int:
    """Do what the command line asks for."""
    given = _parser().parse_args()
    try:
        work: Callable[[argparse.Namespace], int] = given.work
        return work(given)
    except (copies.RecordingError, LiveError, BrokerUnavailable) as error:
        print(f"bench.flowlog: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench.flowlog", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    jobs = parser.add_subparsers(required=True)
    job = jobs.add_parser("write", help="write a log")
    job.set_defaults(work=_write)
    job.add_argument("folder", type=Path, metavar="DIR")
    job.add_argument("--records", type=int, default=MILLION)
    job.add_argument("--brokers", type=int, default=2, help="whose logs these are, each in a directory of its own")
    job.add_argument("--copies", type=int, default=3, help="of the recorded queues in each log")
    job.add_argument("--recording", type=Path, metavar="LOG", help="repeat this flow log, and run no broker")
    job.add_argument("--seconds", type=float, default=60.0, help="length of the recording")
    job.add_argument("--form", choices=(COMPILED, INTERPRETED), default=COMPILED)
    job = jobs.add_parser("measure", help="analyze such a log, compare the result, and tell the cost")
    job.set_defaults(work=_measure)
    job.add_argument("folder", type=Path, metavar="DIR")
    job.add_argument("--master", default="local[2]")
    job.add_argument("--memory", default="1g")
    job.add_argument("--compacted", action="store_true", help="compact it first, and analyze that")
    return parser


def _write(given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        log = given.recording or record(given.form, Path(scratch), given.seconds, print)
        period = copies.period_of(log)
    given.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    found = copies.write(given.folder, period, given.records, given.brokers, given.copies)
    seconds = time.monotonic() - began
    print(
        f"{found['records']:,} records, {found['octets'] / 2**20:,.0f} MiB of lines in {seconds:,.0f} s: "
        f"{found['records'] / seconds:,.0f} records/s"
    )
    print(", ".join(f"{count / found['records']:.1%} {event}" for event, count in sorted(found["events"].items())))
    return 0


def _measure(given: argparse.Namespace) -> int:
    wanted: dict[str, Any] = json.loads((given.folder / copies.EXPECTED).read_text())
    logs, output = wanted["logs"], given.folder / "analysis"
    if given.compacted:
        target = given.folder / "archive"
        _run(["log", "compact", *logs, "--to", str(target)], given.folder / "compact.txt")
        print(f"archive: {sum(file.stat().st_size for file in target.rglob('*.parquet')) / 2**20:,.0f} MiB")
        logs = [str(target)]
    spark = ["--master", given.master, "--memory", given.memory]
    printed = _run(["analyze", *logs, "--output", str(output), *spark], given.folder / "analyze.txt")
    told = re.search(r"^([0-9,]+) records from ", printed, re.MULTILINE)
    found = copies.differences(wanted, output / "tables", int(told[1].replace(",", "")) if told else 0)
    print("\n".join(found[:20]) if found else "every count is that of the recording")
    return 1 if found else 0


def _run(words: list[str], printed: Path) -> str:
    """Run a command of `penstock`; return what it prints. Raises LiveError if it fails."""
    home = subprocess.run([ROOT / "scripts" / "jdk.sh"], capture_output=True, text=True, check=True).stdout.strip()
    environment = os.environ | {"JAVA_HOME": home, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "penstock", *words]
    print(f"penstock {words[0]}: ", end="", flush=True)
    done = cost.run(command, environment, printed)
    text = printed.read_text()
    if done.code:
        raise LiveError(f"`penstock {words[0]}` ended with {done.code}: {(text.splitlines() or ['no output'])[-1]}")
    print(done.words())
    return text


if __name__ == "__main__":
    sys.exit(main())
