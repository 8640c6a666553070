"""The jobs as programs: `python -m pyspark_penstock.analysis analyze LOG...`, which `penstock flow analyze` starts.

`spark-submit` accepts this file as well.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.logs.flowlog import seconds_of
from pyspark_penstock.analysis.compact import compact
from pyspark_penstock.analysis.job import Analysis, analyze, summary
from pyspark_penstock.analysis.logs import LogError, Window, find
from pyspark_penstock.analysis.page import page
from pyspark_penstock.analysis.plain import is_small
from pyspark_penstock.analysis.progress import Progress
from pyspark_penstock.interpreter import choose_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "1g"
PAGE = "index.html"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
UNFINISHED = {
    "analyze": "no page was written, and what was staged is removed",
    "compact": "what was written is removed",
}
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.log.level": "ERROR",
}
LOCAL_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "16",
}
"""Settings for a driver that is the whole cluster."""


def main(arguments: list[str] | None = None) -> int:
    """Run a job; return the exit code."""
    wanted, interrupt = _parser().parse_args(arguments), Interrupt()
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own pools cost a second for a million lines.
    try:
        return _run(wanted, interrupt)
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
    except (Exception, KeyboardInterrupt) as error:
        if interrupt.came or isinstance(error, KeyboardInterrupt):
            print(f"penstock: {wanted.job} was interrupted: {UNFINISHED[wanted.job]}", file=sys.stderr)
            return INTERRUPTED
        sentence = sentence_of(error)
        if sentence is None:
            raise
        print(f"penstock: {sentence}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pyspark_penstock.analysis", description=(__doc__ or "").partition("\n")[0])
    jobs = parser.add_subparsers(dest="job", required=True)
    job = jobs.add_parser("analyze")
    job.add_argument("--master", help="use this Spark; else a small log is analyzed without Spark, others on local[*]")
    job.add_argument("--no-java", help="sentence that says why there is no Java")
    job.add_argument("--memory", default=DRIVER_MEMORY, help="heap of the driver")
    job.add_argument("logs", nargs="+", type=Path)
    job.add_argument("--output", type=Path, required=True)
    job.add_argument("--from", dest="begin")
    job.add_argument("--to", dest="end")
    job.add_argument("--queue")
    job = jobs.add_parser("compact")
    job.add_argument("logs", nargs="+", type=Path)
    job.add_argument("--to", dest="target", type=Path, required=True)
    job.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="files that are read at once")
    return parser


def _run(wanted: argparse.Namespace, interrupt: Interrupt) -> int:
    if wanted.job == "compact":
        return _compact(wanted, interrupt)
    window = _window(wanted.begin, wanted.end)
    small = is_small(find(wanted.logs))  # Errors in the logs are reported before Spark starts, which takes seconds.
    if wanted.master is None and small:
        interrupt.heed(lambda: None)
        with Progress() as progress:
            return _tell(analyze(None, wanted.logs, wanted.output, window, wanted.queue, progress), wanted.output)
    if wanted.no_java is not None:
        raise LogError(wanted.no_java)
    spark = _session(wanted.master or "local[*]", wanted.memory)
    interrupt.heed(spark.sparkContext.cancelAllJobs)
    try:
        with Progress(spark.sparkContext) as progress:
            found = analyze(spark, wanted.logs, wanted.output, window, wanted.queue, progress)
        return _tell(found, wanted.output)
    finally:
        spark.stop()


def _session(master: str, memory: str) -> SparkSession:
    choose_python()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("penstock analyze").config("spark.driver.memory", memory)
    for key, value in (CONF | (LOCAL_CONF if master.startswith("local") else {})).items():
        builder = builder.config(key, value)
    return builder.master(master).getOrCreate()


def _tell(found: Analysis, output: Path) -> int:
    """Write the page, and print the results; return the exit code."""
    (output / PAGE).write_text(page(found), encoding="utf-8")
    print("\n".join(summary(found)))
    print(f"page: {output / PAGE}; tables: {output / 'tables'}")
    return 0


def _compact(wanted: argparse.Namespace, interrupt: Interrupt) -> int:
    interrupt.heed(lambda: None)
    with Progress() as progress:
        records, days = compact(wanted.logs, wanted.target, wanted.cores, progress)
    print(f"{records:,} records of {days:,} day{'' if days == 1 else 's'} in {wanted.target}")
    return 0


class Interrupt:
    """Handler of Ctrl-C and SIGTERM. The first signal ends the job; later signals must not disturb the cleanup."""

    def __init__(self) -> None:
        self.came = False
        """True after a signal: Py4J may raise its own error for an interrupted command."""

    def heed(self, cancel: Callable[[], None]) -> None:
        """Let a signal end the job, which `cancel` stops first."""

        def end(number: int, frame: FrameType | None) -> None:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_IGN)
            logging.disable()  # Py4J logs the traceback of an interrupted command.
            self.came = True
            cancel()
            raise KeyboardInterrupt

        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, end)


def _window(begin: str | None, end: str | None) -> Window:
    try:
        return Window(None if begin is None else seconds_of(begin), None if end is None else seconds_of(end))
    except ValueError as error:
        raise LogError(str(error)) from None


def sentence_of(error: Exception) -> str | None:
    """Return the sentence for an error of Spark with a plain cause; None for others."""
    text = str(error)
    if "No space left on device" in text:
        return "the disk is full: analyze fewer days at a time, or set --output and SPARK_LOCAL_DIRS to another disk"
    if "OutOfMemoryError" in text:
        return (
            "the heap of Spark's driver is too small for these logs: give --memory 2g, or analyze fewer days at a time"
        )
    return None


if __name__ == "__main__":
    sys.exit(main())
