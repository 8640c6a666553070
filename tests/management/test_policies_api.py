"""Control operations on policies."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, NotFound
from penstock.flow.work import finish
from penstock.management import policies_api
from penstock.management.control_request import ControlRequest
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver


def asked(driver: BrokerDriver, **fields: object) -> ControlRequest:
    request = ControlRequest(driver.broker.vhosts["/"], None, None, None, b"{}")
    request.fields = {name.replace("_", "-"): value for name, value in fields.items()}
    return request


def test_policy_that_is_set_tells_what_it_applies_to_and_what_has_no_effect() -> None:
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    for number in range(5):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    vhost.declare_exchange("q.x", "topic", {}, False, False, False)
    definition = {"max-length": 5, "ha-mode": "all", "ha-params": 2}
    found: Any = finish(policies_api.answer_set(driver, asked(driver, name="p", pattern="^q", definition=definition)))
    assert (found["created"], found["queues"], found["exchanges"]) == (True, 5, 1)
    assert found["sentences"] == [
        "it applies to queue q0, q1, q2 and 2 more",
        "it applies to exchange q.x",
        "ha-mode, ha-params have no effect here; kept, and exported again"
        "; it does not apply to quorum queues because of ha-mode",
    ]
    (listed,) = finish(policies_api.answer_list(driver, asked(driver, everywhere=True)))["policies"]  # type: ignore[misc]
    assert (listed["name"], listed["without_effect"]) == ("p", ["ha-mode", "ha-params"])
    cleared = finish(policies_api.answer_clear(driver, asked(driver, name="p")))
    assert (cleared["queues"], cleared["exchanges"]) == (5, 1)
    with pytest.raises(NotFound):
        finish(policies_api.answer_clear(driver, asked(driver, name="p")))


def test_policy_of_all_exchanges_names_the_default_one_as_permissions_do() -> None:
    driver = make_driver()
    fields = {"name": "p", "pattern": ".*", "apply-to": "exchanges", "definition": {"alternate-exchange": "lost"}}
    found: Any = finish(policies_api.answer_set(driver, asked(driver, **fields)))
    assert found["sentences"] == ["it applies to exchange amq.default, amq.direct, amq.fanout and 5 more"]


def test_policymaker_sets_policies_and_only_an_administrator_those_of_operators() -> None:
    driver = make_driver()
    driver.broker.add_vhost("other")
    driver.broker.access.put_user("maker", None, ["policymaker"])
    driver.broker.access.set_permission("maker", "/", Permission("", "", ""))
    connection = Dialogue(driver).connection
    connection.access = access_of(driver.broker, "maker")
    fields: dict[str, object] = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}
    for host in ("/", "other"):
        request = ControlRequest(driver.broker.vhosts[host], None, None, None, b"{}")
        request.fields = fields
        finish(policies_api.answer_set(driver, request))
    request = ControlRequest(driver.broker.vhosts["/"], connection, None, None, b'{"everywhere": true}')
    (listed,) = finish(policies_api.answer_list(driver, request))["policies"]  # type: ignore[misc]
    assert listed["vhost"] == "/"
    request.fields = fields
    assert finish(policies_api.answer_set(driver, request))["created"] is False
    request.fields = {**fields, "operator": True}
    for answer in (policies_api.answer_set, policies_api.answer_clear):
        with pytest.raises(AccessRefused, match="a change of operator policies"):
            finish(answer(driver, request))
