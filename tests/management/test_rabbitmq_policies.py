"""Regular expressions of RabbitMQ's policies, and the patterns that say the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.settings.changes import matches
from penstock.errors import PreconditionFailed
from penstock.management.rabbitmq_policies import pattern_of, regex_of


@pytest.mark.parametrize(
    ("regex", "pattern"),
    [
        ("", "#"),
        (".*", "#"),
        ("^.*$", "#"),
        ("^orders$", "orders"),
        ("^orders\\.eu$", "orders.eu"),
        ("^orders\\.", "orders.#"),
        ("^orders\\..*", "orders.#"),
        ("^orders(\\..*)?$", "orders.#"),
        ("^orders\\.[^.]+$", "orders.*"),
    ],
)
def test_what_can_be_said_with_words_is(regex: str, pattern: str) -> None:
    assert pattern_of("some policy", regex) == pattern


@pytest.mark.parametrize("regex", ["orders", "orders$", "^orders", "^(a|b)$", "^a.b$", "^$", "(", "^a+$"])
def test_what_cannot_is_refused(regex: str) -> None:
    with pytest.raises(PreconditionFailed, match="has no equivalent in words"):
        pattern_of("some policy", regex)


words = st.sampled_from(["*", "#", "a", "b-c", "d_e"])
names = st.lists(st.sampled_from(["a", "b-c", "d_e", "x"]), min_size=1, max_size=4)


@given(st.lists(words, min_size=1, max_size=4), names)
def test_exported_pattern_matches_what_it_did_and_comes_back(pattern: list[str], name: list[str]) -> None:
    ours, regex = ".".join(pattern), regex_of(".".join(pattern))
    assert pattern_of(ours, regex) == ours
    assert (re.search(regex, ".".join(name)) is not None) == matches(ours, ".".join(name))
