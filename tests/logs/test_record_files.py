"""Files of records: their names and numbers."""

import gzip
from pathlib import Path

import pytest

from penstock.logs import record_files
from penstock.logs.record_files import RecordFiles

FILES = RecordFiles("some-", 2, "some log")


def test_name_has_the_number_and_the_number_is_read_from_the_name():
    path = FILES.path(Path("logs"), 7)
    assert path == Path("logs/some-00000007.jsonl")
    assert FILES.number_of(path) == 7
    assert FILES.number_of(Path("logs/some-00000007.jsonl.gz")) == 7


@pytest.mark.parametrize("name", ["some-x.jsonl", "other-00000001.jsonl", "some-00000001.json", "some-1.jsonl.zip"])
def test_file_of_another_name_has_no_number(name):
    assert FILES.number_of(Path(name)) is None


def test_record_of_a_newer_schema_is_refused_with_file_line_and_both_versions(tmp_path):
    FILES.path(tmp_path, 1).write_text('{"v":2}\n{"v":3}\n')
    with pytest.raises(ValueError, match=r"some-00000001\.jsonl, line 2: its schema is version 3, and .* up to 2"):
        list(FILES.read(tmp_path))


def test_records_with_a_value_and_the_outer_ones_are_read_without_parsing_the_others(tmp_path):
    lines = [f'{{"n":{n},"name":"{"größe" if n % 3 == 0 else "other"}"}}\n' for n in range(9)]
    FILES.path(tmp_path, 1).write_text("".join(lines[:5]) + '{"no record, and not looked at}\n')
    path = FILES.path(tmp_path, 2)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress("".join(lines[5:]).encode() + b'{"name":"gr')[:-9])
    read: list[Path] = []
    found = FILES.read_holding(["größe"], FILES.list(tmp_path), read.append)
    assert [each["n"] for each in found] == [0, 3, 5, 6, 8]
    assert [each.name for each in read] == ["some-00000001.jsonl", "some-00000002.jsonl.gz"]
    with pytest.raises(ValueError, match=r"some-00000001\.jsonl, line 6"):
        list(FILES.read_holding(["größe", "\x7f"], FILES.list(tmp_path)))


def test_line_that_is_no_record_is_refused_with_its_number_in_any_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "CHUNK_BYTES", 16)
    FILES.path(tmp_path, 1).write_text('{"n":"a"}\n' * 5 + '{"n":"a"\n' + '{"n":"a"}\n')
    with pytest.raises(ValueError, match=r"some-00000001\.jsonl, line 6"):
        list(FILES.read_holding(["a"], FILES.list(tmp_path)))


def test_directories_of_logs_are_found_in_data_directories_and_for_shards(tmp_path):
    there = ["data/some-log", "data/shards/10/some-log", "data/shards/2/some-log", "given", "given/1", "given/2"]
    for folder in [*there, "data/shards/3/some-log", "given/kept", "data/other"]:
        (tmp_path / folder).mkdir(parents=True)
        if folder != "data/shards/3/some-log":
            FILES.path(tmp_path / folder, 1).write_text("{}\n")
    in_data = ["data/some-log", "data/shards/2/some-log", "data/shards/10/some-log"]
    assert FILES.folders(tmp_path / "data") == [tmp_path / each for each in in_data]
    assert FILES.folders(tmp_path / "given") == [tmp_path / each for each in ("given", "given/1", "given/2")]
    assert FILES.folders(tmp_path / "data" / "other") == [tmp_path / "data" / "other"]
    assert FILES.folders(tmp_path / "none") == []
