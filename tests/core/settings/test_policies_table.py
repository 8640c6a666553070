"""The table of policies: which one applies, and its bounds."""

from __future__ import annotations

import pytest

from penstock.core.queue.types import CLASSIC
from penstock.core.settings import policies
from penstock.core.settings.policies import Policy, PolicyTable
from penstock.core.settings.policy_reader import read_policy
from penstock.errors import ResourceError


def policy(name: str, pattern: str, priority: int = 0, operator: bool = False, vhost: str = "/") -> Policy:
    fields: dict[str, object] = {"pattern": pattern, "definition": {"max-length": 1}, "priority": priority}
    return read_policy(vhost, name, fields, operator)


def best(table: PolicyTable, name: str, vhost: str = "/", operator: bool = False) -> str | None:
    found = table.best(vhost, CLASSIC.apply_to, name, operator)
    return None if found is None else found.name


def test_policies_apply_by_priority_then_by_name_and_only_in_the_vhost() -> None:
    table = PolicyTable()
    for each in (policy("b", ".*"), policy("a", ".*"), policy("high", "^q", 5), policy("o", "q", 0, True)):
        assert table.put(each) is None
    table.put(policy("c", ".*", vhost="eu"))
    assert [best(table, "q"), best(table, "x"), best(table, "q", "eu"), best(table, "q", "none")] == [
        "high", "a", "c", None,
    ]  # fmt: skip
    assert [best(table, "q", operator=True), best(table, "x", operator=True)] == ["o", None]
    assert table.best("/", "", "q", False) is None
    assert (table.count, table.work("/", "q"), table.work("none", "q")) == (5, 4, 0)
    replaced = table.put(policy("high", "^nothing$", 5))
    assert replaced.pattern.text == "^q"
    assert best(table, "q") == "a"
    assert table.drop("/", "a", False) is not None
    assert table.drop("/", "a", False) is None
    assert best(table, "q") == "b"
    assert [each.name for each in table.of("/", False)] == ["b", "high"]


def test_policies_are_bounded() -> None:
    table = PolicyTable()
    for number in range(policies.POLICIES_A_VHOST):
        table.put(policy(f"p{number}", "a"))
    with pytest.raises(ResourceError, match="there are 1,000 policies, the most that there may be; policy 'more'"):
        table.put(policy("more", "a"))
    table.put(policy("p5", "b"))


def test_work_of_a_look_through_policies_grows_with_the_patterns_and_the_name() -> None:
    table = PolicyTable()
    for name in "ab":
        table.put(policy(name, "x" * 2048))
    assert (table.work("/", ""), table.work("/", "q" * 200)) == (2, 2 + 200)
    table.put(policy("b", "y"))
    table.drop("/", "a", False)
    assert table.work("/", "q" * 200) == 1
