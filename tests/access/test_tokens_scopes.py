"""Scopes of tokens: RabbitMQ's patterns, tags, and scopes without effect."""

from __future__ import annotations

import pytest

from penstock.access.permission import CONFIGURE, READ, WRITE
from penstock.access.tokens import PATTERN_OCTETS, SCOPES_MOST, Pattern, TokenRules, scopes_of


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*", ["", "a", "a/b"], []),
        ("orders", ["orders"], ["", "orders2", "order"]),
        ("orders*", ["orders", "orders.eu"], ["order"]),
        ("*eu", ["eu", "orders.eu"], ["eu2"]),
        ("a*b*c", ["abc", "aXbYc", "abbc"], ["ab", "acb", "abcd"]),
        ("ab*ba", ["abba", "abXba"], ["aba"]),
        ("%2F", ["/"], ["%2F"]),
        ("100%2A", ["100*"], ["100", "1000"]),
        ("a+b", ["a b"], ["a+b"]),
        ("%ff", [], ["", "%ff", "\xff"]),
        ("", [""], ["a"]),
    ],
)
def test_pattern_matches_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [name for name in matching if not Pattern(pattern).matches(name)] == []
    assert [name for name in others if Pattern(pattern).matches(name)] == []


def test_scopes_grant_kinds_in_virtual_hosts() -> None:
    rules = TokenRules(["read:%2F/orders*", "write:eu/*", "configure:*/temp.*"])
    assert rules.permits(READ, "/", "orders.1")
    assert not rules.permits(WRITE, "/", "orders.1")
    assert not rules.permits(READ, "eu", "orders.1")
    assert rules.permits(WRITE, "eu", "anything")
    assert rules.permits(CONFIGURE, "us", "temp.1")
    assert rules.enters("/")
    assert rules.enters("anywhere"), "the last scope is for every virtual host"
    assert not TokenRules(["read:eu/*"]).enters("/")


def test_topics_need_a_scope_with_a_routing_key() -> None:
    rules = TokenRules(["write:*/*", "write:%2F/logs/error.*"])
    assert rules.permits_topic(WRITE, "/", "logs", "error.disk")
    assert not rules.permits_topic(WRITE, "/", "logs", "info")
    assert not rules.permits_topic(WRITE, "/", "others", "error.disk")
    assert not rules.permits_topic(READ, "/", "logs", "error.disk")


def test_tags_are_scopes_too() -> None:
    rules = TokenRules(["tag:monitoring", "tag:", "tag:monitoring", "tag:own"])
    assert rules.tags() == ["monitoring", "own"]
    assert rules.has_tag("management")
    assert not rules.has_tag("administrator")


@pytest.mark.parametrize(
    "scope",
    ["", "read", "read:", "read:*", "read:a/b/c/d", "own:*/*", "Read:*/*", "read:" + "*" * PATTERN_OCTETS + "/*"],
)
def test_scope_of_another_form_grants_nothing(scope: str) -> None:
    rules = TokenRules([scope])
    assert not rules.enters("/")
    assert not any(rules.permits(kind, "/", "q") for kind in (CONFIGURE, WRITE, READ))
    assert rules.tags() == []


def test_scopes_beyond_the_most_are_ignored() -> None:
    assert not TokenRules(["x"] * SCOPES_MOST + ["read:*/*"]).permits(READ, "/", "q")


def test_newer_token_takes_the_place_of_the_old_one() -> None:
    rules = TokenRules(["read:*/*"])
    epoch = rules.epoch.count
    rules.replace(TokenRules(["write:*/*", "tag:management"]))
    assert rules.epoch.count != epoch
    assert (rules.permits(READ, "/", "q"), rules.permits(WRITE, "/", "q")) == (False, True)
    assert rules.tags() == ["management"]


def test_scopes_of_a_claim_are_words_with_the_prefix() -> None:
    assert scopes_of("penstock.read:*/* other.write:*/* penstock.tag:x", "penstock.") == ["read:*/*", "tag:x"]
    assert scopes_of(["penstock.read:*/*", 7, None], "penstock.") == ["read:*/*"]
    assert scopes_of({"a": 1}, "penstock.") == scopes_of(None, "") == scopes_of(7, "") == []
