"""Settings of patterns, listed and changed by command."""

from __future__ import annotations

import json

import pytest

from penstock.access.permission import Permission
from penstock.flow.work import finish
from penstock.operations.settings import list_settings
from penstock.protocols.common.control_request import ControlRequest
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.access_of import access_of
from tests.support.control_requests import MANY, answers, request, turns_until_answered, with_patterns
from tests.support.driven_connection import make_driver


def test_settings_of_all_patterns_are_listed_whole() -> None:
    driver = with_patterns()
    turns_until_answered(driver, request("settings.list"))
    (answer,) = answers(driver)
    assert [entry["pattern"] for entry in answer["settings"]] == sorted(f"p{number}.#" for number in range(MANY))


@pytest.mark.parametrize(
    ("user", "seen"),
    [
        ("looker", ["broker:", "queue:#", "user:looker", "vhost:/"]),
        ("watcher", ["broker:", "queue:#", "user:looker", "user:other", "vhost:/", "vhost:moon"]),
    ],
)
def test_names_of_other_users_and_virtual_hosts_need_the_tag_monitoring(user: str, seen: list[str]) -> None:
    driver = make_driver()
    broker = driver.broker
    broker.add_vhost("moon")
    for name, tag in (("looker", "management"), ("watcher", "monitoring"), ("other", "")):
        broker.access.put_user(name, None, [tag] if tag else [])
        broker.access.set_permission(name, "/", Permission("", "", ""))
    for scope, pattern, words in (
        ("broker", "", {"capacity-bytes": 10**9}),
        ("queue", "#", {"hold-deadline": 5}),
        ("user", "other", {"rate-messages": 5}),
        ("user", "looker", {"rate-messages": 5}),
        ("vhost", "moon", {"capacity-bytes": 10**6}),
        ("vhost", "/", {"capacity-bytes": 10**6}),
    ):
        at_once.set_all(broker, [(scope, pattern, read_settings(scope, pattern, dict(words)))])
    request = ControlRequest(broker.vhost("/"), None, None, None, json.dumps({}).encode(), access_of(broker, user))
    found = finish(list_settings(driver, request))["settings"]
    assert isinstance(found, list)
    assert sorted(f"{each['scope']}:{each['pattern']}" for each in found) == seen
