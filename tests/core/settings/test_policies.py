"""Policies: reading, refusals, combination of two, and their regular expressions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.settings.policies import (
    PATTERN_OCTETS,
    Policy,
    PolicyPair,
    PolicyPattern,
    look_aheads,
)
from penstock.core.settings.policy_reader import read_policy
from penstock.errors import PreconditionFailed


def policy(operator: bool = False, apply_to: str | None = None, **definition: object) -> Policy:
    given = {key.replace("_", "-"): value for key, value in definition.items()}
    fields: dict[str, Any] = {"pattern": "^q", "definition": given}
    if apply_to is not None:
        fields["apply-to"] = apply_to
    return read_policy("/", "p", fields, operator)


def test_policies_together_have_the_smaller_limits() -> None:
    mine, theirs = policy(max_length=5, expires=10, overflow="drop-head"), policy(True, max_length=9, expires=7)
    assert PolicyPair(mine, theirs).definition() == {"max-length": 5, "expires": 7, "overflow": "drop-head"}
    assert PolicyPair(None, theirs).definition() == {"max-length": 9, "expires": 7}
    assert PolicyPair(None, None).definition() == {}
    assert mine.equals(policy(max_length=5, expires=10, overflow="drop-head"))
    assert not mine.equals(theirs)


NAMES = ["", "a", "orders", "orders.eu", "my-orders", "celery", "celeryev.1", "amq.gen-x", "größe", "x(y"]
PATTERNS = [
    "", ".*", "^", "$", "^orders", "orders$", r"^orders\.", "^celery", "[ab]", "^(a|b)", "^(?!amq).*", r"^(?!amq\.).*",
    r"^(?!amq\.|celery).+$", "^(?!a)(?!b)", "^(?=o)(?!orders$).*", r"^(?![)(a]).*", r"^(?!x\().*", "ö", "(?i)ORDERS",
]  # fmt: skip


@pytest.mark.parametrize("text", PATTERNS)
def test_policy_pattern_matches_as_a_backtracking_engine(text: str) -> None:
    pattern = PolicyPattern(text)
    assert [name for name in NAMES if pattern.matches(name)] == [name for name in NAMES if re.search(text, name)]


@pytest.mark.parametrize("text", ["(", "[a", "a**", r"(a)\1", "a(?!b)", "^(?!a)b|c", "^(?!a", "(?<=a)b", "a{5000}"])
def test_policy_pattern_that_re2_refuses_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="is refused by RE2: "):
        PolicyPattern(text)


def test_pattern_is_bounded() -> None:
    with pytest.raises(PreconditionFailed, match="longer than 4,096 bytes"):
        PolicyPattern("a" * (PATTERN_OCTETS + 1))


def test_pattern_with_look_aheads_is_split() -> None:
    assert look_aheads("^(?!a)(?=b[)]).*") == ([(True, "a"), (False, "b[)]")], "^.*")
    assert look_aheads("^(?!a)b|c") == ([], "^(?!a)b|c")


@given(st.text("ab.^$()[]|\\?!=*+{}1", max_size=12))
def test_pattern_is_compiled_or_refused_in_a_sentence(text: str) -> None:
    said = ""
    try:
        PolicyPattern(text).matches("ab")
    except PreconditionFailed as error:
        said = str(error)
    assert not said or "refused by RE2" in said
