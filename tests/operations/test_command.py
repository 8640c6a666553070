"""Words of a command line that are read as fields of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.operations.command import definition, limit_numbers, named, pairs, places


@pytest.mark.parametrize(
    ("read", "words", "found"),
    [
        (pairs, ("a=1", "b=true", "c=x=y"), {"a": 1, "b": True, "c": "x=y"}),
        (named, ("a=1",), {"a": "1"}),
        (definition, ('{"max-length": 5}',), {"max-length": 5}),
        (definition, ("max-length=5",), {"max-length": 5}),
        (limit_numbers, ("max-queues=5", "max-connections=-1"), {"max-queues": 5, "max-connections": -1}),
        (places, (), "earliest"),
        (places, ("latest",), "latest"),
        (places, ("orders=12", "a=b=3"), {"orders": 12, "a=b": 3}),
    ],
)
def test_words_are_read(read: Callable[[tuple[str, ...]], Any], words: tuple[str, ...], found: object) -> None:
    assert read(words) == found


@pytest.mark.parametrize(
    ("read", "words", "says"),
    [
        (pairs, ("a",), "'a' is not NAME=VALUE"),
        (pairs, ("=1",), "'=1' is not NAME=VALUE"),
        (named, ("a=1", "a=2"), "'a' is given twice: give it once"),
        (definition, ("{",), "the definition is not JSON"),
        (definition, ("{}", "a=1"), "must be one JSON object, or KEY=VALUE words"),
        (limit_numbers, ("max-queues=many",), "limit max-queues must be a whole number, not 'many'"),
        (limit_numbers, ("max-queues",), "'max-queues' is not NAME=VALUE: write LIMIT=NUMBER"),
        (places, ("orders=last",), "the sequence of queue 'orders' must be a whole number from 0, not 'last'"),
        (places, ("newest",), "'newest' is no place"),
        (places, ("q=1", "q=2"), "queue 'q' is given twice"),
    ],
)
def test_words_that_cannot_be_read_are_one_sentence(
    read: Callable[[tuple[str, ...]], Any], words: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ConfigError, match=says.replace("|", r"\|")):
        read(words)
