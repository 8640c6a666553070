"""Topic exchanges: patterns and keys, unusual ones and random ones."""

from __future__ import annotations

import random

import pytest

from tests.support.routing_helpers import Routes
from tests.support.topology import topic_rule

pytestmark = pytest.mark.clients

KEYS = ["", ".", "a", "a.", ".a", "a.b", "a..b", "a.b.c", "*", "#", "*.a", "a.#", "..", "a.a.a.a", "ä.€", "A"]
PATTERNS = {
    "": [""],
    "#": KEYS,
    "*": ["a", "*", "#", "A"],
    "*.*": [".", "a.", ".a", "a.b", "*.a", "a.#", "ä.€"],
    "#.#": KEYS,
    "#.*": [key for key in KEYS if key],
    "*.#": [key for key in KEYS if key],
    "a": ["a"],
    "a.#": ["a", "a.", "a.b", "a..b", "a.b.c", "a.#", "a.a.a.a"],
    "a.*": ["a.", "a.b", "a.#"],
    "#.a": ["a", ".a", "*.a", "a.a.a.a"],
    "#.a.#": ["a", "a.", ".a", "a.b", "a..b", "a.b.c", "*.a", "a.#", "a.a.a.a"],
    "a.*.b": ["a..b"],
    "a.#.b": ["a.b", "a..b"],
    "#.a.a.#.a": ["a.a.a.a"],
    ".": ["."],
    ".#": [".", ".a", ".."],
    "*.": [".", "a."],
    "a*": [],
    "a#": [],
    "ä.*": ["ä.€"],
}


def test_topic_pattern_matches_the_expected_keys(routes: Routes) -> None:
    routes.exchange("x", "topic")
    for index, pattern in enumerate(PATTERNS):
        routes.bind(str(index), "x", pattern)
    for key in KEYS:
        expected = [str(index) for index, keys in enumerate(PATTERNS.values()) if key in keys]
        assert routes.reached("x", key).split() == sorted(expected), key


@pytest.mark.parametrize("seed", range(3))
def test_patterns_by_chance_that_come_and_go(routes: Routes, seed: int) -> None:
    chance = random.Random(seed)

    def some(words: str, most: int) -> str:
        return ".".join(chance.choice(words) for _ in range(chance.randint(0, most)))

    routes.exchange("x", "topic")
    routes.bind("keeps", "x", "x.x.x.x.x.x")
    bound = {("keeps", "x.x.x.x.x.x")}
    for _ in range(60):
        queue, pattern = chance.choice("pqrst"), some("ab*#", 5)
        routes.bind(queue, "x", pattern)
        bound.add((queue, pattern))
        if chance.random() < 0.4:
            queue, pattern = chance.choice(sorted(bound - {("keeps", "x.x.x.x.x.x")}))
            routes.channel.queue_unbind(routes.of(queue), routes.of("x"), pattern)
            bound.discard((queue, pattern))
        key = some("abc", 5)
        words = key.split(".") if key else []
        expected = {queue for queue, pattern in bound if topic_rule(pattern.split(".") if pattern else [], words)}
        assert routes.reached("x", key).split() == sorted(expected), (key, sorted(bound))
