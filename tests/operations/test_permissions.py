"""Permissions and topic permissions that are set and cleared."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from tests.support.operation_calls import ask, asked

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


def test_permissions_are_set_and_cleared(driver: BrokerDriver) -> None:
    asked(driver, "user.declare", name="anna")
    asked(driver, "permission.set", user="anna", vhost="/", **ALL)
    asked(driver, "topic-permission.set", user="anna", vhost="/", exchange="amq.topic", write="a", read="b")
    assert driver.broker.access.permits("anna", "write", "/", "q")
    assert driver.broker.access.topic_permission("anna", "/", "amq.topic") is not None
    assert asked(driver, "topic-permission.clear", user="anna", vhost="/") == {"vhost": "/", "cleared": 1}
    assert asked(driver, "permission.clear", user="anna", vhost="/") == {"vhost": "/", "cleared": True}
    assert asked(driver, "permission.clear", user="anna", vhost="/") == {"vhost": "/", "cleared": False}


def test_permission_without_a_virtual_host_is_of_that_of_the_request(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("shop")
    asked(driver, "user.declare", name="anna")
    topic = {"user": "anna", "exchange": "amq.topic", "write": "a", "read": "b"}
    assert ask(driver, "permission.set", {"user": "anna", **ALL}, vhost="shop") == {"vhost": "shop"}
    assert ask(driver, "topic-permission.set", topic, vhost="shop") == {"vhost": "shop"}
    assert driver.broker.access.user("anna").permissions.keys() == {"shop"}
    assert asked(driver, "permission.list", user="anna")["users"][0]["permissions"] == []
    for seen in (ask(driver, "permission.list", {"user": "anna"}, vhost="shop"),
                 asked(driver, "permission.list", user="anna", everywhere=True)):  # fmt: skip
        (anna,) = seen["users"]
        assert [each["vhost"] for each in (*anna["permissions"], *anna["topic_permissions"])] == ["shop", "shop"]
    assert ask(driver, "topic-permission.clear", {"user": "anna"}, vhost="shop")["cleared"] == 1
    assert ask(driver, "permission.clear", {"user": "anna"}, vhost="shop") == {"vhost": "shop", "cleared": True}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user": "anna", "vhost": "/none", **ALL}, "no vhost '/none'"),
        ({"user": "otto", "vhost": "/", **ALL}, "no user 'otto'"),
        ({"user": "anna", "vhost": "/", **ALL, "read": "(?=x)"}, "read permission of user 'anna' in vhost '/': RE2 re"),
        ({"user": "anna", "vhost": "/", "configure": "", "write": ""}, "'read' must be a string"),
    ],
)
def test_bad_permission_is_refused_in_one_sentence(driver: BrokerDriver, fields: dict[str, object], said: str) -> None:
    asked(driver, "user.declare", name="anna")
    with pytest.raises((NotFound, PreconditionFailed), match=said):
        asked(driver, "permission.set", **fields)


def test_permission_listing_has_the_virtual_hosts_of_each_user(driver: BrokerDriver) -> None:
    asked(driver, "user.declare", name="anna")
    asked(driver, "permission.set", user="anna", vhost="/", **ALL)
    own = {"user": "anna", "vhost": "/", **ALL}
    assert asked(driver, "GET /permissions") == [{"user": "guest", "vhost": "/", **ALL}, own]
    assert asked(driver, "GET /permissions", user="anna") == [own]
    assert asked(driver, "GET /permissions", user="anna", vhost="/other") == []
