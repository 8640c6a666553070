"""Topics: patterns of words in a tree, where `*` is one word and `#` any number of words, none included.

Theory of operation. The patterns are a tree of words. A key walks down all branches that fit at once, word by word,
with the list of nodes where it may be; so the work depends on the patterns that fit a beginning of the key, not on those
that there are, and no pattern of many `#` is a trap: in each step a node is on the list once.

A node has one parent, so only a node behind a `#` can be reached twice in a step (it stays where it is with every word,
and is reached anew from before it); that is what `step` is for.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64

ONE: Final = "*"
ANY: Final = "#"

Thing = TypeVar("Thing")


class Node(Generic[Thing]):
    """What a beginning of patterns leads to."""

    __slots__ = ("branches", "one", "any", "things", "loops", "step")

    def __init__(self, loops: bool) -> None:
        self.branches: dict[str, Node[Thing]] = {}
        self.one: Node[Thing] | None = None
        """What `*` leads to from here."""
        self.any: Node[Thing] | None = None
        """What `#` leads to."""
        self.things: dict[Thing, None] | None = None
        """What the patterns that end here stand for; None where none does."""
        self.loops = loops
        """Whether the last word was `#`: one word more, and it is still here."""
        self.step: i64 = 0
        """The step of a walk that came here last, for nodes behind a `#`."""

    def child(self, word: str) -> Node[Thing] | None:
        """Return what a word of a pattern leads to."""
        if word == ONE:
            return self.one
        return self.any if word == ANY else self.branches.get(word)

    def grow(self, word: str) -> Node[Thing]:
        """Return the same, made where there is none."""
        node = self.child(word)
        if node is None:
            node = Node[Thing](word == ANY)
            if word == ONE:
                self.one = node
            elif word == ANY:
                self.any = node
            else:
                self.branches[word] = node
        return node

    def prune(self, word: str) -> None:
        """Cut a child off."""
        if word == ONE:
            self.one = None
        elif word == ANY:
            self.any = None
        else:
            del self.branches[word]

    def idle(self) -> bool:
        """Tell whether nothing ends here or behind it."""
        return not self.things and not self.branches and self.one is None and self.any is None


class Topics(Generic[Thing]):
    """Things by the patterns that they stand behind; several may have the same pattern."""

    def __init__(self) -> None:
        self.root: Node[Thing] = Node(False)
        self._step: i64 = 0

    def add(self, pattern: list[str], thing: Thing) -> None:
        """Add a thing; doing so twice is once."""
        node = self.root
        for word in pattern:
            node = node.grow(word)
        if node.things is None:
            node.things = {}
        node.things[thing] = None

    def discard(self, pattern: list[str], thing: Thing) -> None:
        """Remove a thing, and the branches that lead nowhere without it."""
        path: list[Node[Thing]] = [self.root]
        for word in pattern:
            child = path[len(path) - 1].child(word)
            if child is None:
                return
            path.append(child)
        things = path[len(path) - 1].things
        if things is not None:
            things.pop(thing, None)
        for index in range(len(pattern), 0, -1):
            if not path[index].idle():
                return
            path[index - 1].prune(pattern[index - 1])

    def match(self, words: list[str], found: list[Thing]) -> None:
        """Add to `found` the things whose pattern matches, once for each such pattern."""
        nodes: list[Node[Thing]] = []
        step = self._step + 1
        _enter(self.root, nodes, step)
        for word in words:
            step += 1
            following: list[Node[Thing]] = []
            for node in nodes:
                if node.loops:
                    _enter(node, following, step)
                branch = node.branches.get(word)
                if branch is not None:
                    _enter(branch, following, step)
                branch = node.one
                if branch is not None:
                    _enter(branch, following, step)
            nodes = following
            if not nodes:
                break
        self._step = step
        for node in nodes:
            if node.things is not None:
                found.extend(node.things)


def _enter(node: Node[Thing], nodes: list[Node[Thing]], step: i64) -> None:
    """Be at a node, and behind each `#` there that takes no word at all."""
    reached: Node[Thing] | None = node
    while reached is not None:
        if reached.loops:
            if reached.step == step:
                return
            reached.step = step
        nodes.append(reached)
        reached = reached.any


def words_of(key: str) -> list[str]:
    """Return the words of a routing or binding key; an empty one has none, as in RabbitMQ."""
    return key.split(".") if key else []


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Tell whether a topic pattern matches, in time proportional to the product of the lengths at most.

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
