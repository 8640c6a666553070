"""The reader of the audit log, and the page that describes its records."""

import re
from pathlib import Path

from penstock.logs import auditlog

DOCS = Path(__file__).resolve().parents[2] / "docs" / "audit-log.md"


def test_documentation_describes_every_event():
    text = DOCS.read_text()
    table = text.split("| event | when |")[1].split("\n\n")[0]
    named = {
        name
        for first in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", first)
    }
    assert named == set(auditlog.EVENTS)


def test_files_of_both_logs_in_one_directory_are_listed_separately(tmp_path):
    (tmp_path / "audit-00000001.jsonl").write_text('{"v":1,"event":"login"}\n')
    (tmp_path / "flow-00000001.jsonl").write_text('{"v":1,"event":"depth"}\n')
    assert [path.name for path in auditlog.files(tmp_path)] == ["audit-00000001.jsonl"]
    assert [record["event"] for record in auditlog.read(tmp_path)] == ["login"]
