"""The reader of the flow log."""

from __future__ import annotations

import gzip
import re
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.logs import flowlog

DOCS = Path(__file__).resolve().parents[2] / "docs" / "inside" / "flow-log.md"


def records(folder: Path) -> list[dict[str, Any]]:
    return list(flowlog.read(folder))


def test_documentation_describes_every_event() -> None:
    table = DOCS.read_text().split("| event | when |")[1].split("\n\n")[0]
    named = {
        name
        for first in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", first)
    }
    assert named == set(flowlog.EVENTS)


def test_reader_names_file_and_line_of_an_invalid_record(tmp_path: Path) -> None:
    (tmp_path / "flow-00000002.jsonl").write_text('{"v":1}\n[1]\n')
    (tmp_path / "flow-00000010.jsonl").write_text("")
    (tmp_path / "flow-x.jsonl").write_text("not ours")
    assert [path.name for path in flowlog.files(tmp_path)] == ["flow-00000002.jsonl", "flow-00000010.jsonl"]
    with pytest.raises(ValueError, match=r"flow-00000002\.jsonl, line 2: a record is a JSON object"):
        records(tmp_path)
    (tmp_path / "flow-00000002.jsonl").write_text('{"v":1}\n{"v":\n')
    with pytest.raises(
        ValueError, match=r"flow-00000002\.jsonl, line 2 is no record, as it was cut or damaged: remove that line"
    ):
        records(tmp_path)


def test_reader_takes_several_directories_and_compressed_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    (first / "flow-00000001.jsonl.gz").write_bytes(gzip.compress(b'{"v":1,"n":1}\n{"v":1,"n":2}\n'))
    (first / "flow-00000002.jsonl").write_text('{"v":1,"n":3}\n{"v":1,"n"')
    (second / "flow-00000001.jsonl").write_text('{"v":1,"n":4}\n')
    assert [record["n"] for record in flowlog.read(first, second)] == [1, 2, 3, 4]


def test_reader_takes_the_complete_part_of_a_compressed_file_that_was_cut(tmp_path: Path) -> None:
    lines = b"".join(b'{"v":1,"n":%d}\n' % (number * 7919 % 104729) for number in range(1, 20_000))
    (tmp_path / "flow-00000001.jsonl.gz").write_bytes(gzip.compress(lines)[:-4000])
    found = [record["n"] for record in flowlog.read(tmp_path)]
    assert 0 < len(found) < 20_000
    assert found == [number * 7919 % 104729 for number in range(1, len(found) + 1)]


def test_file_that_is_being_compressed_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "flow-00000001.jsonl").write_text('{"v":1,"n":1}\n')
    (tmp_path / "flow-00000001.jsonl.gz").write_bytes(b"\x1f\x8b")
    assert records(tmp_path) == [{"v": 1, "n": 1}]


def test_reader_refuses_a_newer_schema(tmp_path: Path) -> None:
    (tmp_path / "flow-00000001.jsonl").write_text('{"v":1}\n{"v":2}\n')
    with pytest.raises(ValueError, match=r"line 2: its schema is version 2, and this Penstock reads up to 1"):
        records(tmp_path)


def test_time_is_seconds_or_iso_8601_and_utc_where_it_names_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert flowlog.seconds_of("2026-09-21T14:13:20Z") == flowlog.seconds_of("2026-09-21 14:13:20") == 1_790_000_000
        assert flowlog.seconds_of("2026-09-21T16:13:20+02:00") == flowlog.seconds_of("1790000000")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["yesterday", "-5", "nan", "1e9", ""])
def test_text_that_is_no_time_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no time: give seconds since 1970, or ISO 8601"):
        flowlog.seconds_of(text)


def test_files_of_a_time_are_found_by_their_first_records(tmp_path: Path) -> None:
    for number in range(1, 6):
        lines = "".join(f'{{"v":1,"wall":{number * 10_000 + second}}}\n' for second in (0, 9_999))
        flowlog.FILES.path(tmp_path, number).write_text(lines)
    flowlog.FILES.path(tmp_path, 6).write_text("no record\n")

    def numbers(begin: float | None, end: float | None) -> list[int | None]:
        return [flowlog.FILES.number_of(path) for path in flowlog.files_between(tmp_path, begin, end)]

    assert numbers(None, None) == [1, 2, 3, 4, 5, 6]
    assert numbers(25_000.0, 35_000.0) == [2, 3, 6]
    assert numbers(31_000.0, None) == [2, 3, 4, 5, 6]
    assert numbers(None, 15_000.0) == [1, 6]
