"""Users, their permissions, policies and parameters as rows."""

from __future__ import annotations

from penstock.access.permission import Permission, TopicPermission
from penstock.core.settings.policies import read_policy
from penstock.core.settings.table import Parameter
from penstock.describe.table import Reading
from penstock.describe.vhost import USER, parameter_row, policy_row, topics_of, user_row
from tests.support.driven_connection import make_driver


def test_user_row_has_permissions_and_tells_that_there_is_a_password_without_it() -> None:
    table = make_driver().broker.access
    table.put_user("anna", None, ["monitoring"])
    table.set_permission("anna", "/", Permission("", "^a", ".*"))
    table.set_topic_permission("anna", "/", "amq.topic", TopicPermission("^eu", ""))
    row = user_row(table.user("anna"))
    assert (row["name"], row["tags"], row["password"], row["everywhere"]) == ("anna", ["monitoring"], False, False)
    assert row["permissions"] == [{"vhost": "/", "configure": "", "write": "^a", "read": ".*"}]
    topic = {"vhost": "/", "exchange": "amq.topic", "write": "^eu", "read": ""}
    assert row["topic_permissions"] == topics_of(table.user("anna"), "/") == [topic]
    assert topics_of(table.user("anna"), "other") == []
    assert user_row(table.user("guest"))["password"] is True


def test_user_without_a_password_that_is_shown_has_an_empty_hash_as_in_rabbitmq() -> None:
    table = make_driver().broker.access
    row = USER.row(table.user("guest"), Reading(0.0))
    assert (row["password_hash"], row["hashing_algorithm"]) == ("", "rabbit_password_hashing_sha256")
    assert row["penstock"] == {"password": True, "source": table.user("guest").source}


def test_policy_and_parameter_rows_have_their_virtual_host_but_for_a_global_parameter() -> None:
    policy = policy_row(read_policy("/", "p", {"pattern": "^a", "definition": {"max-length": 5}}, False))
    assert (policy["vhost"], policy["name"], policy["pattern"]) == ("/", "p", "^a")
    of_vhost = {"component": "shovel", "vhost": "/", "name": "s", "value": 1}
    assert parameter_row(Parameter("shovel", "/", "s", 1)) == of_vhost
    assert parameter_row(Parameter("", "", "s", 1)) == {"name": "s", "value": 1}
