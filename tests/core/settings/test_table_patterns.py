"""Patterns of names: matches, and the more specific of two patterns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.routing.topic_trie import topic_matches
from penstock.core.settings.table import Patterns
from tests.profiles import examples

WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=5).map(".".join)
NAMES = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=5).map(".".join)


def matching(name: str, *patterns: str) -> list[str]:
    found = Patterns()
    for pattern in patterns:
        found.add(pattern)
    return found.matching(name)


@pytest.mark.parametrize(
    ("patterns", "first"),
    [
        (["#", "*", "orders"], "orders"),
        (["#", "*"], "*"),
        (["orders.#", "#"], "orders.#"),
        (["orders.*", "orders.#"], "orders.*"),
        (["*.eu", "orders.*"], "orders.*"),  # The earlier concrete word.
        (["orders.eu.#", "orders.#"], "orders.eu.#"),  # The longer one.
        (["*.*", "orders.#"], "*.*"),  # Any `*` before any `#`.
        (["orders.#", "#.eu"], "orders.#"),
        (["#.eu", "*.#"], "#.eu"),  # As Artemis has it: the longer.
    ],
)
def test_most_specific_pattern_comes_first(patterns: list[str], first: str) -> None:
    name = "orders" if first in ("orders", "*") else "orders.eu"
    assert matching(name, *patterns)[0] == first
    assert matching(name, *reversed(patterns))[0] == first


@settings(max_examples=examples(500), derandomize=True, database=None)
@given(st.lists(WORDS, max_size=12, unique=True), st.lists(WORDS, max_size=4), NAMES)
def test_tree_of_patterns_matches_like_the_single_patterns(patterns: list[str], gone: list[str], name: str) -> None:
    tree = Patterns()
    for pattern in [*patterns, *gone]:
        tree.add(pattern)
    for pattern in gone:
        tree.discard(pattern)
        tree.discard(pattern)
    wanted = [each for each in patterns if each not in gone]
    found = tree.matching(name)
    assert sorted(found) == sorted(each for each in wanted if topic_matches(each.split("."), name.split(".")))
    assert len(found) == len(set(found))


def test_patterns_that_were_removed_leave_no_branches() -> None:
    tree = Patterns()
    for number in range(100):
        tree.add(f"a.{number}.#")
    for number in range(100):
        tree.discard(f"a.{number}.#")
    assert tree._topics.root.idle()


def test_long_name_against_many_wildcards_is_no_work_to_speak_of() -> None:
    tree = Patterns()
    for number in range(60):
        tree.add(".".join(["#", "a"] * number) + ".#" if number else "#")
    assert len(matching("a", "#.a.#", "#")) == 2
    assert len(tree.matching(".".join(["a"] * 128))) == 60
