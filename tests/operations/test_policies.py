"""Control operations on policies."""

from __future__ import annotations

import pytest

from penstock.access.permission import Permission
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import ask


def test_policy_that_is_set_lists_its_objects_and_keys_without_effect() -> None:
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    for number in range(5):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    vhost.declare_exchange("q.x", "topic", {}, False, False, False)
    definition = {"max-length": 5, "ha-mode": "all", "ha-params": 2}
    found = ask(driver, "policy.set", {"name": "p", "pattern": "^q", "definition": definition})
    assert (found["created"], found["queues"], found["exchanges"]) == (True, 5, 1)
    assert found["sentences"] == [
        "it applies to queue q0, q1, q2 and 2 more",
        "it applies to exchange q.x",
        "ha-mode, ha-params have no effect here; kept, and exported again"
        "; it does not apply to quorum queues because of ha-mode",
        "overflow changes for queues q0, q1, q2 and 2 more: drops its oldest messages above 5 ready messages and holds "
        "publishers at 104,857,600 bytes; before: holds publishers at 104,857,600 bytes",
    ]
    (listed,) = ask(driver, "policy.list", {"everywhere": True})["policies"]
    assert (listed["name"], listed["without_effect"]) == ("p", ["ha-mode", "ha-params"])
    cleared = ask(driver, "policy.clear", {"name": "p"})
    assert (cleared["queues"], cleared["exchanges"]) == (5, 1)
    assert cleared["overflow"][0].startswith("overflow changes for queues q0, q1, q2 and 2 more: holds publishers at")
    with pytest.raises(NotFound):
        ask(driver, "policy.clear", {"name": "p"})


def test_policy_of_all_exchanges_names_the_default_one_as_permissions_do() -> None:
    driver = make_driver()
    fields = {"name": "p", "pattern": ".*", "apply-to": "exchanges", "definition": {"alternate-exchange": "lost"}}
    found = ask(driver, "policy.set", fields)
    assert found["sentences"] == ["it applies to exchange amq.default, amq.direct, amq.fanout and 5 more"]


def test_policy_without_matching_queues_says_that_it_applies_to_new_ones() -> None:
    driver = make_driver()
    found = ask(driver, "policy.set", {"name": "p", "pattern": "^q", "definition": {"max-length": 5}})
    assert found["sentences"] == ["no queue matches yet; it will apply to new ones"]


def test_policymaker_sets_policies_and_no_operator_policies() -> None:
    driver = make_driver()
    driver.broker.add_vhost("other")
    driver.broker.access.put_user("maker", None, ["policymaker"])
    driver.broker.access.set_permission("maker", "/", Permission("", "", ""))
    connection = Dialogue(driver).connection
    connection.access = access_of(driver.broker, "maker")
    fields: dict[str, object] = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}
    for host in ("/", "other"):
        ask(driver, "policy.set", fields, vhost=host)
    (listed,) = ask(driver, "policy.list", {"everywhere": True}, connection)["policies"]
    assert listed["vhost"] == "/"
    assert ask(driver, "policy.set", fields, connection)["created"] is False
    with pytest.raises(AccessRefused, match="a change of operator policies"):
        ask(driver, "policy.set", {**fields, "operator": True}, connection)
    with pytest.raises(AccessRefused, match="a change of operator policies"):
        ask(driver, "policy.clear", {"name": "p", "operator": True}, connection)


@pytest.mark.parametrize("key", ["delayed-retry-type", "delayed-retry-min", "delayed-retry-max"])
def test_policy_with_a_delayed_retry_is_refused(key: str) -> None:
    driver = make_driver()
    with pytest.raises(PreconditionFailed, match=f"{key} of RabbitMQ is not supported here; set retry-delay"):
        ask(driver, "policy.set", {"name": "p", "pattern": "^q", "definition": {key: 1000}})
    assert ask(driver, "policy.list", {"everywhere": True})["policies"] == []
