"""Runs of many simulations on Spark's executors: a row of Arrow for each candidate, and one for each outcome."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cli.flow_logs import NoJavaError, java_home
from penstock_simulation.candidate import Candidate
from penstock_simulation.grid import Trial
from penstock_simulation.outcome import NAMES, Outcome
from penstock_simulation.runner import Report
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

Given = tuple[Workload, tuple[Candidate, ...]]
"""Workload and candidates, needed by every task."""
TOLD_EVERY_S = 0.5
"""Seconds between two checks of the progress of the job."""

_COUNTS = ("offered", "confirmed", "refused", "settled", "crossings", "depth", "depth_messages")
SCHEMA = "number INT, " + ", ".join(f"{name} {'BIGINT' if name in _COUNTS else 'DOUBLE'}" for name in NAMES)
"""Columns of the outcomes, with the number of the candidate."""


@contextmanager
def session() -> Iterator[SparkSession]:
    """Return the session of this program, or open one for the duration of the context.

    Without a master in Spark's configuration it runs on the cores of this machine. Raises ValueError without PySpark or
    Java.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise ValueError("PySpark is not installed: pip install 'penstock[spark]', or plan with --local") from None
    try:
        os.environ["JAVA_HOME"] = java_home()
    except NoJavaError as error:
        raise ValueError(f"{error}; or plan with --local") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    builder = SparkSession.builder.appName("penstock plan").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")  # The command shows the progress itself.
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError:
        raise ValueError("Spark did not start: it needs Java 17 or later (JAVA_HOME), or plan with --local") from None
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def run_trials(spark: SparkSession, workload: Workload, candidates: Sequence[Candidate], report: Report) -> list[Trial]:
    """Run a simulation of each candidate, a task for each; return the trials in the order of candidates.

    Workload and candidates are broadcast: they are sent once to each executor, and a Python worker decodes them once.
    The largest recording has about 28 MiB, which take 0.8 s to decode, and a plan may have hundreds of tasks.
    """
    numbers = spark.range(0, len(candidates), 1, len(candidates)).selectExpr("CAST(id AS INT) AS number")
    given = spark.sparkContext.broadcast((workload, tuple(candidates)))
    try:
        job = numbers.mapInArrow(outcomes_of(given), SCHEMA)
        with _Progress(spark, len(candidates), report):
            rows = job.collect()
    finally:
        given.destroy()
    found: dict[int, Outcome] = {row["number"]: Outcome(**{name: row[name] for name in NAMES}) for row in rows}
    return [Trial(candidate, found[number]) for number, candidate in enumerate(candidates)]


def outcomes_of(given: Broadcast[Given]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task, which simulates the candidates of its numbers."""

    def outcomes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        workload, candidates = given.value
        for batch in batches:
            for number in batch.column("number").to_pylist():
                found = {"number": number, **simulate(workload, candidates[number]).as_dict()}
                yield pa.RecordBatch.from_pylist([found], schema=_arrow_schema())

    return outcomes


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    fields: list[Any] = [pa.field("number", pa.int32())]
    fields += [pa.field(name, pa.int64() if name in _COUNTS else pa.float64()) for name in NAMES]
    return pa.schema(fields)


class _Progress:
    """Reports of the finished tasks, from a separate thread while the job runs."""

    def __init__(self, spark: SparkSession, total: int, report: Report) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._total = total
        self._report = report
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-plan-progress", daemon=True)

    def __enter__(self) -> _Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(TOLD_EVERY_S):
            for stage in self._tracker.getActiveStageIds():
                found = self._tracker.getStageInfo(stage)
                if found is not None and found.numTasks == self._total:
                    self._report(found.numCompletedTasks, self._total)
