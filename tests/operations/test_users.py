"""Users that are declared, changed, listed and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.password_hash import derive_scram_keys, rabbitmq_hash, scram_text
from penstock.connections.control_request import ControlRequest
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.work import finish
from tests.support.operation_calls import ask, asked, at_path

HASH = rabbitmq_hash("secret", b"salt").text()


def test_user_is_declared_changed_listed_and_deleted(driver: BrokerDriver) -> None:
    keys = derive_scram_keys("secret", b"0123456789abcdef")
    assert keys is not None
    declared = {"name": "anna", "tags": ["monitoring"], "password_hash": HASH, "scram_secret": scram_text(keys)}
    assert ask(driver, "user.declare", declared) == {"created": True}
    user = driver.broker.access.user("anna")
    assert user.scram == keys
    assert user.password_hash.verify("secret")
    assert asked(driver, "user.declare", name="anna") == {"created": False}
    assert user.tags == ["monitoring"], "what is not given stays"
    assert user.password_hash.verify("secret")
    asked(driver, "user.tags", name="anna", tags=[])
    asked(driver, "user.password", name="anna")
    (shown,) = asked(driver, "user.list", user="anna")["users"]
    assert shown == {
        "name": "anna", "tags": [], "source": "store", "password": False, "everywhere": False,
        "limits": {}, "permissions": [], "topic_permissions": [],
    }  # fmt: skip
    asked(driver, "user.delete", name="anna")
    with pytest.raises(NotFound, match="no user 'anna'"):
        asked(driver, "user.list", user="anna")


def test_new_user_must_not_be_there(driver: BrokerDriver) -> None:
    with pytest.raises(PreconditionFailed, match="user 'guest' is there already"):
        asked(driver, "user.declare", name="guest", new=True)


def test_users_are_listed_in_pages(driver: BrokerDriver) -> None:
    for number in range(5):
        asked(driver, "user.declare", name=f"user{number}")
    found: list[str] = []
    more: object = True
    while more:
        answer = asked(driver, "user.list", count=2, after=found[-1] if found else None)
        found += [each["name"] for each in answer["users"]]
        more = answer["more"]
    assert found == ["guest", "user0", "user1", "user2", "user3", "user4"]


def test_users_deleted_together_are_recorded_with_their_tags(driver: BrokerDriver) -> None:
    asked(driver, "user.declare", name="anna", tags=["monitoring"])
    row = at_path("POST /users/bulk-delete")
    request = ControlRequest(None, None, None, None, b'{"users": ["nobody", "anna"]}')
    steps: Any = row.run(driver, request)
    assert finish(steps) == {}
    (before,) = request.before  # type: ignore[misc]
    assert (before["name"], before["tags"]) == ("anna", ["monitoring"])
    with pytest.raises(PreconditionFailed, match=r"'guest' is the last administrator.*; 0 others are deleted"):
        asked(driver, "POST /users/bulk-delete", users=["guest"])


def test_user_has_open_connections_and_who_holds_it(driver: BrokerDriver) -> None:
    before = ask(driver, "GET /users/{user}", {"user": "guest"})["penstock"]
    assert (before["connections"], before["held"]) == (0, None)
    driver.broker.gates.block("user", "", "guest", "too loud")
    held = ask(driver, "GET /users/{user}", {"user": "guest"})["penstock"]["held"]
    assert held["reason"] == "too loud"
