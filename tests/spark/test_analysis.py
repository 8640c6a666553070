"""The analysis of flow logs: its numbers against those of a plain loop, its page, and errors of bad logs."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import signal
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.logs import flowlog
from pyspark_penstock.analysis.chains import chains
from pyspark_penstock.analysis.compact import compact
from pyspark_penstock.analysis.job import Analysis, analyze, summary
from pyspark_penstock.analysis.logs import LogError, Window, records_of
from pyspark_penstock.analysis.logs import find as find_logs
from pyspark_penstock.analysis.measures import (
    LATENCY_SLICE_S,
    PERCENTILES,
    blocks,
    consumers,
    gates,
    latencies,
    links,
    producers,
)
from pyspark_penstock.analysis.page import page
from pyspark_penstock.analysis.parts import FIELDS
from pyspark_penstock.analysis.progress import Silent
from pyspark_penstock.analysis.staging import CHUNK_BYTES, lines_of, stage
from tests.spark.conftest import running, until
from tests.support.commands import hear_interrupts

pytestmark = pytest.mark.spark

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for a few hundred records: to compile a plan takes longer than to interpret it."""
DAY = 1_790_000_000.0
Record = dict[str, Any]


@pytest.fixture(autouse=True)
def small(spark) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in SMALL}
    for name, value in SMALL.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def gate(event: str, queue: str, mono: float, offset: float, **fields: object) -> Record:
    return {"v": 1, "event": event, "wall": mono + offset, "mono": mono, "kind": "queue", "gate": queue,
            "vhost": "/", "queue": queue, **fields}  # fmt: skip


def made_up(seed: int) -> list[list[Record]]:
    """Runs of a broker whose machine starts again before each; the log of the first one begins in the middle."""
    chance = random.Random(seed)
    runs = []
    for number in range(3):
        begin = 50.0 + 900.0 * number
        offset = DAY + 1000.0 * number - begin
        records: list[Record] = []
        if number:
            records.append({"v": 1, "event": "start", "wall": begin + offset, "mono": begin, "version": "0.1.0"})
        closed: dict[str, bool] = defaultdict(lambda number=number: number == 0 and chance.random() < 0.5)
        held: dict[tuple[str, str], bool] = defaultdict(lambda number=number: number == 0 and chance.random() < 0.5)
        for step in range(120):
            mono = round(begin + 1.0 + step * 7 + chance.randrange(1, 6_000) / 1024, 6)
            queue, producer = chance.choice("abc"), f"con:{chance.randrange(4)}(u{chance.randrange(2)}@h:1/)/ch:1"
            if step % 3 == 0:
                closed[queue] = not closed[queue]
                event = "gate-closed" if closed[queue] else "gate-opened"
                records.append(gate(event, queue, mono, offset, id="QUE-1003", messages=step, bytes=step * 100))
            elif step % 3 == 1:
                held[queue, producer] = not held[queue, producer]
                event = "blocked" if held[queue, producer] else "unblocked"
                records.append(gate(event, queue, mono, offset, id="CHN-1005", producer=producer))
            else:
                numbers = {f"{flow}_{unit}": chance.randrange(9)
                           for flow in ("in", "out", "settled") for unit in ("messages", "bytes")}  # fmt: skip
                records.append(gate("depth", queue, mono, offset, messages=chance.randrange(3), bytes=step,
                                    unacknowledged=chance.randrange(2), open=not closed[queue], waiting=0,
                                    blocked=chance.randrange(2), consumers=chance.randrange(2), seconds=0.5,
                                    sizes=[0, chance.randrange(4)], **numbers))  # fmt: skip
        if number == 1:
            records.append({"v": 1, "event": "lost", "wall": mono + offset, "mono": mono, "count": 7, "cause": "x"})
            records.append({"v": 1, "event": "summed", "wall": mono + offset, "mono": mono, "count": 5, "user": "eve"})
        runs.append(records)
    return runs


def write(folder: Path, runs: Iterable[list[Record]], torn: bool = False) -> Path:
    """Write each run into a file of its own, the first one compressed."""
    folder.mkdir(parents=True)
    for number, records in enumerate(runs, 1):
        data = "".join(json.dumps(record) + "\n" for record in records).encode()
        if number == 1:
            (folder / "flow-00000001.jsonl.gz").write_bytes(gzip.compress(data))
        else:
            (folder / f"flow-{number:08d}.jsonl").write_bytes(data)
    if torn:
        with (folder / f"flow-{number:08d}.jsonl").open("ab") as last:
            last.write(b'{"v":1,"event":"dep')
    return folder


def bounds(records: list[Record], window: Window) -> tuple[float, float]:
    offset = records[0]["wall"] - records[0]["mono"]
    lo, hi = records[0]["mono"], records[-1]["mono"]
    return (
        lo if window.begin is None else max(lo, window.begin - offset),
        hi if window.end is None else min(hi, window.end - offset),
    )


def held(records: list[Record], begin: str, end: str, keys: tuple[str, ...], window: Window) -> dict[Any, float]:
    """The seconds between two kinds of events in one run, in a plain loop."""
    lo, hi = bounds(records, window)
    since: dict[Any, float] = {}
    found: dict[Any, float] = defaultdict(float)
    met: set[Any] = set()
    for record in records:
        if record["event"] in (begin, end):
            key = tuple(record[name] for name in keys)
            at = min(max(record["mono"], lo), hi)
            if record["event"] == begin:
                since[key] = at
            else:
                found[key] += at - since.pop(key, lo if key not in met else at)
            met.add(key)
    for key, at in since.items():
        found[key] += hi - at
    return found


def added(parts: Iterable[dict[Any, float]]) -> dict[Any, float]:
    found: dict[Any, float] = defaultdict(float)
    for part in parts:
        for key, value in part.items():
            found[key] += value
    return {key: pytest.approx(value, abs=1e-6) for key, value in found.items() if value > 0}


def released(records: list[Record], window: Window) -> Iterator[tuple[str, float]]:
    """Yield gate and resume latency of each release in one run, in a plain loop."""
    lo, hi = bounds(records, window)
    last: dict[str, Record] = {}
    for record in records:
        if record["event"] in ("gate-opened", "gate-closed") and lo <= record["mono"] <= hi:
            last[record["gate"]] = record
        elif record["event"] == "unblocked" and lo <= record["mono"] <= hi:
            before = last.get(record["gate"])
            if before is not None and before["event"] == "gate-opened":
                if before["mono"] // LATENCY_SLICE_S == record["mono"] // LATENCY_SLICE_S:
                    yield record["gate"], record["mono"] - before["mono"]


@pytest.mark.long
def test_analysis_agrees_with_a_plain_loop(spark, tmp_path: Path) -> None:
    runs = made_up(11)
    folder = write(tmp_path / "log", runs, torn=True)
    stage(find_logs([folder]), tmp_path / "staged")
    for window in (Window(), Window(DAY + 300.0, DAY + 1500.0)):
        records = records_of(spark, tmp_path / "staged", window)
        inside = [run for run in runs if bounds(run, window)[0] <= bounds(run, window)[1]]
        assert len(records.runs) == len(inside)
        found = {(row["gate"], row["producer"]): row["seconds"] for row in blocks(records, None).collect()}
        wanted = added(held(run, "blocked", "unblocked", ("gate", "producer"), window) for run in inside)
        assert {key: value for key, value in found.items() if value > 0} == wanted
        assert len(wanted) > 5
        if window.begin is None:
            continue
        found = {row["gate"]: row["seconds"] for row in gates(records, None).collect()}
        assert found == {
            key[0]: value
            for key, value in added(
                held(run, "gate-closed", "gate-opened", ("gate",), window) for run in inside
            ).items()
        }
        by_gate: dict[str, list[float]] = defaultdict(list)
        for run in inside:
            for name, latency in released(run, window):
                by_gate[name].append(latency)
        wanted_percentiles = {
            name: [pytest.approx(sorted(values)[max(math.ceil(part * len(values)) - 1, 0)]) for part in PERCENTILES]
            for name, values in by_gate.items()
        }
        assert {row["gate"]: list(row["percentiles"]) for row in latencies(records, None).collect()} == (
            wanted_percentiles
        )


@pytest.mark.slow
def test_analysis_adds_closings_and_blocks_that_the_log_has_as_sums(spark, tmp_path: Path) -> None:
    """A release after closings that are summed has no latency: nobody knows which opening was the last."""
    producer = "con:1(u@h:1/)/ch:1"
    run = [
        gate(event, "a", mono, DAY, **fields)
        for event, mono, fields in [
            ("gate-closed", 1.0, {"messages": 5, "bytes": 50}),
            ("blocked", 1.0, {"producer": producer}),
            ("gate-opened", 1.5, {"messages": 1, "bytes": 10}),
            ("unblocked", 1.75, {"producer": producer}),
            ("brief-closings", 2.0, {"count": 20, "brief_s": 0.25, "messages": 9, "bytes": 90}),
            ("brief-blocks", 2.0, {"count": 30, "brief_s": 0.5, "producer": producer}),
            ("brief-blocks", 2.0, {"count": 3, "brief_s": 0.125}),
            ("blocked", 2.5, {"producer": producer}),
            ("unblocked", 3.0, {"producer": producer}),
            ("brief-blocks", 8.0, {"count": 7, "brief_s": 1.0, "producer": producer}),
        ]
    ]
    stage(find_logs([write(tmp_path / "log", [[], run])]), tmp_path / "staged")
    records = records_of(spark, tmp_path / "staged", Window(end=DAY + 5.0))
    (crossed,) = gates(records, None).collect()
    assert (crossed["seconds"], crossed["crossings"], crossed["highest_messages"]) == (0.75, 21, 9)
    found = {row["producer"]: (row["seconds"], row["blocks"], row["user"]) for row in blocks(records, "a").collect()}
    assert found == {producer: (1.75, 32, "u"), "(others)": (0.125, 3, "(none)")}
    (latency,) = latencies(records, None).collect()
    assert (latency["resumes"], latency["percentiles"][-1]) == (1, 0.25)


class Checker(HTMLParser):
    """What is in a page: its elements, texts, and addresses that a browser would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = defaultdict(int)
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.marks: set[str] = set()
        """Places of the page that links lead to, and those that it has."""
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        addresses = [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.loaded += [each for each in addresses if not each.startswith("#")]
        self.places.update(each[1:] for each in addresses if each.startswith("#"))
        self.marks.update(value or "" for name, value in attrs if name == "id")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(found: Analysis) -> Checker:
    checker = Checker()
    checker.feed(page(found))
    checker.close()
    assert checker.open == []
    assert checker.places <= checker.marks
    assert (checker.loaded, checker.count["script"], checker.count["link"], checker.count["img"]) == ([], 0, 0, 0)
    return checker


class Told(Silent):
    """What is told of the progress."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps

    def step(self, words: str) -> None:
        self.steps.append(words)

    def part(self, words: str) -> None:
        self.steps.append(words)


@pytest.mark.slow
@pytest.mark.parametrize("with_spark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_analysis_of_a_brokers_log_and_of_another_one_is_a_page_with_all_plots(
    spark, tmp_path: Path, with_spark: bool
) -> None:
    with running(data=tmp_path / "data") as broker:
        queue = broker.declare(capacity_messages=5, stop_messages=2, resume_messages=1)

        def records(event: str) -> list[Record]:
            every = flowlog.read(tmp_path / "data" / "flow-log")
            return [each for each in every if each["event"] == event and each.get("queue") == queue]

        with broker.connect() as connection:
            channel = connection.channel()
            for _ in range(4):
                channel.basic_publish("", queue, b"x" * 1000)
            until(lambda: broker.depth(queue) == 4, "four messages")
            until(lambda: records("depth"), "a sample")
            broker.drain(queue, 4)
            until(lambda: sum(each["settled_messages"] for each in records("depth")) == 4, "a sample of the end")
    other = write(tmp_path / "other", made_up(12), torn=True)
    steps: list[str] = []
    session = spark if with_spark else None
    found = analyze(session, [tmp_path / "data", other], tmp_path / "out", progress=Told(steps))
    (row,) = [row for row in found.queues if row["queue"] == queue]
    assert (row["in_messages"], row["out_messages"], row["settled_messages"]) == (4, 4, 4)
    assert row["in_bytes"] == sum(each["in_bytes"] for each in records("depth")) > 4000
    assert (row["capacity_messages"], row["stop_messages"], row["resume_messages"]) == (5, 2, 1)
    (closed,) = [each for each in found.gates if each["gate"] == queue]
    (shut,), (opened,) = records("gate-closed"), records("gate-opened")
    assert closed["crossings"] == 1
    assert closed["seconds"] == pytest.approx(opened["mono"] - shut["mono"], abs=1e-5)
    assert any(each["gate"] == queue and each["user"] == "guest" for each in found.producers)
    assert sum(each["seconds"] for each in found.users) == pytest.approx(found.blocked_seconds)
    for each in found.gates:
        assert each["share"] == pytest.approx(each["blocked_seconds"] / each["recorded_seconds"])
    checker = checked(found)
    assert checker.count["svg"] == 10, steps
    assert "7 records were lost" in checker.text
    assert "5 events were beyond the share" in checker.text
    assert "1 line could not be read" in checker.text
    assert queue in checker.text
    assert not (tmp_path / "out" / "staged").exists()
    assert pq.read_table(tmp_path / "out" / "tables" / "queues").num_rows == 4
    assert any("was closed for" in line for line in summary(found))


@pytest.mark.slow
def test_analysis_follows_the_chain_from_the_producers_to_the_slow_consumer(spark, tmp_path: Path) -> None:
    offset = DAY
    records = [{"v": 1, "event": "start", "wall": DAY, "mono": 0.0, "version": "0.1.0"}]
    for queue in "abc":
        records.append(gate("gate-closed", queue, 1.0, offset, messages=9, bytes=900))
        records.append(gate("gate-opened", queue, 9.0, offset, messages=1, bytes=100))
    names = {"a": "con:1(u@h:1/)/ch:1", "b": "con:2(u@h:2/)/ch:1", "c": "con:3(u@h:3/)/ch:1"}
    for queue, name in names.items():
        records.append(gate("blocked", queue, 2.0, offset, producer=name))
        records.append(gate("unblocked", queue, 9.5, offset, producer=name))
    records.append(gate("producer", "a", 10.0, offset, producer=names["a"], in_messages=50, in_bytes=1, seconds=9.0))
    records.append(gate("consumer", "a", 10.0, offset, consumer="cursor(x)", query="q1", out_messages=50, seconds=9.0))
    records.append(gate("producer", "b", 10.0, offset, producer=names["b"], query="q1", in_messages=40, seconds=9.0))
    records.append(gate("consumer", "b", 10.0, offset, consumer="con:3(u@h:3/)/ch:9", out_messages=40, seconds=9.0))
    records.append(gate("producer", "c", 10.0, offset, producer=names["c"], in_messages=30, seconds=9.0))
    records.append(gate("consumer", "c", 10.0, offset, consumer="con:7(u@h:7/)/ch:1", out_messages=30, seconds=9.0))
    records.append(gate("producer", "dead", 10.0, offset, producer="vh(/)/qu(c)/dead-letters", source="c",
                        in_messages=3, seconds=9.0))  # fmt: skip
    write(tmp_path / "log", [records])
    stage(find_logs([tmp_path / "log"]), tmp_path / "staged")
    log = records_of(spark, tmp_path / "staged", Window())
    linked = [row.asDict() for row in links(producers(log), consumers(log)).collect()]
    assert {(row["queue"], row["to_queue"]) for row in linked} == {("a", "b"), ("b", "c"), ("c", "dead")}
    closed = [{**row.asDict(), "blocked_seconds": 7.5} for row in gates(log, None).collect()]
    takers = [row.asDict() for row in consumers(log).collect()]
    (chain,) = chains(closed, [], linked, takers)
    assert [row["queue"] for row in chain.queues] == ["a", "b", "c"]
    assert chain.via == ["query q1", "con:3"]
    assert [row["consumer"] for row in chain.consumers] == ["con:7(u@h:7/)/ch:1"]
    with pytest.raises(LogError, match=r"no records in that time: it has 2026-09-21 14:13:20 UTC to"):
        records_of(spark, tmp_path / "staged", Window(end=DAY - 5.0))


def test_truncated_compressed_log_is_reported_by_name(spark, tmp_path: Path) -> None:
    folder = write(tmp_path / "log", made_up(14))
    archive = folder / "flow-00000001.jsonl.gz"
    archive.write_bytes(archive.read_bytes()[:-500])
    with pytest.raises(
        LogError, match=r"flow-00000001\.jsonl\.gz is cut or damaged: keep the readable part with `zcat"
    ):
        analyze(spark, [folder], tmp_path / "out")
    assert not (tmp_path / "out" / "staged").exists()


def test_compacted_logs_are_read_as_the_logs_themselves(spark, tmp_path: Path) -> None:
    runs = made_up(13)
    for run in runs[2]:
        run["wall"] += 86_400.0
    first, second = write(tmp_path / "a", runs[:2]), write(tmp_path / "b", runs[2:], torn=False)
    count, days = compact([first, second], tmp_path / "archive")
    assert (count, days) == (sum(len(run) for run in runs), 2)
    assert len(list((tmp_path / "archive").glob("day=*"))) == 2
    stage(find_logs([tmp_path / "archive"]), tmp_path / "staged")
    records = records_of(spark, tmp_path / "staged", Window())
    assert records.count == count
    assert [(run.log[-2:], run.run) for run in records.runs] == [("/a", 0), ("/a", 1), ("/b", 1)]
    with pytest.raises(LogError, match=r"archive is not empty: give a new directory"):
        compact([first], tmp_path / "archive")
    with pytest.raises(LogError, match=r"archive is compacted already"):
        compact([tmp_path / "archive"], tmp_path / "other")


@pytest.mark.long
def test_ctrl_c_ends_the_analysis_with_a_sentence_and_removes_staged_files(spark, tmp_path: Path) -> None:
    log, output = write(tmp_path / "log", made_up(15)), tmp_path / "out"
    words = ["analyze", str(log), "--output", str(output), "--master", "local[1]"]
    command = [sys.executable, "-m", "pyspark_penstock.analysis", *words]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_interrupts
    ) as job:
        assert any("numbering the runs" in line for line in job.stderr)
        os.killpg(job.pid, signal.SIGINT)
        said = job.stderr.read()
    assert job.returncode == 130
    assert "penstock: analyze was interrupted: no page was written, and what was staged is removed\n" in said
    assert "Traceback" not in said
    assert not (output / "staged").exists()
    assert not (output / "index.html").exists()


def test_compaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    log = write(tmp_path / "log", made_up(16))
    archive = log / "flow-00000001.jsonl.gz"
    archive.write_bytes(archive.read_bytes()[:-500])
    with pytest.raises(LogError, match=r"is cut or damaged"):
        compact([log], tmp_path / "archive")
    assert not (tmp_path / "archive").exists()


def test_lines_without_records_are_counted_at_all_positions(spark, tmp_path: Path) -> None:
    log = write(tmp_path / "log", made_up(17), torn=True)
    last = log / "flow-00000003.jsonl"
    text = '[1]\n{"v":1,"event":"depth","wall":"noon"}\n\n{"event":"dep\n' + last.read_text()
    last.write_text(text)
    stage(find_logs([log]), tmp_path / "staged", cores=2)
    records = records_of(spark, tmp_path / "staged", Window())
    assert any(notice.startswith("4 lines could not be read as records") for notice in records.notices)
    assert records.count == sum(len(run) for run in made_up(17)) + 4


def test_line_without_an_end_is_no_record_and_is_not_kept_in_memory(tmp_path: Path) -> None:
    log = tmp_path / "flow-00000001.jsonl.gz"
    with gzip.open(log, "wb", 1) as file:
        for _ in range(10):
            file.write(b"x" * CHUNK_BYTES)
        file.write(b'\n{"v":1,"event":"depth"}\n')
    tracemalloc.start()
    tables = list(lines_of(log, FIELDS))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [table["event"].to_pylist() for table in tables] == [["depth", None]]
    assert most < 6 * CHUNK_BYTES
