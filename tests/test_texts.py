"""Amounts with units, near matches of names, and safe display of client-chosen names."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.texts import (
    BYTES,
    TIMES,
    WORDED_ITEMS,
    WORDED_LETTERS,
    amount,
    counted,
    nearest,
    printable,
    printable_json,
    rounded_bytes,
    shown_age,
    shown_bytes,
    shown_capacity,
    shown_percent,
    shown_time,
    worded,
)
from penstock.wire.amqp10.values import UINT, Array, Described, Symbol, Typed


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("4MB", 4_000_000), ("4 mb", 4_000_000), ("4MiB", 4 << 20), (" 4  Mib ", 4 << 20), ("4m", 4 << 20)),
        *(("1.5 GiB", 3 << 29), ("12 bytes", 12), ("12b", 12), ("0 TB", 0)),
    ],
)
def test_bytes_have_units(text: str, number: int) -> None:
    assert amount(text, BYTES) == number


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        *(("5s", 5000), ("30 min", 1_800_000), ("30m", 1_800_000), ("250ms", 250), ("2 Hours", 7_200_000)),
        *(("1.5 S", 1500), ("1d", 86_400_000), ("0.25 ms", 0.25)),
    ],
)
def test_times_have_units(text: str, milliseconds: float) -> None:
    assert amount(text, TIMES) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 parsecs", "-5s", "5 s 3", "1e3s", "5s5", "5.s", "9" * 30 + "s"])
def test_text_of_another_form_is_no_amount(text: str) -> None:
    assert amount(text, TIMES) is None


@given(st.integers(0, 1 << 62))
def test_shown_bytes_and_times_are_read_as_they_were(number: int) -> None:
    assert amount(shown_bytes(number), BYTES) == number
    assert amount(shown_time(number % 10**9), TIMES) == number % 10**9


def test_largest_unit_that_divides_is_shown() -> None:
    assert [shown_bytes(each) for each in (0, 1023, 1024, 3_200_000, 100 << 20, 3 << 29)] == [
        *("0 bytes", "1023 bytes", "1 KiB", "3.2 MB", "100 MiB", "1.5 GiB"),
    ]
    assert [shown_time(each) for each in (0, 100, 5000, 90_000, 1_800_000, 86_400_000)] == [
        *("0 ms", "100 ms", "5 s", "90 s", "30 min", "1 d"),
    ]


@pytest.mark.parametrize(
    ("name", "near"), [("ordres", "orders"), ("order", "orders"), ("orders.us", "orders.eu"), ("zzz", ""), ("", "")]
)
def test_nearest_name_is_found(name: str, near: str) -> None:
    assert nearest(name, ("orders", "bills", "orders.eu")) == near


def test_less_similar_names_are_left_out() -> None:
    assert nearest("ordres", iter(["orders"]), cutoff=0.9) == ""


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
def test_escapes_replace_characters_that_could_forge_a_line(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_escapes_in_json_leave_its_value_and_its_line_feeds() -> None:
    value = {"name": "a\x7f\x9b\u202e", "n": 1}
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = printable_json(text)
    assert json.loads(escaped) == value
    assert escaped.count("\n") == text.count("\n")
    assert all(line.isprintable() for line in escaped.split("\n"))


def test_counts_capacities_and_percentages_are_for_people() -> None:
    assert (counted(1, "message"), counted(1200, "message")) == ("1 message", "1,200 messages")
    assert shown_capacity({"messages": 1000, "bytes": 2048}) == "1,000 messages and 2 KiB"
    assert shown_capacity({"messages": None, "bytes": None}) == "no limit"
    assert (shown_percent(None), shown_percent(12.5)) == ("-", "12.5 %")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((None, "-"), (0.05, "0.1 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (7_300, "2 h 1 min")),
        *((47 * 3600, "47 h 0 min"), (53 * 3600, "2 d 5 h")),
    ],
)
def test_age_has_the_two_largest_units(seconds: float | None, shown: str) -> None:
    assert shown_age(seconds) == shown


@pytest.mark.parametrize(
    ("octets", "shown"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")]
)
def test_rounded_bytes_have_a_unit(octets: int, shown: str) -> None:
    assert rounded_bytes(octets) == shown


WORDS: dict[str, object] = {
    "null": None,
    "true": True,
    "false": False,
    "5": 5,
    "a number of more than 256 bits": -1 << 300,
    "1.5": 1.5,
    "NaN": math.nan,
    "-Infinity": -math.inf,
    "'it's'": "it's",
    "'drop-head'": b"drop-head",
    "binary 0x00ff": b"\x00\xff",
    "binary 0x0a": b"\n",
    "'a\\nb\\u202e'": "a\nb\u202e",
    "decimal 1.50": Decimal("1.50"),
    "timestamp 1970-01-01T00:02:00Z": datetime(1970, 1, 1, 0, 2, tzinfo=UTC),
    "timestamp 1970-01-01T00:03:00Z": datetime(1970, 1, 1, 0, 3),  # noqa: DTZ001 A timestamp without a zone is UTC.
    "[1, 'a', null, decimal 1]": [1, "a", None, Decimal(1)],
    "{a: true, b: {c: 'd'}}": {"a": True, "b": {"c": "d"}},
    "uint 5": Typed(UINT, 5),
    "'symbol'": Symbol("symbol").text,
    "uuid 0x00010203": Typed("uuid", bytes(range(4))),
    "char 'x'": Typed("char", "x"),
    "5 described by 'penstock:five'": Described(Symbol("penstock:five").text, 5),
    "array of int [1, 2]": Array("int", [1, 2]),
}


@pytest.mark.parametrize("words", WORDS)
def test_value_in_a_sentence_has_the_words_of_amqp(words: str) -> None:
    assert worded(WORDS[words]) == words


def test_text_in_a_sentence_is_quoted_only_on_request() -> None:
    assert worded("a", False) == worded(b"a", False) == "a"
    assert worded(["a"], False) == "['a']"
    assert worded(Symbol("red")) == "red"


def test_value_in_a_sentence_is_cut_at_its_bound() -> None:
    for value in ("x" * 1_000, b"\xff" * 1_000, [["y" * 50] * 100] * 100, {f"k{n}": "z" for n in range(1_000)}):
        text = worded(value)
        assert len(text) == WORDED_LETTERS
        assert text.endswith("...")
    assert worded([*range(WORDED_ITEMS + 1)]) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"
