"""Definitions of users, permissions and limits: compared, imported, taken back and exported again."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.password_hash import hash_password, rabbitmq_hash
from penstock.access.permission import ADMINISTRATOR, Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from tests.support.at_once import import_definitions
from tests.support.driven_connection import make_driver
from tests.support.exports import exported
from tests.support.users import file_users

HASH = rabbitmq_hash("secret", b"salt").text()
ANNA = {"name": "anna", "password_hash": HASH, "tags": ["monitoring"], "limits": {"max-connections": 3}}
DEFINITIONS: dict[str, list[dict[str, object]]] = {
    "users": [{"name": "root", "password_hash": HASH, "tags": "administrator"}, ANNA],
    "permissions": [{"user": "anna", "vhost": "/", "configure": "^q", "write": "", "read": ".*"}],
    "topic_permissions": [{"user": "anna", "vhost": "/", "exchange": "amq.topic", "write": "a", "read": "b"}],
    "parameters": [{"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": 9}}],
}


def differences(driver: BrokerDriver, definitions: dict[str, Any]) -> list[tuple[str, str]]:
    found = import_definitions(driver, definitions, None, dry_run=True)
    return [(each["subject"], each["change"]) for each in found["differences"]]


def test_users_permissions_and_limits_are_imported_and_exported(driver: BrokerDriver) -> None:
    assert [change for _, change in differences(driver, DEFINITIONS)] == ["created"] * 5
    import_definitions(driver, DEFINITIONS, None)
    table = driver.broker.access
    user = table.user("anna")
    assert user.password_hash.verify("secret")
    assert (user.tags, user.limits) == (["monitoring"], {"max-connections": 3})
    assert table.user("root").tags == [ADMINISTRATOR]
    assert table.permits("anna", "configure", "/", "q1")
    assert not table.permits("anna", "write", "/", "q1")
    assert table.topic_permission("anna", "/", "amq.topic") is not None
    assert table.vhost_limit("/", "max-queues") == 9
    assert differences(driver, DEFINITIONS) == []
    users = {each["name"]: each for each in exported(driver, "users")}
    assert users["anna"] == {**ANNA, "hashing_algorithm": "rabbit_password_hashing_sha256"}
    assert list(users) == ["guest", "root", "anna"], "guest is stored with the first other user"
    assert [each for each in exported(driver, "permissions") if each["user"] == "anna"] == DEFINITIONS["permissions"]
    assert exported(driver, "topic_permissions") == DEFINITIONS["topic_permissions"]
    assert exported(driver, "parameters") == DEFINITIONS["parameters"]


def test_scrypt_hash_is_exported_under_a_key_that_rabbitmq_ignores(driver: BrokerDriver) -> None:
    """RabbitMQ decodes `password_hash` from base64, and refuses the whole file if it cannot."""
    ours = hash_password("secret", b"salt" * 4)
    stored = {"name": "eve", "password_hash": ours.text(), "hashing_algorithm": "scrypt", "tags": []}
    import_definitions(driver, {"users": [stored]}, None)
    (eve,) = [each for each in exported(driver, "users") if each["name"] == "eve"]
    assert (eve["password_hash"], eve["hashing_algorithm"]) == ("", "rabbit_password_hashing_sha256")
    assert eve["penstock_password_hash"] == ours.text()
    assert differences(driver, {"users": [eve]}) == []
    other = make_driver()
    import_definitions(other, {"users": [eve]}, None)
    assert other.broker.access.user("eve").password_hash == ours
    with pytest.raises(BrokerError, match="password_hash of scrypt must be"):
        import_definitions(other, {"users": [{**eve, "penstock_password_hash": "$scrypt$no"}]}, None)


def test_export_is_imported_elsewhere_with_nothing_changed(driver: BrokerDriver) -> None:
    import_definitions(driver, DEFINITIONS, None)
    given = {section: exported(driver, section) for section in DEFINITIONS}
    other = make_driver()
    import_definitions(other, given, None)
    assert {section: exported(other, section) for section in DEFINITIONS} == given
    assert other.broker.access.user("guest").password_hash.verify("guest")  # type: ignore[union-attr]


def test_export_with_guest_changes_nothing_where_it_was_made(driver: BrokerDriver) -> None:
    import_definitions(driver, {"users": [ANNA]}, None)  # With it guest is stored.
    guest = driver.broker.access.user("guest")
    before = guest.password_hash
    given = {section: exported(driver, section) for section in DEFINITIONS}
    assert [user["name"] for user in given["users"]] == ["guest", "anna"]
    assert [permission["user"] for permission in given["permissions"]] == ["guest"]
    assert differences(driver, given) == []
    import_definitions(driver, given, None)
    assert guest.password_hash is before
    assert guest.permissions == {}, "it may do everything everywhere, also in later virtual hosts"
    assert differences(make_driver(), given) == [("user 'anna'", "created")]
    other = {**given["users"][0], "password_hash": rabbitmq_hash("other", b"salt").text()}
    assert differences(driver, {"users": [other]}) == [("user 'guest'", "changed")]


def test_changes_of_users_are_listed_without_secrets(driver: BrokerDriver) -> None:
    import_definitions(driver, DEFINITIONS, None)
    changed = {
        "users": [{**ANNA, "password_hash": rabbitmq_hash("other", b"salt").text(), "tags": []}],
        "permissions": [{**DEFINITIONS["permissions"][0], "write": "^w"}],
        "topic_permissions": [{**DEFINITIONS["topic_permissions"][0], "read": "c"}],
        "parameters": [{**DEFINITIONS["parameters"][0], "value": {}}],
    }
    answer = import_definitions(driver, changed, None, dry_run=True)
    assert [each["change"] for each in answer["differences"]] == ["changed"] * 4
    assert str(changed["users"][0]["password_hash"]) not in str(answer)
    import_definitions(driver, changed, None)
    user = driver.broker.access.user("anna")
    assert user.password_hash.verify("other")
    assert user.tags == []
    assert driver.broker.access.vhost_limits == {}


def test_error_takes_everything_back(driver: BrokerDriver) -> None:
    import_definitions(driver, DEFINITIONS, None)
    before = {section: exported(driver, section) for section in DEFINITIONS}
    changed = {
        "users": [{**ANNA, "tags": []}, {"name": "otto"}],
        "permissions": [
            {**DEFINITIONS["permissions"][0], "write": "^w"},
            {"user": "otto", "vhost": "/", "configure": "", "write": "", "read": ""},
        ],
        "topic_permissions": [
            {**DEFINITIONS["topic_permissions"][0], "read": "c"},
            {**DEFINITIONS["topic_permissions"][0], "user": "nobody"},
        ],
    }
    with pytest.raises(BrokerError, match=r"line 1, topic_permissions\[1\]: no user 'nobody'; nothing was imported"):
        import_definitions(driver, changed, None)
    assert {section: exported(driver, section) for section in DEFINITIONS} == before


@pytest.mark.parametrize(
    ("section", "entry", "reason"),
    [
        ("users", {"name": "x", "password_hash": "AAAA"}, "password_hash has 3 bytes"),
        ("users", {"name": "x", "password_hash": HASH, "hashing_algorithm": "rot13"}, "unknown hashing_algorithm"),
        ("users", {"name": "x", "tags": 7}, "'tags' must be a list of strings"),
        ("users", {"name": "x", "limits": {"max-hats": 1}}, "unknown limit 'max-hats'"),
        ("users", {"name": "guest", "tags": []}, "the last administrator"),
        ("permissions", {"user": "guest", "vhost": "/", "configure": "(?=x)", "write": "", "read": ""}, "RE2 refuses"),
        ("permissions", {"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""}, "no user 'nobody'"),
        ("permissions", {"user": "guest", "vhost": "/none", "configure": "", "write": "", "read": ""}, "no vhost '/no"),
        ("parameters", {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": "x"}},
         "limit max-queues must be a whole number"),
    ],
)  # fmt: skip
def test_bad_entry_is_refused_with_its_reason(
    driver: BrokerDriver, section: str, entry: dict[str, object], reason: str
) -> None:
    with pytest.raises(BrokerError, match="line 1") as refused:
        import_definitions(driver, {section: [entry]}, None)
    assert reason.replace("\\", "") in str(refused.value)
    assert driver.broker.access.names() == ["guest"]
    assert driver.broker.access.stored() == [] or driver.broker.access.user("guest").permissions == {}


def test_user_of_the_settings_file_is_left_out_with_a_sentence(driver: BrokerDriver) -> None:
    driver.broker.access.set_file_users(file_users({"guest": "guest", "anna": "a"}, ("guest",)))
    answer = import_definitions(driver, {**DEFINITIONS, "parameters": []}, None)
    said = "it is in the settings file, [users], which counts; this entry is left out"
    assert sum(said in note for note in answer["notes"]) == 3
    assert driver.broker.access.user("anna").tags == []
    assert "anna" not in [each["name"] for each in exported(driver, "users")]


def test_password_in_clear_is_hashed(driver: BrokerDriver) -> None:
    given = {"users": [{"name": "anna", "password": "hush", "tags": ""}]}
    import_definitions(driver, given, None)
    assert differences(driver, given) == []
    (shown,) = (each for each in exported(driver, "users") if each["name"] == "anna")
    assert "hush" not in str(shown)
    user = driver.broker.access.user("anna")
    assert user.password_hash.verify("hush")
    assert user.password_hash.needs_rehash()


def test_hash_that_a_login_has_replaced_is_the_same_in_definitions(driver: BrokerDriver) -> None:
    import_definitions(driver, DEFINITIONS, None)
    table = driver.broker.access
    table.set_password("anna", hash_password("secret", b"sixteen octets.."), same=True)
    assert differences(driver, DEFINITIONS) == []
    import_definitions(driver, DEFINITIONS, None)
    user = table.user("anna")
    assert not user.password_hash.needs_rehash(), "the better hash stays"
    table.set_password("anna", hash_password("other", b"sixteen octets.."))
    assert differences(driver, DEFINITIONS) == [("user 'anna'", "changed")]


def test_permission_of_guest_is_put_back_after_an_import_that_fails(driver: BrokerDriver) -> None:
    narrow = {"user": "guest", "vhost": "/", "configure": "", "write": "^q", "read": ".*"}
    with pytest.raises(BrokerError, match="no vhost 'nowhere'"):
        import_definitions(driver, {"permissions": [narrow], "queues": [{"name": "q", "vhost": "nowhere"}]}, None)
    assert driver.broker.access.user("guest").permission("/") == Permission(".*", ".*", ".*")
