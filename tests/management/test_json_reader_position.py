"""Lines of keys and items in a JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.management.json_reader import line_of

TEXT = """
{
  "a": [1, {"x": "}"},
    {"b\\u0065": [[]],
     "c": "two\\nlines, [\\"quoted\\"]"}
  ],
  "d": null
}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ([], 2),
        (["a"], 3),
        (["a", 1], 3),
        (["a", 2], 4),
        (["a", 2, "be"], 4),
        (["a", 2, "c"], 5),
        (["d"], 7),
        (["a", 9], 3),
        (["none"], 2),
        (["d", "x"], 7),
    ],
)
def test_json_position_has_its_line_or_that_of_its_container(path: list[str | int], line: int) -> None:
    assert line_of(TEXT, path) == line


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), values, min_size=1), st.data())
def test_key_is_found_on_its_line(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value, indent=1)
    key = data.draw(st.sampled_from(sorted(value)))
    line = text.splitlines()[line_of(text, [key]) - 1]
    assert line.startswith(f" {json.dumps(key)}:")
