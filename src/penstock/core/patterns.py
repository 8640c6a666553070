"""Patterns of names: `*` is one word, `#` any number of words, words are parted by dots (Artemis' address settings).

Theory of operation. The patterns of a scope are a tree of words. A name walks down all branches that fit at once, word
by word, with the set of nodes where it may be; so the work depends on the patterns that fit, not on those there are.

The most specific pattern first: an exact name, then patterns with `*`, of which the one with the earlier concrete word,
then patterns with `#`, of which the longer (HierarchicalObjectRepository.java in Artemis; its ties are ours to break).
"""

from __future__ import annotations

from typing import Final

ONE: Final = "*"
ANY: Final = "#"


class Node:
    """What a beginning of patterns leads to."""

    __slots__ = ("branches", "pattern", "any")

    def __init__(self, any: bool) -> None:
        self.branches: dict[str, Node] = {}
        self.pattern: str | None = None
        """The pattern that ends here."""
        self.any = any
        """Whether the last word was `#`: it may take one word more and stay here."""

    def enter(self, nodes: dict[int, Node]) -> None:
        """Be here, and behind a `#` that takes no word at all."""
        nodes[id(self)] = self
        behind = self.branches.get(ANY)
        if behind is not None and id(behind) not in nodes:
            behind.enter(nodes)


class Patterns:
    """A set of patterns."""

    def __init__(self) -> None:
        self._root = Node(False)

    def add(self, pattern: str) -> None:
        """Add a pattern; doing so twice is once."""
        node = self._root
        for word in pattern.split("."):
            branch = node.branches.get(word)
            if branch is None:
                branch = Node(word == ANY)
                node.branches[word] = branch
            node = branch
        node.pattern = pattern

    def discard(self, pattern: str) -> None:
        """Remove a pattern, and the branches that lead nowhere without it."""
        path: list[Node] = [self._root]
        words = pattern.split(".")
        for word in words:
            branch = path[len(path) - 1].branches.get(word)
            if branch is None:
                return
            path.append(branch)
        path[len(path) - 1].pattern = None
        for index in range(len(words), 0, -1):
            if path[index].pattern is not None or path[index].branches:
                return
            del path[index - 1].branches[words[index - 1]]

    def matching(self, name: str) -> list[str]:
        """Return the patterns that match, the most specific first."""
        nodes: dict[int, Node] = {}
        self._root.enter(nodes)
        for word in name.split("."):
            following: dict[int, Node] = {}
            for node in nodes.values():
                if node.any:
                    node.enter(following)
                for branch in (word, ONE):
                    found = node.branches.get(branch)
                    if found is not None:
                        found.enter(following)
            nodes = following
        found_patterns = [node.pattern for node in nodes.values() if node.pattern is not None]
        found_patterns.sort(key=specificity)
        return found_patterns


def specificity(pattern: str) -> str:
    """Return what patterns that match one name are sorted by: the most specific one has the least."""
    words = pattern.split(".")
    places = "".join("2" if word == ANY else "1" if word == ONE else "0" for word in words)
    if ANY in words:
        return f"2{9999 - len(pattern)}{places}{pattern}"
    return f"{'1' if ONE in words else '0'}{places}"
