"""Rules of one login by the access table."""

from __future__ import annotations

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.permission import Epoch, Permission, TopicPermission
from penstock.access.rules import ConnectionAccess, Rules, UserRules


@pytest.fixture
def table() -> AccessTable:
    made = AccessTable({"/": 1})
    made.put_user("anna", None, ["monitoring"])
    made.set_permission("anna", "/", Permission("^$", "^orders", ".*"))
    return made


def test_rules_of_a_user_answer_from_the_table(table: AccessTable) -> None:
    rules = UserRules(table, "anna")
    assert rules.enters("/")
    assert not rules.enters("/shop")
    assert rules.permits("write", "/", "orders")
    assert not rules.permits("configure", "/", "orders")
    assert rules.tags() == ["monitoring"]
    assert rules.has_tag("management")
    assert not rules.has_tag("administrator")


def test_change_counts_at_once(table: AccessTable) -> None:
    rules = UserRules(table, "anna")
    epoch = rules.epoch.count
    table.set_permission("anna", "/", Permission("", "", ""))
    assert rules.epoch.count > epoch
    assert not rules.permits("write", "/", "orders")
    table.delete_user("anna")
    assert not rules.enters("/")
    assert rules.tags() == []


def test_topics_are_permitted_where_no_topic_permission_is_set(table: AccessTable) -> None:
    rules = UserRules(table, "anna")
    assert rules.permits_topic("write", "/", "amq.topic", "a.b")
    table.set_topic_permission("anna", "/", "amq.topic", TopicPermission("^a", "^b"))
    assert rules.permits_topic("write", "/", "amq.topic", "a.b")
    assert not rules.permits_topic("read", "/", "amq.topic", "a.b")
    assert rules.permits_topic("read", "/", "other", "a.b")


def test_variables_match_as_they_are_written(table: AccessTable) -> None:
    table.put_user("a.c", None, [])
    table.set_permission("a.c", "/", Permission("", "", ""))
    table.set_topic_permission("a.c", "/", "amq.topic", TopicPermission("^{username}[.]{vhost}$", "^{client_id}$"))
    rules = UserRules(table, "a.c", "robot")
    assert rules.permits_topic("write", "/", "amq.topic", "a.c./")
    assert not rules.permits_topic("write", "/", "amq.topic", "abc./")
    assert rules.permits_topic("read", "/", "amq.topic", "robot")
    assert not UserRules(table, "a.c").permits_topic("read", "/", "amq.topic", "robot")
    assert UserRules(table, "a.c").permits_topic("read", "/", "amq.topic", "{client_id}")


def test_rules_are_an_interface() -> None:
    rules = Rules(Epoch())
    for question in (lambda: rules.enters("/"), lambda: rules.permits("read", "/", "q"), lambda: rules.tags()):
        with pytest.raises(NotImplementedError):
            question()


def test_epoch_of_a_table_is_shared_by_its_accesses() -> None:
    table = AccessTable({"/"})
    accesses = [ConnectionAccess(UserRules(table, name), name, "/") for name in ("a", "b")]
    assert Epoch().count == 0
    table.epoch.count += 1
    assert [access.epoch.count for access in accesses] == [1, 1]
