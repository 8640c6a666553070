"""Settings of patterns, listed and changed by command."""

from __future__ import annotations

import json

import pytest

from penstock.access.permission import Permission
from penstock.connections.control_request import ControlRequest
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.flow.work import finish
from penstock.operations.settings import list_settings
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.access_of import access_of
from tests.support.control_requests import MANY, answers, request, turns_until_answered, with_patterns
from tests.support.driven_connection import make_driver
from tests.support.operation_calls import ask


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


# Virtual hosts


@pytest.fixture
def two() -> BrokerDriver:
    """Return a broker with a queue of the same name in two virtual hosts."""
    driver = make_driver()
    driver.broker.add_vhost("shop")
    for name in ("/", "shop"):
        driver.broker.vhost(name).declare_queue("orders", {}, False, False, None, None)
    return driver


def test_pattern_counts_in_the_virtual_host_of_the_request(two: BrokerDriver) -> None:
    guest = access_of(two.broker, "guest")
    named = {"scope": "queue", "pattern": "orders"}
    fields = {**named, "settings": {"capacity-messages": 5}}
    answer = ask(two, "settings.set", fields, vhost="shop", access=guest)
    assert (answer["pattern"], answer["vhost"], answer["matches"]) == ("orders", "shop", 1)
    assert answer["sentences"][0] == "queue 'orders' matches orders"
    capacities = [two.broker.vhost(name).queue("orders").thresholds.capacity.as_dict() for name in ("/", "shop")]
    assert [each["messages"] for each in capacities] == [None, 5]
    assert [len(ask(two, "settings.list", {}, vhost=name, access=guest)["settings"]) for name in ("/", "shop")] == [
        0,
        1,
    ]
    (row,) = ask(two, "settings.list", {"everywhere": True}, access=guest)["settings"]
    assert (row["pattern"], row["vhost"]) == ("orders", "shop")
    with pytest.raises(NotFound, match="nothing is set for queue 'orders'"):
        ask(two, "settings.unset", named, access=guest)
    assert ask(two, "settings.unset", named, vhost="shop", access=guest)["settings"] == {}


def test_pattern_for_all_virtual_hosts_names_queues_with_theirs(two: BrokerDriver) -> None:
    guest = access_of(two.broker, "guest")
    fields = {"scope": "queue", "pattern": "#", "settings": {"capacity-messages": 5}, "everywhere": True}
    answer = ask(two, "settings.set", fields, vhost="shop", access=guest)
    assert "vhost" not in answer
    assert answer["sentences"][0] == "queue '#' of all virtual hosts matches %2F/orders, shop/orders"
    for name in ("/", "shop"):
        assert two.broker.vhost(name).queue("orders").thresholds.capacity.as_dict()["messages"] == 5


def test_name_with_a_slash_is_one_name(two: BrokerDriver) -> None:
    guest = access_of(two.broker, "guest")
    for everywhere, stored in ((False, "shop/a/b"), (True, "*/a/b")):
        fields = {"scope": "queue", "pattern": "a/b", "settings": {"capacity-messages": 5}, "everywhere": everywhere}
        assert ask(two, "settings.set", fields, vhost="shop", access=guest)["pattern"] == "a/b"
        assert two.broker.table.entry("queue", stored) is not None


def test_everywhere_is_refused_for_settings_of_the_broker(two: BrokerDriver) -> None:
    guest = access_of(two.broker, "guest")
    fields = {"scope": "user", "pattern": "anna", "settings": {"weight": 2}, "everywhere": True}
    with pytest.raises(PreconditionFailed, match="settings of scope user are of the whole broker"):
        ask(two, "settings.set", fields, access=guest)


@pytest.mark.parametrize("pattern", ["amq.news", "amq.default", "amq.news/eu.#"])
def test_name_of_an_exchange_that_cannot_be_declared_is_refused(two: BrokerDriver, pattern: str) -> None:
    guest = access_of(two.broker, "guest")
    fields = {"scope": "address", "pattern": pattern, "settings": {"capacity-messages": 5}}
    with pytest.raises(
        PreconditionFailed, match=r"can never match: of exchanges .* amq\. there are only amq\.direct, "
    ):
        ask(two, "settings.set", fields, access=guest)
    for possible in ("amq.*", "amq.topic", "amq.topic/eu.#"):
        ask(two, "settings.set", {**fields, "pattern": possible}, access=guest)


def test_policymaker_sets_patterns_where_it_may_enter(two: BrokerDriver) -> None:
    two.broker.access.put_user("maker", None, ["policymaker"])
    two.broker.access.set_permission("maker", "shop", Permission("", "", ""))
    access = access_of(two.broker, "maker")
    fields = {"scope": "queue", "pattern": "#", "settings": {"capacity-messages": 5}}
    ask(two, "settings.set", fields, vhost="shop", access=access)
    for wrong in ({**fields, "everywhere": True}, fields):
        with pytest.raises(AccessRefused):
            ask(two, "settings.set", wrong, vhost="/", access=access)
