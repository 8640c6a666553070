"""Converted definitions: their text, and the lines of the source."""

from __future__ import annotations

import json

import pytest

from penstock.cli.conversions.conversion import Conversion, check_spelling, plain
from penstock.errors import ConfigError


def made() -> Conversion:
    found = Conversion()
    found.add(7, "queues", {"name": "a"})
    found.add(9, "queues", {"name": 'b"\n'})
    found.set(30, "queue", "#", {"stop-percent": 50})
    found.set(40, "queue", "#", {"resume-percent": 40})
    return found


def test_text_is_a_definitions_file_with_an_entry_a_line() -> None:
    found = made()
    assert json.loads(found.text()) == {
        "queues": [{"name": "a"}, {"name": 'b"\n'}],
        "settings": [{"scope": "queue", "pattern": "#", "settings": {"stop-percent": 50, "resume-percent": 40}}],
    }
    assert json.loads(Conversion().text()) == {}


def test_lines_of_the_text_are_lines_of_the_source() -> None:
    found = made()
    sources = {found.source_line(number): line for number, line in enumerate(found.text().splitlines(), 1)}
    assert json.loads(sources[7].strip().rstrip(",")) == {"name": "a"}
    assert "stop-percent" in sources[30]
    assert set(sources) == {0, 7, 9, 30}
    assert found.relocated("line 4, queues[1]: refused at line 3") == "line 9, queues[1]: refused at line 3"
    assert found.relocated("line 1: refused") == "line 1: refused"


def test_equal_entries_are_one() -> None:
    found = made()
    found.add(11, "queues", {"name": "a"})
    found.set(50, "queue", "x", {})
    assert len(found.entries["queues"]) == 2
    assert len(found.entries["settings"]) == 1


def test_answer_has_lines_of_the_source_and_the_remarks_in_their_order() -> None:
    found = made()
    found.remark(8, "<b>", "later")
    found.remark(2, "<a>", "first", False)
    answer: dict[str, object] = {"differences": [{"line": 4}]}
    found.complete(answer)
    assert answer == {
        "differences": [{"line": 9}],
        "remarks": [
            {"line": 2, "subject": "<a>", "reason": "first", "left": False},
            {"line": 8, "subject": "<b>", "reason": "later", "left": True},
        ],
    }


def test_nearly_known_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="line 3: 'capasity' is not known; did you mean capacity"):
        check_spelling(3, "capasity", ["capacity"])
    check_spelling(3, "capacity", ["capacity"])
    check_spelling(3, "owner", ["capacity"])


def test_whole_numbers_are_numbers_and_all_else_is_text() -> None:
    assert [plain(text) for text in ("10", "-1", "10Mb", "1.5", "9" * 19)] == [10, -1, "10Mb", "1.5", "9" * 19]
