"""The table of users, permissions and limits."""

from __future__ import annotations

import re

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.access import access_table
from penstock.access.access_table import AccessTable
from penstock.access.password_hash import file_password, rabbitmq_hash
from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import FILE, STORE, PermissionRecord, TopicPermissionRecord, User
from penstock.errors import BrokerError, NotFound, PreconditionFailed, ResourceError

ALL = Permission(".*", ".*", ".*")
HASH = rabbitmq_hash("secret", b"salt")


def make_table(*names: str) -> AccessTable:
    """Return a table with these users in the store, of which the first is administrator; guest is deleted."""
    table = AccessTable({"/": 1, "/shop": 2})
    for name in names:
        table.put_user(name, HASH, ["administrator"] if name == names[0] else [])
    table.delete_user("guest")
    return table


def file_user(name: str, *tags: str) -> User:
    user = User(name, file_password("secret"), tags, FILE)
    user.everywhere = True
    return user


def test_guest_is_there_while_no_other_user_is() -> None:
    table = AccessTable({"/": 1})
    assert table.names() == ["guest"]
    assert table.user("guest").is_administrator()
    assert table.permits("guest", "configure", "/", "q")
    assert table.stored() == []
    table.set_file_users([file_user("anna", "administrator")])
    assert table.names() == ["anna"]
    table.set_file_users(None)
    assert table.names() == ["guest"]


def test_guest_stays_when_another_user_is_stored() -> None:
    table = AccessTable({"/": 1})
    table.put_user("anna", HASH, ["administrator"])
    assert table.names() == ["guest", "anna"]
    assert [user.name for user in table.stored()] == ["guest", "anna"]
    table.delete_user("guest")
    again = AccessTable({"/": 1})
    for user in table.stored():
        again.restore_user(user)
    assert again.names() == ["anna"]


@pytest.fixture
def table() -> AccessTable:
    return make_table("root", "anna")


def test_new_user_may_do_nothing(table: AccessTable) -> None:
    assert not table.may_enter("anna", "/")
    assert not table.permits("anna", "read", "/", "q")
    assert not table.permits("nobody", "read", "/", "q")


def test_permission_counts_in_its_virtual_host(table: AccessTable) -> None:
    table.set_permission("anna", "/", Permission("", "^orders", "^(orders|logs)"))
    assert table.may_enter("anna", "/")
    assert not table.may_enter("anna", "/shop")
    assert table.permits("anna", "write", "/", "orders")
    assert not table.permits("anna", "write", "/", "logs")
    assert not table.permits("anna", "configure", "/", "orders")
    assert not table.permits("anna", "write", "/shop", "orders")
    assert table.clear_permission("anna", "/")
    assert not table.clear_permission("anna", "/")
    assert not table.permits("anna", "write", "/", "orders")


def test_change_of_the_access_table_increases_its_epoch(table: AccessTable) -> None:
    epochs = [table.epoch.count]
    for change in (
        lambda: table.set_permission("anna", "/", ALL),
        lambda: table.set_topic_permission("anna", "/", "amq.topic", TopicPermission("a", "b")),
        lambda: table.clear_topic_permissions("anna", "/"),
        lambda: table.clear_permission("anna", "/"),
        lambda: table.set_tags("anna", ["management"]),
        lambda: table.set_password("anna", None),
        lambda: table.set_user_limits("anna", {"max-connections": 1}),
        lambda: table.set_vhost_limits("/", {"max-queues": 1}),
        lambda: table.forget_vhost("/"),
        lambda: table.set_file_users([]),
        lambda: table.delete_user("anna"),
    ):
        change()
        epochs.append(table.epoch.count)
    assert sorted(set(epochs)) == epochs


@pytest.mark.parametrize(
    ("vhost", "user", "said"),
    [("/none", "anna", "no vhost '/none'"), ("/", "otto", "no user 'otto'")],
)
def test_permissions_need_a_user_and_a_virtual_host(vhost: str, user: str, said: str, table: AccessTable) -> None:
    for change in (
        lambda: table.set_permission(user, vhost, ALL),
        lambda: table.clear_permission(user, vhost),
        lambda: table.set_topic_permission(user, vhost, "amq.topic", TopicPermission("", "")),
        lambda: table.clear_topic_permissions(user, vhost),
    ):
        with pytest.raises(NotFound, match=re.escape(said)):
            change()


def test_expression_that_re2_refuses_changes_nothing(table: AccessTable) -> None:
    epoch = table.epoch.count
    with pytest.raises(PreconditionFailed, match="user 'anna' in vhost '/': RE2 refuses"):
        table.set_permission("anna", "/", Permission("(?=x)", "", ""))
    assert not table.may_enter("anna", "/")
    assert table.epoch.count == epoch


def test_last_administrator_stays(table: AccessTable) -> None:
    for change in (
        lambda: table.delete_user("root"),
        lambda: table.set_tags("root", ["monitoring"]),
        lambda: table.put_user("root", HASH, []),
    ):
        with pytest.raises(PreconditionFailed, match="user 'root' is the last administrator"):
            change()
    table.set_tags("anna", ["administrator"])
    table.delete_user("root")
    assert table.names() == ["anna"]


def test_user_of_the_file_is_changed_there_only(table: AccessTable) -> None:
    table.set_file_users([file_user("anna")])
    for change in (
        lambda: table.delete_user("anna"),
        lambda: table.put_user("anna", HASH, []),
        lambda: table.set_password("anna", HASH),
        lambda: table.set_tags("anna", []),
        lambda: table.set_permission("anna", "/", ALL),
        lambda: table.set_user_limits("anna", {}),
    ):
        with pytest.raises(PreconditionFailed, match=re.escape("user 'anna' is in the settings file, [users]")):
            change()


def test_user_of_the_file_hides_one_of_the_store(table: AccessTable) -> None:
    assert not table.permits("anna", "read", "/", "q")
    table.set_file_users([file_user("anna")])
    assert table.permits("anna", "read", "/", "q")
    assert table.names() == ["anna", "root"]
    table.set_file_users(None)
    assert not table.permits("anna", "read", "/", "q")


def test_clearing_a_permission_of_guest_leaves_the_others() -> None:
    table = AccessTable({"/": 1, "/shop": 2})
    assert table.clear_permission("guest", "/")
    assert not table.may_enter("guest", "/")
    assert table.may_enter("guest", "/shop")


def test_deleted_virtual_host_leaves_no_permission(table: AccessTable) -> None:
    table.set_permission("anna", "/shop", ALL)
    table.set_topic_permission("anna", "/shop", "amq.topic", TopicPermission("", ""))
    table.set_vhost_limits("/shop", {"max-queues": 3})
    table.forget_vhost("/shop")
    assert table.user("anna").permissions == {}
    assert table.user("anna").topic_permissions == {}
    assert table.vhost_limit("/shop", "max-queues") == -1


def test_limits_are_set_and_removed(table: AccessTable) -> None:
    table.set_user_limits("anna", {"max-connections": 2, "max-channels": 0})
    assert [table.user_limit("anna", name) for name in ("max-connections", "max-channels")] == [2, 0]
    table.set_user_limits("anna", {"max-connections": -1})
    assert [table.user_limit("anna", name) for name in ("max-connections", "max-channels")] == [-1, 0]
    table.set_vhost_limits("/", {"max-queues": 5})
    assert table.vhost_limit("/", "max-queues") == 5
    assert table.vhost_limit("/shop", "max-queues") == -1
    table.set_vhost_limits("/", {"max-queues": -1})
    assert table.vhost_limits == {}


def test_unknown_and_endless_limits_are_refused() -> None:
    table = make_table("root")
    with pytest.raises(PreconditionFailed, match="unknown limit 'max-queues'; known are max-connections, max-channels"):
        table.set_user_limits("root", {"max-queues": 1})
    with pytest.raises(PreconditionFailed, match="limit max-queues must be"):
        table.set_vhost_limits("/", {"max-queues": 2**40})
    with pytest.raises(NotFound, match="no vhost '/none'"):
        table.set_vhost_limits("/none", {"max-queues": 1})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "must not be empty"),
        ("ä" * 128, "has 256 bytes; the most is 255"),
        ("an\nna", "has a control character or a lone surrogate"),
        ("\udfff", "has a control character or a lone surrogate"),
    ],
)
def test_bad_names_are_refused(name: str, said: str) -> None:
    table = make_table("root")
    with pytest.raises(PreconditionFailed, match=said):
        table.put_user(name, None, [])
    with pytest.raises(PreconditionFailed, match=said):
        table.set_tags("root", ["administrator", name])


def test_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    if not access_table.__file__.endswith(".py"):
        pytest.skip("constants are compiled in")
    table = make_table("root", "anna")
    monkeypatch.setattr(access_table, "USERS_MOST", 2)
    monkeypatch.setattr(access_table, "PERMISSIONS_MOST", 1)
    with pytest.raises(ResourceError, match="user 'otto' is refused: there are 2 users, the most"):
        table.put_user("otto", None, [])
    table.set_permission("anna", "/", ALL)
    table.set_permission("anna", "/", Permission("", "", ""))
    with pytest.raises(ResourceError, match="there are 1 permissions, the most"):
        table.set_permission("anna", "/shop", ALL)
    monkeypatch.setattr(access_table, "TEXTS_OCTETS", 60)
    with pytest.raises(ResourceError, match="would take more than 60 bytes"):
        table.set_permission("anna", "/", Permission("x" * 60, "", ""))


NAMES = st.sampled_from(["guest", "anna", "otto", "nobody"])
VHOSTS = st.sampled_from(["/", "/shop", "/none"])


class Changes(RuleBasedStateMachine):
    """Any changes: there is always an administrator, and the sums are those of the users."""

    def __init__(self) -> None:
        super().__init__()
        self.table = AccessTable({"/": 1, "/shop": 2})

    def attempt(self, change: str, *arguments: object) -> None:
        epoch = self.table.epoch.count
        try:
            getattr(self.table, change)(*arguments)
        except BrokerError:
            assert self.table.epoch.count == epoch

    @rule(name=NAMES, tags=st.lists(st.sampled_from(["administrator", "management"])))
    def put(self, name: str, tags: list[str]) -> None:
        self.attempt("put_user", name, HASH, tags)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.attempt("delete_user", name)

    @rule(name=NAMES, tags=st.lists(st.sampled_from(["administrator", "management"])))
    def tag(self, name: str, tags: list[str]) -> None:
        self.attempt("set_tags", name, tags)

    @rule(name=NAMES, vhost=VHOSTS, expression=st.sampled_from(["", ".*", "(", "^q"]))
    def permit(self, name: str, vhost: str, expression: str) -> None:
        self.attempt("set_permission", name, vhost, Permission(expression, ".*", ""))
        self.attempt("set_topic_permission", name, vhost, "amq.topic", TopicPermission(expression, "x"))

    @rule(name=NAMES, vhost=VHOSTS)
    def clear(self, name: str, vhost: str) -> None:
        self.attempt("clear_permission", name, vhost)
        self.attempt("clear_topic_permissions", name, vhost)

    @rule(vhost=VHOSTS)
    def forget(self, vhost: str) -> None:
        self.attempt("forget_vhost", vhost)

    @rule(names=st.lists(NAMES, unique=True))
    def reload(self, names: list[str]) -> None:
        self.table.set_file_users([file_user(name, "administrator") for name in names] or None)

    @invariant()
    def sums_are_those_of_the_users(self) -> None:
        users = list(self.table._stored.values())
        assert self.table._octets >= 0
        assert self.table._octets == sum(user.octets() for user in users)
        assert self.table._permissions == sum(
            len(user.permissions) + sum(map(len, user.topic_permissions.values())) for user in users
        )


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=40, stateful_step_count=20)


class Copies(Changes):
    """The same, with changes that another table has decided."""

    @rule(name=NAMES, tags=st.lists(st.sampled_from(["administrator", "management"])))
    def copy(self, name: str, tags: list[str]) -> None:
        self.table.copy_user(User(name, HASH, tags))
        assert self.table.find_stored(name) is not None

    @rule(name=NAMES, vhost=VHOSTS)
    def copy_permissions(self, name: str, vhost: str) -> None:
        self.table.copy_permission(PermissionRecord(name, vhost, ALL))
        self.table.copy_permission(TopicPermissionRecord(name, vhost, "amq.topic", TopicPermission("a", "b")))
        user = self.table.find_stored(name)
        if user is not None and user.source == STORE:
            assert user.permissions[vhost] is ALL
            assert "amq.topic" in user.topic_permissions[vhost]

    @rule(name=NAMES, vhost=VHOSTS)
    def drop(self, name: str, vhost: str) -> None:
        self.table.drop_permission(name, vhost)
        self.table.drop_topic_permission(name, vhost, "amq.topic")
        user = self.table.find_stored(name)
        assert user is None or (vhost not in user.permissions and vhost not in user.topic_permissions)

    @rule(name=NAMES)
    def drop_whole(self, name: str) -> None:
        self.table.drop_user(name)
        assert self.table.find_stored(name) is None


TestCopies = Copies.TestCase
TestCopies.settings = settings(max_examples=40, stateful_step_count=20)


def test_copied_user_keeps_its_permissions_and_counts_as_a_change(table: AccessTable) -> None:
    table.set_permission("anna", "/", ALL)
    epoch = table.epoch.count
    table.copy_user(User("anna", None, ["management"]))
    assert table.user("anna").tags == ["management"]
    assert table.may_enter("anna", "/")
    assert table.epoch.count > epoch


def test_copied_user_replaces_guest_that_was_never_changed() -> None:
    table = AccessTable({"/": 1})
    table.copy_user(User("anna", None, []))
    assert table.names() == ["anna"]


def test_copied_limits_of_a_vhost_are_replaced_and_removed() -> None:
    table = AccessTable({})
    table.copy_vhost_limits("/elsewhere", {"max-queues": 5})
    assert table.vhost_limit("/elsewhere", "max-queues") == 5
    table.copy_vhost_limits("/elsewhere", {})
    assert table.vhost_limits == {}
