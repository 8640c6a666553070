"""The jobs as programs: `python -m pyspark_penstock.analysis analyze LOG...`, which `penstock analyze` starts.

`spark-submit` takes this file as well.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import unquote

from penstock.errors import PenstockError
from penstock.flowlog import seconds_of
from pyspark_penstock.analysis.compact import compact
from pyspark_penstock.analysis.job import analyze, summary
from pyspark_penstock.analysis.logs import LogError, Window, find
from pyspark_penstock.analysis.page import page
from pyspark_penstock.analysis.progress import Progress
from pyspark_penstock.interpreter import choose_python

DRIVER_MEMORY = "1g"
PAGE = "index.html"
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
    """Run a job; returns the exit code."""
    wanted = _parser().parse_args(arguments)
    try:
        return _run(wanted)
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        print(f"penstock: {sentence}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pyspark_penstock.analysis", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default=DRIVER_MEMORY, help="heap of the driver")
    jobs = parser.add_subparsers(dest="job", required=True)
    job = jobs.add_parser("analyze")
    job.add_argument("logs", nargs="+", type=Path)
    job.add_argument("--output", type=Path, required=True)
    job.add_argument("--from", dest="begin")
    job.add_argument("--to", dest="end")
    job.add_argument("--queue")
    job = jobs.add_parser("compact")
    job.add_argument("logs", nargs="+", type=Path)
    job.add_argument("--to", dest="target", type=Path, required=True)
    return parser


def _run(wanted: argparse.Namespace) -> int:
    window = _window(wanted.begin, wanted.end) if wanted.job == "analyze" else Window()
    find(wanted.logs)  # What is wrong with them is told before Spark starts, which takes seconds.
    choose_python()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"penstock {wanted.job}").config("spark.driver.memory", wanted.memory)
    for key, value in (CONF | (LOCAL_CONF if wanted.master.startswith("local") else {})).items():
        builder = builder.config(key, value)
    spark = builder.master(wanted.master).getOrCreate()
    try:
        if wanted.job == "compact":
            records, days = compact(spark, wanted.logs, wanted.target)
            print(f"{records:,} records of {days:,} day{'' if days == 1 else 's'} in {wanted.target}")
            return 0
        with Progress(spark.sparkContext) as progress:
            found = analyze(spark, wanted.logs, wanted.output, window, wanted.queue, progress.step)
        (wanted.output / PAGE).write_text(page(found), encoding="utf-8")
        print("\n".join(summary(found)))
        print(f"page: {wanted.output / PAGE}; tables: {wanted.output / 'tables'}")
        return 0
    finally:
        spark.stop()


def _window(begin: str | None, end: str | None) -> Window:
    try:
        return Window(None if begin is None else seconds_of(begin), None if end is None else seconds_of(end))
    except ValueError as error:
        raise LogError(str(error)) from None


def sentence_of(error: Exception) -> str | None:
    """Return the sentence for an error of Spark that has a plain cause; None for any other."""
    text = str(error)
    if re.search(r"EOFException|ZipException|not in GZIP format|invalid (stored block|distance|block type)", text):
        file = re.search(r"file:(?://)?(/[^\s\"']+?\.jsonl\.gz)", text)
        name = unquote(file[1]) if file else "a compressed file"
        return f"{name} is cut or damaged: keep the readable part with `zcat {name} > FILE.jsonl`, and remove the other"
    if "No space left on device" in text:
        return "the disk is full: analyze fewer days at a time, or set --output and SPARK_LOCAL_DIRS to another disk"
    return None


if __name__ == "__main__":
    sys.exit(main())
