"""The reader of the flow log, and the page that describes its records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock import flowlog

DOCS = Path(__file__).resolve().parents[1] / "docs" / "flow-log.md"


def records(folder: Path) -> list[dict[str, Any]]:
    return list(flowlog.read(folder))


def test_the_documentation_describes_every_field_and_every_event(tmp_path: Path) -> None:
    text = DOCS.read_text()
    described = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert described == {name: kind.lower() for name, kind in flowlog.FIELDS.items()}
    table = text.split("| event | when |")[1]
    named = {
        name
        for first in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", first)
    }
    assert named == set(flowlog.EVENTS)


def test_the_reader_names_file_and_line_of_what_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "flow-00000002.jsonl").write_text('{"v":1}\n[1]\n')
    (tmp_path / "flow-00000010.jsonl").write_text("")
    (tmp_path / "flow-x.jsonl").write_text("not ours")
    assert [path.name for path in flowlog.files(tmp_path)] == ["flow-00000002.jsonl", "flow-00000010.jsonl"]
    with pytest.raises(ValueError, match=r"flow-00000002\.jsonl, line 2: a record is a JSON object"):
        records(tmp_path)
    (tmp_path / "flow-00000002.jsonl").write_text('{"v":1}\n{"v":\n')
    with pytest.raises(ValueError, match=r"flow-00000002\.jsonl, line 2: Expecting value"):
        records(tmp_path)
