"""JSON read in steps: the result is that of the standard library, and each step is short."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.management import json_reader
from penstock.management.json_reader import JsonError, JsonReader

texts = st.text(max_size=40) | st.text(alphabet='"\\\n\u20ac\U0001f600x', max_size=400)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def read(data: bytes) -> dict[str, object]:
    reader = JsonReader(data)
    while not reader.step():
        pass
    return reader.found


@given(st.dictionaries(texts, values, max_size=6), st.booleans(), st.sampled_from([None, 1]))
def test_object_is_read_as_by_the_standard_library(given: dict[str, object], ascii_: bool, indent: int) -> None:
    data = json.dumps(given, ensure_ascii=ascii_, indent=indent).encode()
    assert read(data) == given


@given(st.binary(max_size=12), st.dictionaries(texts, values, max_size=3), st.integers(0, 200))
def test_json_without_an_object_is_refused_as_by_the_standard_library(
    noise: bytes, given: dict[str, object], at: int
) -> None:
    data = json.dumps(given).encode()
    data = data[:at] + noise + data[at:]
    try:
        expected = json.loads(data.decode())
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        assert read(data) == expected
    else:
        with pytest.raises(JsonError, match=r"^line \d+, column \d+: "):
            read(data)


@pytest.mark.parametrize("unit", ["x", "\u20ac", "\U0001f600", '"', "\\", "\n"])
@pytest.mark.parametrize("before", range(13))
@pytest.mark.parametrize("ascii_", [False, True])
def test_long_string_is_read_in_steps_with_any_ends(unit: str, before: int, ascii_: bool) -> None:
    given = {"payload": "a" * before + unit * 40_000, "more": [1]}
    data = json.dumps(given, ensure_ascii=ascii_).encode()
    reader = JsonReader(data)
    steps = 0
    while not reader.step():
        steps += 1
    assert reader.found == given
    assert steps >= len(data) // (2 * json_reader.STEP_OCTETS)


def test_halves_of_characters_stay_halves_and_are_noted() -> None:
    for text in ("\ud83d" * 9000, "\ude00" * 9000, "\ud83dx" * 9000, "\ude00\ud83d" * 9000):
        for value in ({"x": text}, {"x": ["a", text[:99]]}, {"x": {text[:99]: 1}}):
            data = json.dumps(value).encode()
            reader = JsonReader(data)
            while not reader.step():
                pass
            assert reader.found == json.loads(data)
            assert reader.has_halves


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"x": {"y": "' + b"z" * 70_000 + b'"}}', "longer than 32,768 bytes"),
        (b'{"x": [' + b"[" * 70_000, "nested too deeply"),
        (b'{"x": [' + b"0," * 200_000 + b"0]}", "more than 100,000 items"),
        (b'{"x": ' + b"9" * 5_000 + b"}", "too many digits"),
        (b'{"x": ' + b"9" * 70_000 + b"}", "too many digits"),
    ],
)
def test_json_that_would_take_long_is_refused_with_its_bound(data: bytes, reason: str) -> None:
    with pytest.raises(JsonError, match=reason) as error:
        read(data)
    assert not error.value.syntax


def test_syntax_error_in_a_long_text_has_its_line() -> None:
    items = ["{}"] * 50_000
    items[777] = '{"a" "b"}'
    with pytest.raises(JsonError, match="line 779, column 6: Expecting ':' delimiter"):
        read(('{"x": [\n' + ",\n".join(items) + "]}").encode())


def test_blanks_are_passed_over_within_a_bound() -> None:
    assert read(b" " * 30_000 + b'{"x":' + b"\n" * 30_000 + b"1 }" + b"\t" * 30_000) == {"x": 1}
    with pytest.raises(JsonError, match="more than 32,768 blanks"):
        read(b" " * 200_000 + b"{}")
