"""Patterns of names: `*` is one word, `#` any number of words, dots separate words (Artemis' address settings).

Most specific first: an exact name, then patterns with `*`, the one with the earlier concrete word first, then patterns
with `#`, the longer first (HierarchicalObjectRepository.java in Artemis; ties are broken here).
"""

from __future__ import annotations

from penstock.core.routing.topic_trie import ANY, ONE, TopicTrie


class Patterns:
    """A set of patterns."""

    def __init__(self, with_keys: bool = False) -> None:
        self._with_keys = with_keys
        """True for patterns EXCHANGE/KEY-PATTERN, whose first slash is a word."""
        self._topics: TopicTrie[str] = TopicTrie()

    def add(self, pattern: str) -> None:
        """Add a pattern; does nothing if it is present."""
        self._topics.add(self._words(pattern), pattern)

    def discard(self, pattern: str) -> None:
        """Remove a pattern."""
        self._topics.discard(self._words(pattern), pattern)

    def matching(self, name: str) -> list[str]:
        """Return the patterns that match, the most specific first."""
        found: list[str] = []
        self._topics.match(self._words(name), found)
        found.sort(key=self._specificity)
        return found

    def _words(self, name: str) -> list[str]:
        return name.replace("/", "./.", 1).split(".") if self._with_keys else name.split(".")

    def _specificity(self, pattern: str) -> str:
        return specificity(pattern.replace("/", "./.", 1) if self._with_keys else pattern)


def specificity(pattern: str) -> str:
    """Return the sort key of a pattern among those that match one name: the most specific one is the smallest."""
    words = pattern.split(".")
    places = "".join("2" if word == ANY else "1" if word == ONE else "0" for word in words)
    if ANY in words:
        return f"2{9999 - len(pattern)}{places}{pattern}"
    return f"{'1' if ONE in words else '0'}{places}"
