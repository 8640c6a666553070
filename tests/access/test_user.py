"""Users, and records of changes of the access table."""

from __future__ import annotations

from typing_extensions import override

from penstock.access.access_table import AccessTable
from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import FILE, AccessRecord, AccessRecorder, User
from penstock.persistence.metadata_records import kind_of


def test_tag_administrator_makes_an_administrator() -> None:
    assert User("anna", tags=["administrator"]).is_administrator()
    assert not User("anna", tags=["management"]).is_administrator()


def test_bytes_of_a_user_count_names_tags_and_expressions() -> None:
    user = User("anna", tags=["management"])
    assert user.octets() == 14
    user.permissions["/"] = Permission("c", "ww", "rrr")
    user.topic_permissions["/"] = {"amq.topic": TopicPermission("ww", "rrr")}
    assert user.octets() == 14 + 7 + 1 + 9 + 5


def named(record: AccessRecord) -> str:
    return f"{kind_of(record).name}/{kind_of(record).key(record)}"


ALL = Permission(".*", ".*", ".*")


class Recorded(AccessRecorder):
    """Kinds and keys of what was recorded, "-" before a deletion."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @override
    def change(self, record: AccessRecord) -> None:
        self.found.append(named(record))

    @override
    def forget(self, record: AccessRecord) -> None:
        self.found.append("-" + named(record))

    def take(self) -> list[str]:
        found = self.found
        self.found = []
        return found


def make_table() -> tuple[AccessTable, Recorded]:
    table, recorded = AccessTable({"a": 1, "b": 2}), Recorded()
    table.recorder = recorded
    return table, recorded


def test_guest_is_recorded_with_the_first_other_user() -> None:
    table, recorded = make_table()
    table.put_user("anna", None, [])
    assert recorded.take() == ["user/guest", "user/anna"]
    table.put_user("otto", None, [])
    assert recorded.take() == ["user/otto"]


def test_permissions_are_records_of_their_own() -> None:
    table, recorded = make_table()
    table.put_user("anna", None, [])
    recorded.take()
    table.set_permission("anna", "a", ALL)
    table.set_topic_permission("anna", "a", "amq.topic", TopicPermission("", ""))
    assert recorded.take() == ["permission/anna/a", "topic-permission/anna/a/amq.topic"]
    table.set_vhost_limits("a", {"max-queues": 1})
    assert recorded.take() == ["vhost-limits/a"]
    table.forget_vhost("a")
    assert recorded.take() == ["-permission/anna/a", "-topic-permission/anna/a/amq.topic", "-vhost-limits/a"]


def test_deleted_user_leaves_no_record() -> None:
    table, recorded = make_table()
    table.put_user("anna", None, [])
    table.set_permission("anna", "b", ALL)
    table.set_topic_permission("anna", "b", "amq.topic", TopicPermission("", ""))
    recorded.take()
    table.delete_user("anna")
    assert recorded.take() == ["-user/anna", "-permission/anna/b", "-topic-permission/anna/b/amq.topic"]


def test_guest_without_a_permission_has_the_others_as_records() -> None:
    table, recorded = make_table()
    table.clear_permission("guest", "a")
    assert sorted(recorded.take()) == [
        "-permission/guest/a",
        "permission/guest/a",
        "permission/guest/b",
        *["user/guest"] * 2,
    ]


def test_users_of_the_file_are_not_recorded() -> None:
    table, recorded = make_table()
    table.set_file_users([User("anna", None, ["administrator"], FILE)])
    table.set_scram("anna", (b"", b"", b"", 1))
    assert recorded.take() == []
