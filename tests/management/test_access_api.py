"""Control operations on users, permissions and limits."""

from __future__ import annotations

import json

import pytest

from penstock.access.password_hash import rabbitmq_hash
from penstock.access.scram import derive_scram_keys, scram_text
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.management import access_api as api
from penstock.management.control_request import ControlRequest
from tests.support.driven_connection import make_driver

HASH = rabbitmq_hash("secret", b"salt").text()
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def driver() -> BrokerDriver:
    return make_driver()


def request(driver: BrokerDriver, **fields: object) -> ControlRequest:
    return ControlRequest(driver.broker.vhost("/"), None, None, None, json.dumps(fields).encode())


def test_a_user_is_declared_changed_listed_and_deleted(driver: BrokerDriver) -> None:
    keys = derive_scram_keys("secret", b"0123456789abcdef")
    assert keys is not None
    declared = request(driver, name="anna", tags=["monitoring"], password_hash=HASH, scram_secret=scram_text(keys))
    assert api.declare_user(driver, declared) == {"created": True}
    user = driver.broker.access.user("anna")
    assert user.scram == keys
    assert user.password_hash is not None
    assert user.password_hash.verify("secret")
    assert api.declare_user(driver, request(driver, name="anna")) == {"created": False}
    assert user.tags == ["monitoring"], "what is not given stays"
    assert user.password_hash.verify("secret")
    api.set_tags(driver, request(driver, name="anna", tags=[]))
    api.set_password(driver, request(driver, name="anna"))
    (shown,) = api.list_users(driver, request(driver, user="anna"))["users"]  # type: ignore[misc]
    assert shown == {
        "name": "anna", "tags": [], "source": "store", "password": False, "everywhere": False,
        "limits": {}, "permissions": [], "topic_permissions": [],
    }  # fmt: skip
    api.delete_user(driver, request(driver, name="anna"))
    with pytest.raises(NotFound, match="no user 'anna'"):
        api.list_users(driver, request(driver, user="anna"))


def test_a_new_user_must_not_be_there(driver: BrokerDriver) -> None:
    with pytest.raises(PreconditionFailed, match="user 'guest' is there already"):
        api.declare_user(driver, request(driver, name="guest", new=True))


def test_permissions_are_set_and_cleared(driver: BrokerDriver) -> None:
    api.declare_user(driver, request(driver, name="anna"))
    api.set_permission(driver, request(driver, user="anna", vhost="/", **ALL))
    api.set_topic_permission(driver, request(driver, user="anna", vhost="/", exchange="amq.topic", write="a", read="b"))
    assert driver.broker.access.permits("anna", "write", "/", "q")
    assert driver.broker.access.topic_permission("anna", "/", "amq.topic") is not None
    assert api.clear_topic_permission(driver, request(driver, user="anna", vhost="/")) == {"cleared": 1}
    assert api.clear_permission(driver, request(driver, user="anna", vhost="/")) == {"cleared": True}
    assert api.clear_permission(driver, request(driver, user="anna", vhost="/")) == {"cleared": False}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user": "anna", "vhost": "/none", **ALL}, "no vhost '/none'"),
        ({"user": "otto", "vhost": "/", **ALL}, "no user 'otto'"),
        ({"user": "anna", "vhost": "/", **ALL, "read": "(?=x)"}, "read permission of user 'anna' in vhost '/': RE2 re"),
        ({"user": "anna", "vhost": "/", "configure": "", "write": ""}, "'read' must be a string"),
    ],
)
def test_a_bad_permission_is_refused_in_one_sentence(
    driver: BrokerDriver, fields: dict[str, object], said: str
) -> None:
    api.declare_user(driver, request(driver, name="anna"))
    with pytest.raises((NotFound, PreconditionFailed), match=said):
        api.set_permission(driver, request(driver, **fields))


def test_limits_are_set_listed_and_removed(driver: BrokerDriver) -> None:
    api.set_limits(driver, request(driver, user="guest", limits={"max-connections": 2}))
    api.set_limits(driver, request(driver, vhost="/", limits={"max-queues": 3, "max-connections": 4}))
    assert api.list_limits(driver, request(driver)) == {
        "users": {"guest": {"max-connections": 2}},
        "vhosts": {"/": {"max-queues": 3, "max-connections": 4}},
    }
    api.set_limits(driver, request(driver, user="guest", limits={"max-connections": -1}))
    assert api.list_limits(driver, request(driver))["users"] == {}
    for fields in (
        {"limits": {}},
        {"user": "guest", "vhost": "/", "limits": {}},
        {"user": "guest", "limits": {"a": "b"}},
    ):
        with pytest.raises(PreconditionFailed):
            api.set_limits(driver, request(driver, **fields))


def test_users_are_listed_in_pages(driver: BrokerDriver) -> None:
    for number in range(5):
        api.declare_user(driver, request(driver, name=f"user{number}"))
    found: list[str] = []
    more: object = True
    while more:
        answer = api.list_users(driver, request(driver, count=2, after=found[-1] if found else None))
        found += [each["name"] for each in answer["users"]]  # type: ignore[attr-defined]
        more = answer["more"]
    assert found == ["guest", "user0", "user1", "user2", "user3", "user4"]
