"""Queues by group: the same page whether the first queues are searched, or all are sorted."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.describe.lists import FIRST_MOST
from penstock.describe.queue_state import CHOICES
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.blocked_scene import GATED
from tests.support.control_requests import request as requested
from tests.support.control_requests import turns_until_answered, with_queues
from tests.support.driven_connection import Dialogue, publish, sampled
from tests.support.operation_calls import ask

LARGE = FIRST_MOST + 1
"""Size of a page for which all queues are sorted."""


@pytest.fixture
def scene(driver: BrokerDriver) -> BrokerDriver:
    """Queues of every group, in two virtual hosts, with different depths."""
    peer = Dialogue(driver)
    peer.confirm()
    peer.declare("quiet-1").declare("quiet-2")
    for name, count in (("shut-1", 4), ("shut-2", 5)):
        peer.declare(name, **GATED)
        for _ in range(count):
            peer.say(publish(name, b"x"))
    for name, count in (("left-1", 9), ("left-2", 2), ("busy", 3)):
        peer.declare(name, capacity_messages=100)
        for _ in range(count):
            peer.say(publish(name, b"x"))
    peer.declare("dying", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_max_length=1).declare("dead")
    for _ in range(3):
        peer.say(publish("dying", b"x"))
    driver.broker.add_vhost("other").declare_queue("quiet-0", {}, False, False, None, None)
    while driver.run_turn():
        pass
    sampled(driver, 1)
    sampled(driver, 2)
    peer.say(method_frame(1, spec.BASIC_GET, queue="busy", no_ack=True))
    sampled(driver, 3)
    return driver


def page(driver: BrokerDriver, **fields: object) -> Any:
    asked = {"kind": "queues", "everywhere": True, "page": 1, **fields}
    return ask(driver, "list", asked, access=access_of(driver.broker))


def names(found: Any) -> list[str]:
    return [each["name"] for each in found["items"]]


COUNTS = {"blocked": 2, "unread": 4, "moving": 1, "quiet": 3, "dead": 1}


def test_page_by_group_has_the_urgent_queues_first_and_the_counts_of_all_groups(scene: BrokerDriver) -> None:
    found = page(scene, groups=True, page_size=3)
    assert names(found) == ["shut-1", "shut-2", "dead"]
    assert found["penstock"]["groups"] == COUNTS
    queues = page(scene, page_size=100)["items"]
    assert found["penstock"]["depth"] == {
        unit: sum(each["penstock"]["depth"][unit] for each in queues) for unit in ("messages", "bytes")
    }
    assert (found["filtered_count"], found["total_count"]) == (10, 10)
    rest = page(scene, groups=True, page_size=3, page=2)
    assert names(rest) == ["dying", "left-1", "left-2"]
    assert rest["penstock"] == found["penstock"]


@pytest.mark.parametrize("choice", CHOICES)
def test_choice_of_a_group_leaves_its_count_and_those_of_others(scene: BrokerDriver, choice: str) -> None:
    found = page(scene, groups=True, state=choice)
    assert found["filtered_count"] == len(found["items"]) == COUNTS[choice]
    assert found["penstock"]["groups"] == COUNTS
    for each in found["items"]:
        state = each["penstock"]["state"]
        assert state["dead_letters"] if choice == "dead" else state["group"] == choice


def test_name_chooses_before_groups_are_counted(scene: BrokerDriver) -> None:
    found = page(scene, groups=True, named="LEFT")
    assert names(found) == ["left-1", "left-2"]
    assert found["penstock"]["groups"] == {**dict.fromkeys(CHOICES, 0), "unread": 2}
    assert found["penstock"]["depth"]["messages"] == 9 + 2
    assert found["total_count"] == 10


@pytest.mark.parametrize("sort", [[], ["messages"], ["-messages"], ["penstock.fill_percent"], ["-name"], ["type"]])
@pytest.mark.parametrize("choice", ["", *CHOICES])
@pytest.mark.parametrize("reverse", [False, True])
def test_searched_page_equals_the_sorted_page(
    scene: BrokerDriver, monkeypatch: pytest.MonkeyPatch, sort: list[str], choice: str, reverse: bool
) -> None:
    fields: dict[str, object] = {"groups": True, "sort": sort, "reverse": reverse}
    if choice:
        fields["state"] = choice
    searched = page(scene, **fields)
    sorted_ = page(scene, **fields, filters=["name~."])
    assert names(searched) == names(sorted_)
    assert searched["penstock"] == sorted_["penstock"]
    ranks = [each["penstock"]["state"]["rank"] for each in searched["items"]]
    assert ranks == sorted(ranks), "the order of groups is never reversed"


def test_state_without_groups_keeps_the_order_of_the_list(scene: BrokerDriver) -> None:
    found = page(scene, state="unread", sort=["-messages"])
    assert names(found) == ["left-1", "dead", "left-2", "dying"]
    assert "penstock" not in found
    plain = ask(scene, "list", {"kind": "queues", "state": "blocked"}, access=access_of(scene.broker))
    assert names(plain) == ["shut-1", "shut-2"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"state": "closed"}, "'state' must be one of blocked, unread, moving, quiet, dead, not 'closed'"),
        ({"state": 3}, "'state' must be one of blocked, unread, moving, quiet, dead, not 3"),
        ({"groups": True, "page": 0}, "'groups' counts the queues of a page: give 'page' too"),
        ({"kind": "users", "groups": True}, "'state' and 'groups' choose queues: a list of users has no groups"),
    ],
)
def test_unknown_state_is_refused_with_the_known_ones(
    scene: BrokerDriver, fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(PreconditionFailed, match="^" + reason.replace("'", ".")):
        page(scene, **fields)


def test_page_of_groups_costs_a_share_of_a_turn() -> None:
    driver = with_queues()
    plain = turns_until_answered(driver, requested("list", kind="queues", page=1, sort=["-messages"]))
    driver = with_queues()
    grouped = turns_until_answered(driver, requested("list", kind="queues", page=1, sort=["-messages"], groups=True))
    assert max(grouped) <= 2 * max(plain)
    assert sum(grouped) <= 2 * sum(plain)
