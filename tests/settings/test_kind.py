"""Kinds of named values: spellings, bounds, and the one sentence of a refusal."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.settings.kind import (
    ANYTHING,
    BYTES,
    COUNT,
    FLAG,
    MILLISECONDS,
    NAME,
    NAMES,
    NO_UNIT,
    OBJECT,
    REQUIRED,
    SECONDS,
    TEXT,
    Choices,
    InvalidValue,
    Kind,
    Named,
    NamedValues,
    Number,
    Parsed,
    Strings,
    Text,
    seconds_from,
    type_word,
    unknown_name,
)

SPARK = Number("ms", most=10_000, bare=NO_UNIT)
RATE = Number(least=0, whole=False, above=True, none=-1.0, special={-1: -1.0}, zero="stops all producers")
WORD = Choices(("block", "reject", "drop-head"))
SYNONYMS = Choices({"block": "block", "ring": "drop-head", "drop-head": "drop-head"}, article="a policy")
MECHANISMS = Strings(1, single=True, choices=("PLAIN", "EXTERNAL"))


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (COUNT, 5, 5),
        (COUNT, 5.0, 5),
        (COUNT, "5", 5),
        (COUNT, b" 5 ", 5),
        (BYTES, "4MB", 4_000_000),
        (BYTES, "64 KiB", 65_536),
        (BYTES, "1.5k", 1536),
        (MILLISECONDS, "30 min", 1_800_000),
        (MILLISECONDS, 5, 5),
        (SECONDS, "250ms", 0.25),
        (SECONDS, "30min", 1800.0),
        (SECONDS, "1.5", 1.5),
        (seconds_from(0.1, 3600), "100 ms", 0.1),
        (Number("s", bare="ms", whole=False), 250, 0.25),
        (Number("s", bare="ms", whole=False, special={-1: math.inf}), -1, math.inf),
        (Number("ms", bare="s"), 3, 3000),
        (SPARK, "5 s", 5000),
        (SPARK, "0", 0),
        (RATE, "none", -1.0),
        (RATE, -1, -1.0),
        (RATE, "0.5", 0.5),
        (FLAG, "Yes", True),
        (FLAG, "off", False),
        (FLAG, 0, False),
        (FLAG, True, True),
        (WORD, "Block", "block"),
        (SYNONYMS, b"RING", "drop-head"),
        (TEXT, "ü", "ü"),
        (NAME, "", ""),
        (MECHANISMS, "PLAIN", ["PLAIN"]),
        (NAMES, ["a", "b"], ["a", "b"]),
        (OBJECT, [], {}),
        (OBJECT, {"a": 1}, {"a": 1}),
        (ANYTHING, None, None),
        (Parsed(int), " 7 ", 7),
    ],
)
def test_value_is_read_in_each_of_its_spellings(kind: Kind, value: object, stored: object) -> None:
    found = kind.read("x", value)
    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (COUNT, "many", "x must be a whole number from 0, not 'many'"),
        (COUNT, -1, "x must be a whole number from 0, not -1"),
        (COUNT, 2.5, "x must be a whole number from 0, not 2.5"),
        (COUNT, True, "x must be a whole number from 0, not true"),
        (COUNT, None, "x must be a whole number from 0, not null"),
        (COUNT, "5KiB", "x must be a whole number from 0, not '5KiB'"),
        (COUNT, math.nan, "x must be a whole number from 0, not NaN"),
        (COUNT, "inf", "x must be a whole number from 0 to 4611686018427387903, not 'inf'"),
        (COUNT, 10**30, f"x must be a whole number from 0 to 4611686018427387903, not 1{30 * '0'}"),
        (Number(least=1, most=255), 256, "x must be a whole number from 1 to 255, not 256"),
        (Number("bytes", 1, special={-1: -1, 0: 0}), -2, "x must be bytes from 1 (such as 64MiB), or -1 or 0, not -2"),
        (Number("bytes", 256, 4096), "5s", "x must be bytes from 256 to 4096 (such as 1KiB), not '5s'"),
        (SECONDS, "5 MB", "x must be seconds from 0 (such as 30s), not '5 MB'"),
        (MILLISECONDS, 10**400,
         "x must be milliseconds from 0 to 9007199254740992 (such as 30min), not a number of more than 256 bits"),
        (Number("s", 0.001, 60, whole=False, bare="ms"), 0,
         "x must be milliseconds from 1 to 60000 (such as 30s), not 0"),
        (SPARK, "500", "x must be a time with a unit, from 0 to 10 s (such as 500ms), not '500'; write 500ms"),
        (SPARK, "50000", "x must be a time with a unit, from 0 to 10 s (such as 500ms), not '50000'"),
        (RATE, 0, "x must be a number above 0, or -1 or none, not 0; 0 stops all producers"),
        (RATE, -5, "x must be a number above 0, or -1 or none, not -5"),
        (BYTES, "9000000TB", "x must be bytes from 0 to 4611686018427387903 (such as 64MiB), not '9000000TB'"),
        (FLAG, "maybe", "x must be true or false, not 'maybe'"),
        (FLAG, 7, "x must be true or false, not 7"),
        (WORD, "drop-tail", "x must be block, reject or drop-head, not 'drop-tail'; did you mean drop-head?"),
        (SYNONYMS, 7, "x must be a policy: block or drop-head, not 7"),
        (TEXT, 7, "x must be a string, not 7"),
        (TEXT, "\ud800", "x must be a string without halves of characters (lone surrogates), not '\\ud800'"),
        (Text(1), "", "x must be a string that is not empty, not ''"),
        (Text(secret=True), {"password": "hush"}, "x must be a string, not a table"),
        (NAME, "ü" * 128, f"x must be a string of 0 to 255 bytes, not '{76 * 'ü'}..."),
        (MECHANISMS, [], "x must be a string or a list of at least one string among PLAIN, EXTERNAL, not []"),
        (MECHANISMS, "PLIAN", "x must be a string or a list of at least one string among PLAIN, EXTERNAL, not 'PLIAN'; "
         "did you mean PLAIN?"),
        (NAMES, ["a", 7], "x must be a list of at least one string, not ['a', 7]"),
        (NAMES, ["a", "a"], "x must be a list of different strings, not ['a', 'a']"),
        (NAMES, ["\ud800"], "x must be a list of at least one string, not ['\\ud800']"),
        (OBJECT, "a", "x must be an object, not 'a'"),
        (Parsed(int), "a", "x = 'a' invalid literal for int() with base 10: 'a'"),
    ],
)  # fmt: skip
def test_value_is_refused_with_its_name_the_rule_and_the_value(kind: Kind, value: object, sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        kind.read("x", value)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(("kind", "value"), [(FLAG, "true"), (FLAG, 1), (COUNT, "5"), (SECONDS, "5")])
def test_typed_source_writes_flags_and_numbers_with_their_types(kind: Kind, value: object) -> None:
    with pytest.raises(InvalidValue, match="x must be "):
        kind.read_typed("x", value)
    assert SECONDS.read_typed("x", "5s") == 5.0
    assert (FLAG.read_typed("x", True), COUNT.read_typed("x", 5)) == (True, 5)


@pytest.mark.parametrize(
    ("kind", "stored", "shown"),
    [(RATE, -1.0, None), (RATE, 5.0, 5), (RATE, 0.5, 0.5), (COUNT, 5, 5), (FLAG, True, True), (TEXT, "a", "a")],
)
def test_stored_value_is_shown_in_its_written_form(kind: Kind, stored: object, shown: object) -> None:
    assert kind.shown(stored) == shown


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (True, "a boolean"),
        ("hush", "this string"),
        (["hush"], "a list"),
        ({}, "a table"),
        (None, "null"),
        (7, "a number"),
    ],
)
def test_type_of_a_secret_value_hides_the_value(value: object, word: str) -> None:
    assert type_word(value) == word


VALUES = NamedValues(
    "option", (Named("window", COUNT, 5, ("size",)), Named("name", TEXT)), str.lower, label="option {}"
)


def test_named_values_are_read_by_all_of_their_names_with_defaults() -> None:
    assert VALUES.read("the sink", {"NAME": "a"}) == {"name": "a", "window": 5}
    assert VALUES.read("the sink", {"name": "a", "Size": "7", "window": 7}) == {"name": "a", "window": 7}
    assert Named("x", TEXT).default is REQUIRED


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "the sink needs the option name"),
        ({"name": "a", "windw": 1}, "the sink has no option 'windw'; did you mean window?"),
        ({"name": "a", "zzz\n": 1}, "the sink has no option 'zzz\\n'; known are window, name"),
        ({"name": "a", "window": "x"}, "option window must be a whole number from 0, not 'x'"),
        ({"name": "a", "window": 1, "size": 2}, "size=2 contradicts window=1; both set window"),
    ],
)
def test_named_values_are_refused_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        VALUES.read("the sink", given)
    assert str(refused.value) == sentence


def test_named_values_of_a_typed_source_have_its_types() -> None:
    with pytest.raises(InvalidValue, match="option window must be a whole number from 0, not '7'"):
        VALUES.read("the sink", {"name": "a", "window": "7"}, typed=True)


def test_unknown_name_lists_a_bounded_number_of_known_names() -> None:
    sentence = unknown_name("x", "field", "?", [f"n{number}" for number in range(100)])
    assert sentence.endswith("n58, n59, ...")
    assert unknown_name("x", "field", "?", []) == "x has no field '?'; known are none"
