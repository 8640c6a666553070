"""Copy of access: the order of its rows does not matter, long keys are found again, and a bad row stops no other."""

from __future__ import annotations

from itertools import permutations

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import AccessRecord, PermissionRecord, TopicPermissionRecord, User
from penstock.cluster.access_copy import AccessCopy
from penstock.cluster.catalogue import AccessRow
from penstock.core.journal.group import MetadataChange
from penstock.persistence.metadata_records import encode_metadata, key_of

LONG = "%" * 255
"""Name whose keys are cut: each character is escaped."""


def row_of(record: AccessRecord, deleted: bool = False) -> AccessRow:
    found = encode_metadata(MetadataChange(record, deleted))
    return AccessRow(1, found.kind, found.key, found.data)


def records(user: str, vhost: str) -> list[AccessRecord]:
    return [
        User(user, None, ["management"]),
        PermissionRecord(user, vhost, Permission("a", "b", "c")),
        TopicPermissionRecord(user, vhost, LONG, TopicPermission("d", "e")),
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_rows_of_a_pull_may_come_in_any_order(order: tuple[int, ...]) -> None:
    table = AccessTable([])
    copy = AccessCopy(table)
    rows = [row_of(records("alice", "/")[index]) for index in order]
    for row in rows:  # A page each.
        assert copy.apply([row], (1, row.kind, row.key), False) == []
    copy.apply([], (1, "", ""), True)
    alice = table.user("alice")
    assert alice.permissions["/"].write == "b"
    assert alice.topic_permissions["/"][LONG].read == "e"
    assert table.names() == ["alice"]


def test_permission_of_a_user_that_does_not_come_is_dropped_with_the_pull() -> None:
    table = AccessTable([])
    copy = AccessCopy(table)
    _, permission, _ = records("alice", "/")
    copy.apply([row_of(permission)], (1, "", ""), True)
    copy.apply([row_of(User("alice"))], (2, "", ""), True)
    assert table.user("alice").permissions == {}


@pytest.mark.parametrize("long", [False, True])
def test_deletions_find_their_objects_by_the_key(long: bool) -> None:
    user, vhost = (LONG, LONG) if long else ("al/ice", "ten%nts/é")
    assert ("%#" in key_of(user, vhost)) == long
    table = AccessTable([])
    copy = AccessCopy(table)
    every = records(user, vhost)
    copy.apply([row_of(each) for each in every], (1, "", ""), True)
    assert table.user(user).topic_permissions
    copy.apply([row_of(every[2], deleted=True)], (2, "", ""), True)
    assert table.user(user).topic_permissions == {}
    copy.apply([row_of(every[1], deleted=True)], (3, "", ""), True)
    assert table.user(user).permissions == {}
    copy.apply([row_of(every[0], deleted=True)], (4, "", ""), True)
    assert table.find(user) is None


def test_deletions_of_missing_objects_do_nothing() -> None:
    table = AccessTable([])
    copy = AccessCopy(table)
    assert copy.apply([row_of(each, deleted=True) for each in records("bob", "/")], (1, "", ""), True) == []
    assert copy.apply([AccessRow(1, "user", "cut%#0123", None)], (2, "", ""), True) == []


def test_row_that_cannot_be_read_is_named_and_stops_no_other() -> None:
    table = AccessTable([])
    rows = [AccessRow(1, "user", "bob", b"\x01{"), AccessRow(1, "user", "eve", b"\x09{}"), row_of(User("alice"))]
    left_out = AccessCopy(table).apply(rows, (1, "", ""), True)
    assert left_out == [
        "user 'bob' of the catalogue cannot be read: it is cut short or damaged",
        "user 'eve' of the catalogue cannot be read: it has format 9; this version reads 1",
    ]
    assert table.find("alice") is not None


def test_row_of_an_unknown_kind_is_passed_over() -> None:
    copy = AccessCopy(AccessTable([]))
    assert copy.apply([AccessRow(1, "future", "x", b"\x01{}")], (1, "", ""), True) == []


def test_guest_of_an_empty_catalogue_stays() -> None:
    table = AccessTable([])
    AccessCopy(table).apply([], (0, "", ""), True)
    assert table.names() == ["guest"]


def test_last_user_that_is_dropped_does_not_bring_guest_back() -> None:
    table = AccessTable([])
    copy = AccessCopy(table)
    copy.apply([row_of(User("alice"))], (1, "", ""), True)
    copy.apply([row_of(User("alice"), deleted=True)], (2, "", ""), True)
    assert table.names() == []
