"""The analysis of a small log without Spark: the same tables as Spark's, to the last digit, and no Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyspark_penstock.analysis.job import analyze
from pyspark_penstock.analysis.logs import Window, find
from pyspark_penstock.analysis.page import page
from pyspark_penstock.analysis.plain import SMALL_BYTES, is_small
from tests.spark.test_analysis import DAY, Record, gate, made_up, small, write
from tests.support.commands import hear_interrupts

pytestmark = pytest.mark.spark
__all__ = ["small"]


def busy(seed: int) -> list[list[Record]]:
    """Runs with records of every event that a measure reads."""
    runs = made_up(seed)
    for run in runs:
        first = run[0]
        at, offset = first["mono"] + 400.0, first["wall"] - first["mono"]
        for step in range(40):
            mono = round(at + step / 7, 6)
            queue, producer = "abc"[step % 3], f"con:{step % 4}(u{step % 2}@h:1/)/ch:1"
            brief = {"count": step + 1, "brief_s": round(0.1 / 7 * step, 6)}
            run += [
                gate("brief-closings", queue, mono, offset, messages=step, bytes=step * 90, **brief),
                gate("brief-blocks", queue, mono, offset, producer=producer, **brief),
                gate("brief-blocks", queue, mono, offset, **brief),
                gate("queue", queue, mono, offset, capacity_messages=step, stop_messages=step, resume_bytes=7,
                     hold_deadline=step / 3, overflow="block"),
                gate("producer", queue, mono, offset, producer=producer, in_messages=step, in_bytes=step * 90,
                     seconds=10.0),
                gate("producer", "abc"[(step + 1) % 3], mono, offset, producer="x/dead-letters", source=queue,
                     in_messages=3, in_bytes=9, seconds=10.0),
                gate("producer", queue, mono, offset, producer=f"con:9(s@h:1/)/ch:{step}", query="etl", in_messages=5,
                     in_bytes=50, seconds=10.0),
                gate("consumer", "abc"[(step + 2) % 3], mono, offset, consumer=producer, out_messages=step, prefetch=9,
                     seconds=10.0),
                gate("consumer", "a", mono, offset, consumer="cursor(c)", query="etl", out_messages=2, seconds=10.0),
            ]  # fmt: skip
    return runs


def tables(folder: Path) -> dict[str, list[tuple[tuple[str, str], ...]]]:
    """Return the rows of each table in an order of their own, with their types."""
    found = {}
    for table in sorted((folder / "tables").iterdir()):
        read = pq.read_table(table)
        rows: list[dict[str, Any]] = read.to_pylist()
        found[table.name] = sorted(tuple((name, repr(row[name])) for name in sorted(row)) for row in rows)
    return found


PART = Window(DAY + 300.1234567, DAY + 1500.7654321)


def schemas(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return names and types of the columns of each table."""
    read = {table.name: pq.read_table(table).schema for table in sorted((folder / "tables").iterdir())}
    return {name: [(each.name, str(each.type)) for each in read[name]] for name in read}


def test_tables_of_a_log_in_which_nothing_was_blocked_have_their_columns(tmp_path: Path) -> None:
    quiet = [each for each in made_up(23)[0] if each["event"] == "depth"]
    found = analyze(None, [write(tmp_path / "log", [quiet])], tmp_path / "out")
    assert (found.gates, found.producers, len(found.queues)) == ([], [], 3)
    assert all(schemas(tmp_path / "out").values())
    assert "No gate closed." in page(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queue", "window"),
    [
        pytest.param(None, PART, marks=pytest.mark.long),
        pytest.param(None, Window(), marks=pytest.mark.long),
        pytest.param("b", PART, marks=pytest.mark.long),
        ("b", Window()),
    ],
)
def test_small_log_has_the_same_tables_with_and_without_spark(
    spark, tmp_path: Path, queue: str | None, window: Window
) -> None:
    log = write(tmp_path / "log", busy(21), torn=True)
    folders = [tmp_path / name for name in ("spark", "plain")]
    with_spark, without = (
        analyze(session, [log], folder, window, queue) for session, folder in zip((spark, None), folders, strict=True)
    )
    one, other = (tables(folder) for folder in folders)
    assert list(one) == list(other)
    assert schemas(folders[0]) == schemas(folders[1])
    for name, rows in one.items():
        assert other[name] == rows, name
        assert rows
    assert without.chains
    assert [(queue["queue"], queue["closed_seconds"]) for queue in without.queues] == [
        (queue["queue"], queue["closed_seconds"]) for queue in with_spark.queues
    ]
    for name in ("records", "begin", "end", "seconds", "runs", "notices", "blocked_seconds", "gates", "sizes"):
        assert asdict(without)[name] == asdict(with_spark)[name], name


def test_small_log_needs_no_java_and_a_larger_one_reports_the_need(tmp_path: Path) -> None:
    log = write(tmp_path / "log", busy(22))

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        words = ["analyze", str(log), "--output", str(tmp_path / "out"), *more]
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": ""}
        return subprocess.run(
            [sys.executable, "-m", "pyspark_penstock.analysis", *words, "--no-java", "There is no Java."],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = run()
    assert (done.returncode, "was closed for" in done.stdout) == (0, True), done.stderr
    assert (tmp_path / "out" / "index.html").exists()
    asked = run("--master", "local[1]")
    assert (asked.returncode, asked.stderr) == (1, "penstock: There is no Java.\n")
    with (log / "flow-00000003.jsonl").open("a") as last:
        last.write("\n" * SMALL_BYTES)
    assert not is_small(find([log]))
    assert run().stderr == "penstock: There is no Java.\n"


def test_ctrl_c_ends_the_analysis_of_a_small_log_with_a_sentence(tmp_path: Path) -> None:
    log, output = write(tmp_path / "log", busy(24)), tmp_path / "out"
    last = log / "flow-99999999.jsonl"
    os.mkfifo(last)
    command = [sys.executable, "-m", "pyspark_penstock.analysis", "analyze", str(log), "--output", str(output)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_interrupts
    ) as job:
        assert job.stderr is not None
        with last.open("w"):  # It is opened when the analysis reads it, which then waits for its end.
            os.killpg(job.pid, signal.SIGINT)
            said = job.stderr.read()
    assert job.returncode == 130
    assert "penstock: analyze was interrupted: no page was written, and what was staged is removed\n" in said
    assert "Traceback" not in said
    assert not (output / "staged").exists()
    assert not (output / "index.html").exists()
