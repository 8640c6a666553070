"""The log on standard error: complete while it is read, bounded with a count of lost lines otherwise."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from penstock.logs.ids import CATALOGUE, DEBUG, LIBRARY, STARTED, lines_of
from penstock.logs.logger import log
from penstock.server.log_formats import RECORD_MOST, Text
from penstock.server.logs import OCTETS_WAITING, LogLines, _put

SCRIPT = """
import logging, sys
from penstock.server.logs import logging_to_stderr

log = logging.getLogger("penstock")
with logging_to_stderr():
    for number in range(int(sys.argv[1])):
        log.info("line %d", number)
    print("logged", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("lines", [1, 5_000])
def test_log_lines_are_all_written_with_their_time(lines: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lines)], input="\n", capture_output=True, text=True, timeout=60, check=True
    )
    written = done.stderr.splitlines()
    assert [line.partition(" line ")[2] for line in written] == [str(number) for number in range(lines)]
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO", line.partition(" line ")[0]) for line in written
    )


def test_log_that_is_not_read_delays_no_client_and_counts_dropped_lines() -> None:
    lines = 100_000
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(lines)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "logged\n"  # The pipe is full by then, and so is what may wait for it.
    written, dropped = 0, 0
    for line in process.stderr:
        found = re.fullmatch(r".* WARNING PST-2020 : ([\d,]+) lines of this log were dropped: .*\n", line)
        if found:
            dropped += int(found[1].replace(",", ""))
        else:
            written += 1
        if written + dropped == lines:
            break
    assert dropped > 0
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_log_on_a_full_disk_reports_dropped_lines_when_there_is_room() -> None:
    lines = LogLines(Text())
    reader, writer = os.pipe()
    os.close(reader)
    assert not _put(writer, b"nobody reads")
    os.close(writer)
    assert re.fullmatch(r".* WARNING PST-2020 : 3 lines of this log were dropped: .*\n", lines.report(3))


def test_record_that_cannot_be_formatted_raises_no_error_in_its_caller(capfd: pytest.CaptureFixture[str]) -> None:
    lines = LogLines(Text())
    lines.handle(logging.makeLogRecord({"msg": "%d octets", "args": ("many",)}))
    assert lines.writer.take() == []
    assert "%d octets" in capfd.readouterr().err, "logging tells of it, with the place"


def test_waiting_records_have_a_bound_in_bytes() -> None:
    lines = LogLines(Text())
    record = logging.makeLogRecord({"msg": "x" * 1_000_000, "name": "penstock"})
    for _ in range(OCTETS_WAITING // RECORD_MOST + 2):
        lines.handle(record)
    assert lines.dropped > 0
    texts = lines.writer.take()
    text, dropped = lines.take(texts)
    assert len(texts) * RECORD_MOST < len(text) < len(texts) * (RECORD_MOST + 100)
    lines.handle(record)
    assert (dropped > 0, lines.dropped, len(lines.writer.waiting)) == (True, 0, 1), "there is room again"


@contextlib.contextmanager
def registered(lines: LogLines, name: str = "penstock") -> Iterator[logging.Logger]:
    """Have a logger write to these lines."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(DEBUG)
    try:
        yield logger
    finally:
        logger.setLevel(level)
        logger.removeHandler(lines)


@pytest.mark.parametrize("log_id", [each.name for each in CATALOGUE if not each.unlimited])
def test_records_of_a_log_id_are_limited_without_the_log_queue(monkeypatch: pytest.MonkeyPatch, log_id: str) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    lines = LogLines(Text())
    with registered(lines):
        for _ in range(2 * lines_of(log_id)):
            log(log_id, "again %d", 1)
    assert len(lines.writer.waiting) == lines_of(log_id)


def test_tracebacks_of_libraries_are_limited_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines, flood = LogLines(Text()), 1_000
    with registered(lines, "asyncio") as library:
        for _ in range(flood):
            try:
                raise KeyError("hush")
            except KeyError:
                library.exception("a task broke off")
    now[0] += 2
    with registered(lines):
        log(STARTED, "the next record")
    texts = list(lines.writer.waiting)
    most = lines_of(LIBRARY)
    assert sum("Traceback" in text for text in texts) == most
    assert texts[most].endswith(f"a task broke off (and {flood - most - 1:,} more since the last such line)\n")
    assert len(texts) == most + 2
