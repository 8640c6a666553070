"""Keys of things: different names never give the same one, and any store can have it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.persistence.metadata_records import CUT, OCTETS_MAX, key_of

names = st.text(st.sampled_from("/%2F#a\x00\n\x7fü\ud800"), max_size=6) | st.text(max_size=20)
parts = st.lists(names, min_size=3, max_size=3)


@given(parts, parts)
def test_different_names_have_different_keys(some: list[str], others: list[str]) -> None:
    assert (key_of(*some) == key_of(*others)) == (some == others)


@given(parts, st.integers(1, 400))
def test_key_is_text_without_control_characters_and_fits_an_index(some: list[str], times: int) -> None:
    key = key_of(*[name * times for name in some])
    assert key.encode().decode() == key
    assert all(character >= " " and character != "\x7f" for character in key)
    assert len(key.encode()) <= OCTETS_MAX


def test_long_names_are_told_apart_and_are_nobody_elses() -> None:
    long = "/" * 300 + "a" * 500
    assert key_of(long, "b") != key_of(long, "c")
    assert key_of(long, "b") == key_of(long, "b")
    assert key_of(key_of(long, "b")) != key_of(long, "b")
    assert len(key_of(long)) < CUT + 40


def test_ordinary_names_stay_as_they_are() -> None:
    assert key_of("prod", "orders.größe 1", "x") == "prod/orders.größe 1/x"
    assert key_of("/", "50%") == "%2F/50%25"
