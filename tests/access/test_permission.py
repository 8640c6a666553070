"""Permissions and topic permissions.

Tags include each other as in RabbitMQ.
"""

from __future__ import annotations

import pytest

from penstock.access.permission import (
    ADMINISTRATOR,
    CONFIGURE,
    MANAGEMENT,
    MONITORING,
    POLICYMAKER,
    READ,
    TAGS,
    WRITE,
    Permission,
    TopicPermission,
    grants,
)
from penstock.errors import PreconditionFailed


def test_permission_kind_selects_its_expression() -> None:
    permission = Permission("c", "w", "r")
    assert [permission.expression(kind) for kind in (CONFIGURE, WRITE, READ)] == ["c", "w", "r"]
    assert [TopicPermission("w", "r").expression(kind) for kind in (WRITE, READ)] == ["w", "r"]


def test_permissions_are_equal_by_their_texts() -> None:
    assert Permission("c", "w", "r") == Permission("c", "w", "r")
    assert Permission("c", "w", "r") != Permission("c", "w", "")
    assert TopicPermission("w", "r") == TopicPermission("w", "r")
    assert TopicPermission("w", "r") != TopicPermission("w", "x")


def test_bad_expression_is_named_with_its_user_vhost_and_kind() -> None:
    with pytest.raises(PreconditionFailed) as refused:
        Permission(".*", "(?=x)", ".*").check("anna", "/shop")
    assert str(refused.value) == (
        "write permission of user 'anna' in vhost '/shop': RE2 refuses '(?=x)': invalid perl operator: (?="
    )
    with pytest.raises(PreconditionFailed, match=r"topic read permission of user 'anna' for exchange 'amq.topic' in"):
        TopicPermission(".*", "[").check("anna", "/", "amq.topic")


def test_variables_of_topic_permissions_are_no_repetitions() -> None:
    TopicPermission("^a{username}", "{vhost}.{client_id}").check("anna", "/", "amq.topic")


GRANTED = {
    ADMINISTRATOR: set(TAGS),
    MONITORING: {MONITORING, MANAGEMENT},
    POLICYMAKER: {POLICYMAKER, MANAGEMENT},
    MANAGEMENT: {MANAGEMENT},
    "impersonator": {"impersonator"},
}


@pytest.mark.parametrize("tag", GRANTED)
def test_tag_grants_itself_and_the_tags_that_it_includes(tag: str) -> None:
    assert {needed for needed in (*TAGS, "impersonator") if grants([tag], needed)} == GRANTED[tag] | (
        {"impersonator"} if tag == ADMINISTRATOR else set()
    )


def test_tag_among_several_is_enough() -> None:
    assert grants(["other", MONITORING], MANAGEMENT)
    assert not grants(["other", MONITORING], POLICYMAKER)


def test_operation_without_a_tag_is_granted_to_users_without_tags() -> None:
    assert grants([], "")
    assert not grants([], MANAGEMENT)
