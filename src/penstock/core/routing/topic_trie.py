"""Topic trie: patterns of words in a tree, where `*` is one word and `#` any number of words, including none.

Theory of operation. The patterns form a tree of words. A key descends all matching branches, word by word. So the work
depends on the patterns that match a prefix of the key, not on all patterns.

Below a `#` the search continues from every remaining word. The search may reach the same `#` again, on another path or
from another word. `since` is the first word from which this search has continued there; only earlier words need a
visit. So each node is visited at most once for each word, and a pattern with many `#` is not expensive.

The visits of a search are counted and limited; at the limit the search ends with partial results.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64

ONE: Final = "*"
ANY: Final = "#"
UNBOUNDED_WALK: Final = 1 << 62

Item = TypeVar("Item")


class Node(Generic[Item]):
    """A node: the common prefix of some patterns."""

    __slots__ = ("branches", "one", "any", "items", "walk", "since")

    def __init__(self) -> None:
        self.branches: dict[str, Node[Item]] | None = None
        """Children by word; None if there are none."""
        self.one: Node[Item] | None = None
        """Child for `*`."""
        self.any: Node[Item] | None = None
        """Child for `#`."""
        self.items: dict[Item, None] | None = None
        """Items of the patterns that end here; None if there never were any."""
        self.walk: i64 = 0
        """For a node below a `#`: the last search that visited it."""
        self.since: i64 = 0
        """First word from which that search visited it."""

    def child(self, word: str) -> Node[Item] | None:
        """Return the child for a word of a pattern."""
        if word == ONE:
            return self.one
        if word == ANY:
            return self.any
        return None if self.branches is None else self.branches.get(word)

    def grow(self, word: str) -> Node[Item]:
        """Return the child for a word; creates a missing child."""
        node = self.child(word)
        if node is None:
            node = Node[Item]()
            if word == ONE:
                self.one = node
            elif word == ANY:
                self.any = node
            elif self.branches is None:
                self.branches = {word: node}
            else:
                self.branches[word] = node
        return node

    def prune(self, word: str) -> None:
        """Remove a child."""
        if word == ONE:
            self.one = None
        elif word == ANY:
            self.any = None
        elif self.branches is not None:
            del self.branches[word]
            if not self.branches:
                self.branches = None

    def idle(self) -> bool:
        """Return whether neither this node nor its children have items."""
        return not self.items and self.leads_nowhere()

    def leads_nowhere(self) -> bool:
        """Return whether the node has no children."""
        return self.branches is None and self.one is None and self.any is None


class TopicTrie(Generic[Item]):
    """Items by topic pattern; several items may have the same pattern."""

    def __init__(self) -> None:
        self.root: Node[Item] = Node()
        self._walks: i64 = 0

    def add(self, pattern: list[str], item: Item) -> None:
        """Add an item; no effect if it is present."""
        node = self.root
        for word in pattern:
            node = node.grow(word)
        if node.items is None:
            node.items = {}
        node.items[item] = None

    def discard(self, pattern: list[str], item: Item) -> None:
        """Remove an item, and the branches left without items."""
        path: list[Node[Item]] = [self.root]
        for word in pattern:
            child = path[len(path) - 1].child(word)
            if child is None:
                return
            path.append(child)
        items = path[len(path) - 1].items
        if items is not None:
            items.pop(item, None)
        for index in range(len(pattern), 0, -1):
            if not path[index].idle():
                return
            path[index - 1].prune(pattern[index - 1])

    def match(self, words: list[str], items: list[Item], most: i64 = UNBOUNDED_WALK) -> i64:
        """Append to `items` the items whose pattern matches, once for each such pattern.

        Returns the number of nodes and items visited; above `most` the search has stopped.
        """
        self._walks += 1
        walk: Walk[Item] = Walk(self._walks, words, items, most)
        _match_node(self.root, 0, walk)
        return most - walk.left


class Walk(Generic[Item]):
    """A search with one key."""

    __slots__ = ("number", "words", "found", "left")

    def __init__(self, number: i64, words: list[str], items: list[Item], most: i64) -> None:
        self.number: i64 = number
        self.words = words
        self.found = items
        self.left: i64 = most
        """Visits left; below 0 the search stops."""

    def take(self, items: dict[Item, None]) -> None:
        """Append items to the result."""
        self.left -= len(items)
        if self.left >= 0:
            for item in items:
                self.found.append(item)


def _match_node(node: Node[Item], at: i64, walk: Walk[Item]) -> None:
    """Visit a node, with the words from `at` on remaining."""
    if at == len(walk.words) and node.items is not None:
        walk.take(node.items)
    _match_children(node, at, walk)


def _match_children(node: Node[Item], at: i64, walk: Walk[Item]) -> None:
    """Visit the children of a node."""
    walk.left -= 1
    if walk.left < 0:
        return
    following = node.any
    if following is not None:
        _match_hash(following, at, walk)
    words = walk.words
    if at == len(words):
        return
    branches = node.branches
    if branches is not None:
        following = branches.get(words[at])
        if following is not None:
            _match_node(following, at + 1, walk)
    following = node.one
    if following is not None:
        _match_node(following, at + 1, walk)


def _match_hash(node: Node[Item], at: i64, walk: Walk[Item]) -> None:
    """Visit a node below a `#`, which may consume any number of the words from `at` on."""
    until: i64 = len(walk.words) + 1
    if node.walk != walk.number:
        node.walk = walk.number
        if node.items is not None:  # The `#` consumes all remaining words.
            walk.take(node.items)
    elif at >= node.since:
        return
    else:
        until = node.since
    node.since = at
    if node.leads_nowhere():
        return
    while at < until and walk.left >= 0:
        _match_children(node, at, walk)
        at += 1


def split_words(key: str) -> list[str]:
    """Return the words of a routing or binding key; an empty key has none, as in RabbitMQ."""
    return key.split(".") if key else []


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Return whether a topic pattern matches, in time at most proportional to the product of the lengths.

    Greedy wildcard matching: on a mismatch, go back to the last `#` and let it consume one more word.
    """
    at, word, last_hash, taken = 0, 0, -1, 0
    while word < len(words):
        if at < len(pattern) and pattern[at] == ANY:
            last_hash, taken = at, word
            at += 1
        elif at < len(pattern) and (pattern[at] == ONE or pattern[at] == words[word]):
            at += 1
            word += 1
        elif last_hash >= 0:
            taken += 1
            at, word = last_hash + 1, taken
        else:
            return False
    return all(left == ANY for left in pattern[at:])
