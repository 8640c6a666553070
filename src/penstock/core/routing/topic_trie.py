"""Topics: patterns of words in a tree, where `*` is one word and `#` any number of words, none included.

Theory of operation. The patterns are a tree of words. A key walks down all branches that fit, word by word; so the work
depends on the patterns that fit a beginning of the key, not on those that there are.

Behind a `#` the walk goes on from every word that is left. It may come to the same `#` again, by another way or from
another word; `since` says from where on it has been behind it in this walk, and only what is before that is new. So
each node is looked at once for each word at most, and no pattern of many `#` is a trap.

A walk has a bound: what it visits is counted, and at the bound it ends without having found everything.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64

ONE: Final = "*"
ANY: Final = "#"
UNBOUNDED_WALK: Final = 1 << 62

Item = TypeVar("Item")


class Node(Generic[Item]):
    """What a beginning of patterns leads to."""

    __slots__ = ("branches", "one", "any", "items", "walk", "since")

    def __init__(self) -> None:
        self.branches: dict[str, Node[Item]] | None = None
        """What single words lead to from here; None where no pattern has one."""
        self.one: Node[Item] | None = None
        """What `*` leads to."""
        self.any: Node[Item] | None = None
        """What `#` leads to."""
        self.items: dict[Item, None] | None = None
        """What the patterns that end here stand for; None where none ever did."""
        self.walk: i64 = 0
        """Of a node behind a `#`: the last walk that came here."""
        self.since: i64 = 0
        """And the first word from which on it looked behind it."""

    def child(self, word: str) -> Node[Item] | None:
        """Return what a word of a pattern leads to."""
        if word == ONE:
            return self.one
        if word == ANY:
            return self.any
        return None if self.branches is None else self.branches.get(word)

    def grow(self, word: str) -> Node[Item]:
        """Return the same, made where there is none."""
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
        """Cut a child off."""
        if word == ONE:
            self.one = None
        elif word == ANY:
            self.any = None
        elif self.branches is not None:
            del self.branches[word]
            if not self.branches:
                self.branches = None

    def idle(self) -> bool:
        """Return whether nothing ends here or behind it."""
        return not self.items and self.leads_nowhere()

    def leads_nowhere(self) -> bool:
        """Return whether no pattern goes on behind it."""
        return self.branches is None and self.one is None and self.any is None


class TopicTrie(Generic[Item]):
    """Things by the patterns that they stand behind; several may have the same pattern."""

    def __init__(self) -> None:
        self.root: Node[Item] = Node()
        self._walks: i64 = 0

    def add(self, pattern: list[str], thing: Item) -> None:
        """Add a thing; doing so twice is once."""
        node = self.root
        for word in pattern:
            node = node.grow(word)
        if node.items is None:
            node.items = {}
        node.items[thing] = None

    def discard(self, pattern: list[str], thing: Item) -> None:
        """Remove a thing, and the branches that lead nowhere without it."""
        path: list[Node[Item]] = [self.root]
        for word in pattern:
            child = path[len(path) - 1].child(word)
            if child is None:
                return
            path.append(child)
        things = path[len(path) - 1].items
        if things is not None:
            things.pop(thing, None)
        for index in range(len(pattern), 0, -1):
            if not path[index].idle():
                return
            path[index - 1].prune(pattern[index - 1])

    def match(self, words: list[str], found: list[Item], most: i64 = UNBOUNDED_WALK) -> i64:
        """Add to `found` the things whose pattern matches, once for each such pattern.

        Returns how many nodes and things were visited; when that is more than `most` the walk has been given up.
        """
        self._walks += 1
        walk: Walk[Item] = Walk(self._walks, words, found, most)
        _match_node(self.root, 0, walk)
        return most - walk.left


class Walk(Generic[Item]):
    """A key on its way down the branches."""

    __slots__ = ("number", "words", "found", "left")

    def __init__(self, number: i64, words: list[str], found: list[Item], most: i64) -> None:
        self.number: i64 = number
        self.words = words
        self.found = found
        self.left: i64 = most
        """What it may still visit; below 0 it is given up."""

    def take(self, things: dict[Item, None]) -> None:
        """Add things to what was found."""
        self.left -= len(things)
        if self.left >= 0:
            for thing in things:
                self.found.append(thing)


def _match_node(node: Node[Item], at: i64, walk: Walk[Item]) -> None:
    """Look at a node, with the words from `at` on still to come."""
    if at == len(walk.words) and node.items is not None:
        walk.take(node.items)
    _match_children(node, at, walk)


def _match_children(node: Node[Item], at: i64, walk: Walk[Item]) -> None:
    """Look at what is behind a node."""
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
    """Look at a node behind a `#`, which may take any number of the words from `at` on."""
    until: i64 = len(walk.words) + 1
    if node.walk != walk.number:
        node.walk = walk.number
        if node.items is not None:  # The `#` takes all that is left.
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
    """Return the words of a routing or binding key; an empty one has none, as in RabbitMQ."""
    return key.split(".") if key else []


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Return whether a topic pattern matches, in time proportional to the product of the lengths at most.

    The greedy matching of wildcards: on a mismatch go back to the last `#` and let it take one word more.
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
