"""Permission checks of one connection, and their cache."""

from __future__ import annotations

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.permission import Permission, TopicPermission
from penstock.access.rules import CACHED_MOST, EXCHANGE, QUEUE, ConnectionAccess, UserRules
from penstock.errors import AccessRefused


@pytest.fixture
def table() -> AccessTable:
    made = AccessTable({"/": 1})
    made.put_user("anna", None, [])
    made.set_permission("anna", "/", Permission("^mine", "^amq[.]default$", "^q"))
    return made


@pytest.fixture
def access(table: AccessTable) -> ConnectionAccess:
    return ConnectionAccess(UserRules(table, "anna"), "anna", "/")


def test_refusal_has_the_words_of_rabbitmq(access: ConnectionAccess) -> None:
    with pytest.raises(AccessRefused) as refused:
        access.check("configure", QUEUE, "q")
    assert refused.value.reply_text == (
        "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'anna'"
    )
    assert (refused.value.code, refused.value.closes) == (403, "channel")


def test_default_exchange_has_its_name(access: ConnectionAccess) -> None:
    access.check("write", EXCHANGE, "")
    with pytest.raises(AccessRefused, match=r"read access to exchange 'amq.default' in vhost '/' refused"):
        access.check("read", EXCHANGE, "")


def test_refused_topic_has_the_words_of_rabbitmq(table: AccessTable, access: ConnectionAccess) -> None:
    access.check_topic("write", "amq.topic", "a.b")
    table.set_topic_permission("anna", "/", "amq.topic", TopicPermission("^x", "^x"))
    with pytest.raises(AccessRefused) as refused:
        access.check_topic("write", "amq.topic", "a.b")
    assert str(refused.value) == (
        "write access to topic 'a.b' in exchange 'amq.topic' in vhost '/' refused for user 'anna'"
    )


def test_permission_change_counts_for_cached_checks(table: AccessTable, access: ConnectionAccess) -> None:
    access.check("read", QUEUE, "q1")
    epoch = access.epoch.count
    table.set_permission("anna", "/", Permission("", "", "^r"))
    assert access.epoch.count > epoch
    with pytest.raises(AccessRefused):
        access.check("read", QUEUE, "q1")
    table.set_permission("anna", "/", Permission("", "", ".*"))
    access.check("read", QUEUE, "q1")


def test_cached_permissions_of_a_connection_are_bounded(access: ConnectionAccess) -> None:
    for number in range(CACHED_MOST * 2):
        access.check("read", QUEUE, f"q{number}")
        access.check_topic("read", "amq.topic", f"q{number}")
    assert len(access._permitted) == CACHED_MOST
