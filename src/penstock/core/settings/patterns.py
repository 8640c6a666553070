"""Patterns of names: `*` is one word, `#` any number of words, dots separate words (Artemis' address settings).

Most specific first: an exact name, then patterns with `*`, the one with the earlier concrete word first, then patterns
with `#`, the longer first (HierarchicalObjectRepository.java in Artemis; ties are broken here).
"""

from __future__ import annotations

from penstock.core.routing.topic_trie import ANY, ONE, TopicTrie


class Patterns:
    """A set of patterns."""

    def __init__(self) -> None:
        self._topics: TopicTrie[str] = TopicTrie()

    def add(self, pattern: str) -> None:
        """Add a pattern; does nothing if it is present."""
        self._topics.add(pattern.split("."), pattern)

    def discard(self, pattern: str) -> None:
        """Remove a pattern."""
        self._topics.discard(pattern.split("."), pattern)

    def matching(self, name: str) -> list[str]:
        """Return the patterns that match, the most specific first."""
        found: list[str] = []
        self._topics.match(name.split("."), found)
        found.sort(key=specificity)
        return found


def specificity(pattern: str) -> str:
    """Return the sort key of a pattern among those that match one name: the most specific one is the smallest."""
    words = pattern.split(".")
    places = "".join("2" if word == ANY else "1" if word == ONE else "0" for word in words)
    if ANY in words:
        return f"2{9999 - len(pattern)}{places}{pattern}"
    return f"{'1' if ONE in words else '0'}{places}"
