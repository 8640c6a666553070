"""Topics in a tree, against a plain matcher that follows the standard by recursion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.routing.topic_trie import TopicTrie, split_words, topic_matches
from tests.profiles import examples
from tests.support.topology import topic_rule

WORDS = st.sampled_from(["a", "b", "*", "#", ""])
PATTERNS = st.lists(WORDS, max_size=6).map(tuple)
KEYS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=6)


def found(topics: TopicTrie[str], words: list[str]) -> list[str]:
    things: list[str] = []
    topics.match(words, things)
    return sorted(things)


@settings(max_examples=examples(2000), derandomize=True, database=None)
@given(st.lists(WORDS, max_size=7), st.lists(st.sampled_from(["a", "b", ""]), max_size=7))
def test_topics_match_by_the_standard(pattern: list[str], words: list[str]) -> None:
    assert topic_matches(pattern, words) == topic_rule(pattern, words)


@settings(max_examples=examples(1500), derandomize=True, database=None)
@given(
    st.lists(st.tuples(st.booleans(), PATTERNS, st.sampled_from("xyz")), max_size=25),
    st.lists(KEYS, min_size=1, max_size=4),
)
def test_topic_trie_finds_matches_of_the_patterns(
    changes: list[tuple[bool, tuple[str, ...], str]], keys: list[list[str]]
) -> None:
    topics: TopicTrie[str] = TopicTrie()
    there: set[tuple[tuple[str, ...], str]] = set()
    for comes, pattern, thing in changes:
        if comes:
            topics.add(list(pattern), thing)
            there.add((pattern, thing))
        else:
            topics.discard(list(pattern), thing)
            there.discard((pattern, thing))
        for words in keys:
            wanted = sorted(thing for pattern, thing in there if topic_rule(list(pattern), words))
            assert found(topics, words) == wanted
    for pattern, thing in there:
        topics.discard(list(pattern), thing)
    assert topics.root.idle(), "nothing is left of what was removed"


@pytest.mark.parametrize("end", ["a", "b"])
def test_topic_pattern_of_many_hashes_is_matched_in_bounded_time(end: str) -> None:
    pattern = ["#", "a"] * 50
    words = ["a"] * 1000 + [end]
    topics: TopicTrie[str] = TopicTrie()
    topics.add(pattern, "x")
    assert topic_matches(pattern, words) == (end == "a")
    assert found(topics, words) == (["x"] if end == "a" else [])


def test_empty_routing_key_has_no_word() -> None:
    assert split_words("") == []
    assert split_words(".") == ["", ""]
    topics: TopicTrie[str] = TopicTrie()
    for pattern in ("", "#", "*", "#.*", "#.#"):
        topics.add(split_words(pattern), pattern)
    assert found(topics, split_words("")) == ["", "#", "#.#"]
    assert found(topics, split_words("a")) == ["#", "#.#", "#.*", "*"]
