"""Errors of the analysis for bad logs and times, before it reads them; no JVM."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from pyspark_penstock.analysis.__main__ import main, sentence_of
from pyspark_penstock.analysis.logs import LogError, find


def test_logs_are_found_in_directories_data_directories_and_as_files(tmp_path: Path) -> None:
    log = tmp_path / "data" / "flow-log"
    log.mkdir(parents=True)
    (log / "flow-00000001.jsonl.gz").write_bytes(gzip.compress(b'{"v":1}\n'))
    (log / "flow-00000002.jsonl").write_text('{"v":1}\n')
    archive = tmp_path / "archive" / "day=2026-11-22"
    archive.mkdir(parents=True)
    (archive / "part-0.parquet").write_bytes(b"PAR1")
    found = find([tmp_path / "data", tmp_path / "archive"])
    assert [Path(name).name for name in found.lines] == ["flow-00000001.jsonl.gz", "flow-00000002.jsonl"]
    assert found.tables == [str(tmp_path / "archive")]
    assert find([log / "flow-00000002.jsonl"]).octets == 8


def test_logs_of_all_shards_are_found_in_the_data_directory_of_a_node(tmp_path: Path) -> None:
    logs = [tmp_path / "flow-log", tmp_path / "shards" / "2" / "flow-log"]
    for log in logs:
        log.mkdir(parents=True)
        (log / "flow-00000001.jsonl").write_text('{"v":1}\n')
    assert find([tmp_path]).lines == [str(log / "flow-00000001.jsonl") for log in logs]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (None, "does not exist: give the directory of a flow log"),
        ("", r"has no flow log: give a directory with flow-\*\.jsonl or"),
        ('{"v":2,"event":"start"}\n', r"flow-00000001\.jsonl has records of schema version 2, and this Penstock reads"),
    ],
)
def test_logs_that_cannot_be_analyzed_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str | None, says: str
) -> None:
    log = tmp_path / "log"
    if lines is not None:
        log.mkdir()
    if lines:
        (log / "flow-00000001.jsonl").write_text(lines)
    with pytest.raises(LogError, match=says):
        find([log])


def test_wrong_time_ends_the_program_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tmp_path), "--output", str(tmp_path), "--from", "noon"]) == 1
    assert capsys.readouterr().err.startswith("penstock: 'noon' is no time")


def test_missing_logs_are_reported_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)  # Spark cannot be imported.
    for job in (["analyze", "--output", str(tmp_path / "out")], ["compact", "--to", str(tmp_path / "out")]):
        assert main([*job, str(tmp_path / "none")]) == 1
        said = capsys.readouterr().err
        assert said == f"penstock: {tmp_path / 'none'} does not exist: give the directory of a flow log\n"


def test_errors_of_spark_with_a_plain_cause_are_one_sentence() -> None:
    assert str(sentence_of(Exception("java.io.IOException: No space left on device"))).startswith("the disk is full")
    assert "give --memory 2g" in str(sentence_of(Exception("java.lang.OutOfMemoryError: Java heap space")))
    assert sentence_of(ValueError("other")) is None
