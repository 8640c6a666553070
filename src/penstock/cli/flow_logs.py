"""Commands for flow logs that replace this process by a job of another package: `analyze` and `log compact`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import click

from penstock.cli.parameters import command, option
from penstock.errors import PenstockError

JOBS = "pyspark_penstock.analysis"
"""Program of the jobs. The broker side knows only its name: it imports nothing of Spark."""
EXTRA = ("pyspark", "pyarrow")
OUTPUT = "penstock-analysis"
FOLDER = click.Path(path_type=Path, file_okay=False)
BEGIN = "Begin at TIME: ISO 8601 (UTC without a zone), or seconds."
MASTER = "Run on this Spark, such as local[2]; else on local[*], and a small log without."
Logs = Annotated[tuple[Path, ...], option(metavar="LOG...")]


class NoSparkError(PenstockError):
    """PySpark is not installed."""


@command()
def analyze(
    logs: Logs,
    output: Annotated[Path, option("Write the page and the tables into DIR.", "DIR", kind=FOLDER, default=OUTPUT)],
    begin: Annotated[str | None, option(BEGIN, "TIME", "--from")],
    end: Annotated[str | None, option("End before TIME.", "TIME", "--to")],
    queue: Annotated[str | None, option("Only this queue and its gate.", "NAME")],
    master: Annotated[str | None, option(MASTER, "URL")],
    memory: Annotated[str, option("Heap of the Spark driver.", "SIZE", default="1g")],
) -> None:
    """Analyze flow logs: blocked producers, their gates and the reasons. A log of more than 4 MiB needs Spark and Java.

    LOG is the directory of a flow log, a data directory, a file, or the output of `penstock logs compact`. The page
    is DIR/index.html, and the tables are Parquet in DIR/tables.

    For example: penstock flow analyze data/flow-log --queue a
    """
    options = [("--from", begin), ("--to", end), ("--queue", queue), ("--master", master)]
    given = [word for name, value in options if value is not None for word in (name, value)]
    _check_extra()
    environment = dict(os.environ)
    try:
        environment["JAVA_HOME"] = java_home()
    except NoJavaError as error:  # The job reports this if it needs Spark.
        given += ["--no-java", str(error)]
    _become(environment, "analyze", *map(str, logs), "--output", str(output), "--memory", memory, *given)


@command()
def compact(
    logs: Logs,
    target: Annotated[Path, option("Write into DIR, which is new or empty.", "DIR", "--to", default=...)],
) -> None:
    """Copy the records of flow logs into DIR as Parquet, a directory for each day (UTC).

    The logs are not changed. `penstock flow analyze DIR` reads the copy.

    For example: penstock logs compact a b --to archive
    """
    _check_extra()
    _become(os.environ, "compact", *map(str, logs), "--to", str(target))


def _check_extra() -> None:
    """Raise NoSparkError if the extra is not installed."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise NoSparkError(f"{missing[0]} is not installed: `pip install 'penstock[spark]'` installs what this needs")


def _become(environment: Mapping[str, str], *words: str) -> None:
    """Replace this process by a job, which has its own signals and exit code."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", JOBS, *words], environment)


# Java for Spark


OLDEST = 17
"""Oldest major version that Spark 4 runs on."""
HOMES = Path("/usr/lib/jvm")
"""Place of Debian's JDKs."""
ASKED_S = 20.0
"""Seconds that a Java may take to print its version."""


class NoJavaError(PenstockError):
    """No Java that is new enough."""


def java_home() -> str:
    """Return the first home that is new enough: JAVA_HOME, java on the path, then Debian's. Raises NoJavaError."""
    for home in _homes():
        if _major(home) >= OLDEST:
            return str(home)
    raise NoJavaError(
        f"Spark needs a JDK {OLDEST} or later, and there is none: install one "
        "(on Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    if HOMES.is_dir():
        yield from sorted(HOMES.iterdir())


def _major(home: Path) -> int:
    """Return the major version of the Java in a home; 0 if there is none."""
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=False, timeout=ASKED_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else 0
