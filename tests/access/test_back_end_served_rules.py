"""Rules of users of a back end: virtual hosts, expressions with variables, and tags."""

from __future__ import annotations

import pytest

from penstock.access.back_end import ServedRules, check_permission
from penstock.access.permission import CONFIGURE, READ, WRITE, Expressions, Permission
from penstock.errors import PreconditionFailed


def rules(user: str = "anna") -> ServedRules:
    permission = Permission("^{username}-", "^{vhost}$", ".*")
    return ServedRules(user, ["/", "moon"], ["management"], permission, Expressions())


def test_virtual_hosts_are_those_that_were_permitted() -> None:
    found = rules()
    assert [found.enters(vhost) for vhost in ("/", "moon", "mars", "")] == [True, True, False, False]
    assert not found.permits(READ, "mars", "q")
    assert found.permits_topic(WRITE, "moon", "amq.topic", "a.b")
    assert not found.permits_topic(WRITE, "mars", "amq.topic", "a.b")


def test_expressions_have_the_names_of_user_and_virtual_host() -> None:
    found = rules()
    assert found.permits(CONFIGURE, "/", "anna-1")
    assert not found.permits(CONFIGURE, "/", "bob-1")
    assert found.permits(WRITE, "moon", "moon")
    assert not found.permits(WRITE, "/", "moon")
    assert found.permits(READ, "/", "whatever")


def test_name_matches_as_it_is_written() -> None:
    assert not rules(".*").permits(CONFIGURE, "/", "bob-1")
    assert rules(".*").permits(CONFIGURE, "/", ".*-1")


def test_tags_are_those_of_the_back_end() -> None:
    assert rules().has_tag("management")
    assert not rules().has_tag("administrator")


def test_expressions_of_a_back_end_are_checked_before_the_first_login() -> None:
    check_permission(Permission("^{username}", "", ".*"))
    with pytest.raises(PreconditionFailed, match=r"write permission: RE2 refuses '\(\?!x\)'"):
        check_permission(Permission("", "(?!x)", ""))
