"""Files of records: their names and numbers; tests/test_flowlog.py reads them."""

from pathlib import Path

import pytest

from penstock.record_files import RecordFiles

FILES = RecordFiles("some-", 2, "some log")


def test_name_has_the_number_and_the_number_is_read_from_the_name():
    path = FILES.path(Path("logs"), 7)
    assert path == Path("logs/some-00000007.jsonl")
    assert FILES.number_of(path) == 7
    assert FILES.number_of(Path("logs/some-00000007.jsonl.gz")) == 7


@pytest.mark.parametrize("name", ["some-x.jsonl", "other-00000001.jsonl", "some-00000001.json", "some-1.jsonl.zip"])
def test_other_files_have_no_number(name):
    assert FILES.number_of(Path(name)) is None


def test_record_of_a_newer_schema_is_refused_with_file_line_and_both_versions(tmp_path):
    FILES.path(tmp_path, 1).write_text('{"v":2}\n{"v":3}\n')
    with pytest.raises(ValueError, match=r"some-00000001\.jsonl, line 2: its schema is version 3, and .* up to 2"):
        list(FILES.read(tmp_path))
