"""Rows of lists that are computed from the broker's answers."""

from __future__ import annotations

from penstock.describe.list_kinds import KINDS
from penstock.operations.command_lists import LISTINGS, LISTS, asked_last, shown_seconds

ROWS = {row.path: row for row in LISTINGS}


def test_list_of_permissions_has_a_row_for_each() -> None:
    row = ROWS["permissions list"]
    user = {
        "name": "ada",
        "everywhere": True,
        "permissions": [{"vhost": "/", "configure": "a", "write": "b", "read": "c"}],
        "topic_permissions": [{"vhost": "/", "exchange": "", "write": "w", "read": "r"}],
    }
    assert [tuple(each.values()) for each in row.rows([user])] == [
        ("ada", "(all others)", "", ".*", ".*", ".*"),
        ("ada", "/", "", "a", "b", "c"),
        ("ada", "/", "amq.default", "", "w", "r"),
    ]


def test_list_of_settings_in_effect_has_hidden_values_in_parentheses() -> None:
    row = ROWS["queues show"]
    found = row.rows([{"setting": "ttl", "value": 60_000, "unit": "ms", "hides": [{"value": None}]}])
    assert [row.columns.of_items["value"](each) for each in found] == ["1 min", "(none)"]


def test_list_of_limits_is_one_object_by_scope_and_name() -> None:
    row = ROWS["limits list"]
    answer = {"users": {"ada": {"max-channels": 1}}, "vhosts": {}}
    assert row.as_object(row.rows([answer])) == answer


def test_lists_by_name_are_those_of_kinds_by_name() -> None:
    sorted_here = {row.fixed["kind"] for row in LISTS if row.fixed.get("sort") == ["name"]}
    assert sorted_here == {kind.name for kind in KINDS if kind.by_name}
    assert {row.fixed["kind"] for row in LISTS} == {kind.name for kind in KINDS}


def test_unknown_time_is_a_dash() -> None:
    assert shown_seconds(None) == "-"
    assert shown_seconds(1.25) == "1.2 s"
    assert asked_last({"asked_s_ago": None}) is None
