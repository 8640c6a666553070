"""Policies in RabbitMQ's form: reading, refusals, and the kinds of objects to which they apply."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.queue.types import CLASSIC, QUORUM
from penstock.core.settings.policies import EXCHANGES, Policy
from penstock.core.settings.policy_reader import apply_to_words, read_policy, reading_work
from penstock.errors import PreconditionFailed
from penstock.operations.commands import APPLY_TO


def policy(operator: bool = False, apply_to: str | None = None, **definition: object) -> Policy:
    given = {key.replace("_", "-"): value for key, value in definition.items()}
    fields: dict[str, Any] = {"pattern": "^q", "definition": given}
    if apply_to is not None:
        fields["apply-to"] = apply_to
    return read_policy("/", "p", fields, operator)


def test_policy_sorts_its_keys() -> None:
    found = policy(max_length=5, alternate_exchange="lost", ha_mode="all", some_plugin=[1])
    assert found.values.keys() == {"max-length"}
    assert found.values["max-length"].source() == "policy 'p'"
    assert found.alternate == "lost"
    assert found.idle == ["ha-mode", "some-plugin"]
    assert found.fields()["definition"] == {
        "max-length": 5, "alternate-exchange": "lost", "ha-mode": "all", "some-plugin": [1],
    }  # fmt: skip


def test_policy_for_one_kind_lists_keys_of_the_other_as_idle() -> None:
    assert policy(apply_to="exchanges", max_length=5).idle == ["max-length"]
    assert policy(apply_to="queues", alternate_exchange="x").idle == ["alternate-exchange"]


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", [CLASSIC.apply_to, QUORUM.apply_to, EXCHANGES]),
        ("queues", [CLASSIC.apply_to, QUORUM.apply_to]),
        ("classic_queues", [CLASSIC.apply_to]),
        ("quorum_queues", [QUORUM.apply_to]),
        ("exchanges", [EXCHANGES]),
        ("streams", []),
    ],
)
def test_policy_applies_to_kinds(apply_to: str, kinds: list[str]) -> None:
    found = policy(apply_to=apply_to, max_length=5)
    assert [kind for kind in (CLASSIC.apply_to, QUORUM.apply_to, EXCHANGES) if found.covers(kind, "q")] == kinds
    assert not found.covers(CLASSIC.apply_to, "other")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "'pattern' must be a string"),
        ({"pattern": "("}, "'definition' must be an object of at least one key"),
        ({"pattern": "(", "definition": {"expires": 1}}, "the pattern '(' is refused by RE2"),
        ({"pattern": "", "definition": {"max-lenght": 1}}, "has no key 'max-lenght'; did you mean max-length?"),
        (
            {"pattern": "", "definition": {"max-length": "x"}},
            "max-length must be a whole number from 0, or none, not 'x'",
        ),
        ({"pattern": "", "definition": {"overflow": "none"}}, "overflow"),
        ({"pattern": "", "definition": {"alternate-exchange": 5}}, "must be the name of an exchange"),
        ({"pattern": "", "definition": {"expires": 1}, "priority": "high"}, "'priority' must be a whole number"),
        ({"pattern": "", "definition": {"expires": 1}, "priority": 1 << 60}, "'priority' must be a whole number"),
        ({"pattern": "", "definition": {"expires": 1}, "apply-to": "topics"}, "'apply-to' must be one of"),
        ({"pattern": "", "definition": {"x": "y" * 70_000}}, "more than 24,576 bytes"),
        ({"pattern": "", "definition": {"federation-upstream": 5}}, "federation-upstream must be a name, not 5"),
        ({"pattern": "", "definition": {"federation-upstream-set": ""}}, 'must be a name, not ""'),
        ({"pattern": "", "definition": {"federation-upstream-pattern": 5}}, "must be an expression over names of"),
        ({"pattern": "", "definition": {"federation-upstream-pattern": "("}}, "the pattern '(' is refused by RE2"),
        (
            {"pattern": "", "definition": {"federation-upstream-set": "all", "federation-upstream": "u"}},
            "federation-upstream and federation-upstream-set exclude each other",
        ),
    ],
)
def test_policy_that_is_wrong_is_refused_in_a_sentence_that_names_it(fields: dict[str, object], says: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_policy("eu", "p", fields, False)
    assert str(caught.value).startswith(("policy 'p' of vhost 'eu': ", "policy 'p' of vhost 'eu' has no key "))
    assert says in str(caught.value)


def test_policy_of_an_operator_has_limits_only() -> None:
    assert policy(True, max_length=5, overflow="reject-publish").apply_to == "all", "as in RabbitMQ"
    with pytest.raises(PreconditionFailed, match="an operator policy has no dead-letter-exchange; it may have"):
        policy(True, dead_letter_exchange="x")
    with pytest.raises(PreconditionFailed, match="not to exchanges"):
        policy(True, "exchanges", max_length=5)


@pytest.mark.parametrize(
    ("key", "value", "kinds"),
    [
        ("delivery-limit", 5, [QUORUM.apply_to, EXCHANGES]),
        ("ha-mode", "all", [CLASSIC.apply_to, EXCHANGES]),
        ("max-age", "1D", [EXCHANGES]),
    ],
)
def test_policy_does_not_apply_to_types_of_queues_without_one_of_its_keys(
    key: str, value: object, kinds: list[str]
) -> None:
    found = read_policy("/", "p", {"pattern": "", "definition": {key: value, "max-length": 5}}, False)
    assert [kind for kind in (CLASSIC.apply_to, QUORUM.apply_to, EXCHANGES) if found.covers(kind, "q")] == kinds


def test_policy_is_read_from_pairs_as_rabbitmqctl_exports_it() -> None:
    fields: dict[str, Any] = {"pattern": "", "definition": [["expires", 5], ["max-length", 6]]}
    assert read_policy("/", "p", fields, True).fields()["definition"] == {"expires": 5, "max-length": 6}
    with pytest.raises(PreconditionFailed, match="must be an object"):
        read_policy("/", "p", {"pattern": "", "definition": [["expires"]]}, True)


def test_command_offers_each_word_of_apply_to() -> None:
    assert sorted(APPLY_TO) == sorted(apply_to_words())


def test_policy_names_its_upstreams() -> None:
    assert policy(max_length=5).upstreams is None
    found = policy(federation_upstream="u", max_length=5)
    assert found.upstreams is not None
    assert (found.upstreams.key, found.upstreams.name, found.upstreams.pattern) == ("federation-upstream", "u", None)
    assert found.idle == []
    several = policy(federation_upstream_pattern="^eu-").upstreams
    assert several is not None
    assert several.pattern is not None
    assert several.pattern.matches("eu-1")
    assert not several.pattern.matches("us-1")


def test_operator_policy_with_upstreams_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="an operator policy has no federation-upstream-set"):
        policy(True, federation_upstream_set="all")


def test_expression_over_upstreams_costs_its_compilation() -> None:
    pattern = "\\pL" * 100
    assert reading_work({"pattern": "q", "definition": {"federation-upstream-pattern": pattern}}) > 40_000
