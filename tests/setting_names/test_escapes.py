"""Names that clients choose, as people see them."""

from __future__ import annotations

import json

import pytest

from penstock.setting_names.escapes import printable, printable_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("größe 注文", "größe 注文"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
    ],
)
def test_escapes_replace_what_could_forge_a_line_and_leave_letters(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_escapes_in_json_leave_its_value_and_its_line_feeds() -> None:
    value = {"name": "a\x7f\x9b\u202e", "n": 1}
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = printable_json(text)
    assert json.loads(escaped) == value
    assert escaped.count("\n") == text.count("\n")
    assert all(line.isprintable() for line in escaped.split("\n"))
