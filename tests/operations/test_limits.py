"""Limits of users and virtual hosts that are set, listed and removed."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from tests.support.operation_calls import asked


def test_limits_are_set_listed_and_removed(driver: BrokerDriver) -> None:
    asked(driver, "limit.set", user="guest", limits={"max-connections": 2})
    asked(driver, "limit.set", vhost="/", limits={"max-queues": 3, "max-connections": 4})
    assert asked(driver, "limit.list") == {
        "users": {"guest": {"max-connections": 2}},
        "vhosts": {"/": {"max-queues": 3, "max-connections": 4}},
    }
    asked(driver, "limit.set", user="guest", limits={"max-connections": -1})
    assert (
        asked(
            driver,
            "limit.list",
        )["users"]
        == {}
    )
    for fields in (
        {"limits": {}},
        {"user": "guest", "vhost": "/", "limits": {}},
        {"user": "guest", "limits": {"a": "b"}},
    ):
        with pytest.raises(PreconditionFailed):
            asked(driver, "limit.set", **fields)
