"""The preview of a redrive: reasons, targets, and what happens there; nothing moves."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import MANAGEMENT, Permission
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from penstock.operations.redrive_preview import Preview
from penstock.operations.transfers import REDRIVE, Wanted
from tests.operations.test_transfers import bodies, declare, put, reject
from tests.support.access_of import access_of
from tests.support.operation_calls import ask, request_of

PATH = "GET /penstock/queues/{vhost}/{name}/redrive"


def preview(driver: BrokerDriver, user: str = "guest", **fields: object) -> Any:
    return ask(driver, PATH, {"queue": "dead", **fields}, access=access_of(driver.broker, user))


@pytest.fixture
def letters(driver: BrokerDriver) -> BrokerDriver:
    declare(driver, "dead")
    for name in ("orders", "stock"):
        declare(driver, name, x_dead_letter_exchange="", x_dead_letter_routing_key="dead", capacity_messages=10,
                stop_messages=4, resume_messages=2)  # fmt: skip
    put(driver, "orders", b"1", b"2", b"3", region="EU")
    put(driver, "stock", b"4")
    reject(driver, "orders", 3)
    reject(driver, "stock", 1)
    put(driver, "dead", b"never died")
    return driver


def test_preview_counts_reasons_and_targets_and_moves_nothing(letters: BrokerDriver) -> None:
    found = preview(letters)
    assert found["reasons"] == {"rejected": 4, "unknown": 1}
    assert [(each["queue"], each["messages"], each["text"]) for each in found["targets"]] == [
        ("orders", 3, "they go in at once"),
        ("stock", 1, "they go in at once"),
    ]
    assert found["left"] == [
        {"reason": "the broker has written no death headers into them", "queue": None, "messages": 1}
    ]
    assert (found["examined"], found["unmatched"], found["unread"]) == (5, 0, 0)
    assert len(bodies(letters, "dead")) == 5
    assert bodies(letters, "orders") == []


def test_preview_takes_the_choice_of_a_redrive(letters: BrokerDriver) -> None:
    assert preview(letters, body="2")["reasons"] == {"rejected": 1}
    assert preview(letters, reason="expired")["targets"] == []
    assert preview(letters, filter="region = 'EU'")["unmatched"] == 2
    found = preview(letters, positions="2,4")
    assert [(each["queue"], each["messages"]) for each in found["targets"]] == [("orders", 1), ("stock", 1)]
    assert preview(letters, count=2)["targets"][0]["messages"] == 2


def test_preview_of_positions_looks_between_the_first_and_the_last(letters: BrokerDriver) -> None:
    found = preview(letters, positions=[3, 4])
    assert (found["examined"], found["unmatched"], found["unread"]) == (2, 0, 0)
    assert preview(letters, positions=[4, 99])["unread"] == 0
    bounded = Preview(Wanted(letters, request_of(letters, queue="dead", positions=[1, 4]), REDRIVE))
    bounded.examined_most = 2
    assert finish(bounded.steps(letters))["unread"] == 1


def test_preview_says_what_happens_at_a_closed_or_nearly_full_target(letters: BrokerDriver) -> None:
    put(letters, "orders", *[b"x"] * 3)
    assert preview(letters)["targets"][0]["text"] == "room for 2 before its gate closes: the others wait"
    put(letters, "orders", *[b"x"] * 3)
    letters.broker.vhosts["/"].queues["orders"].update_gate(letters.broker.now)
    letters.begin(letters.broker.now + 3.3)
    target = preview(letters)["targets"][0]
    assert target["text"] == "closed 3.3 s: they wait until it opens"
    assert (target["ahead"], target["state"]["group"]) == (0, "blocked")


def test_preview_of_a_target_that_the_operator_holds_says_that_letters_wait(letters: BrokerDriver) -> None:
    access = access_of(letters.broker)
    ask(letters, "block", {"queue": "orders", "reason": "upgrade"}, access=access)
    letters.begin(letters.broker.now + 3.3)
    orders, stock = preview(letters)["targets"]
    assert orders["text"] == "held by the operator 3.3 s: they wait until it opens"
    assert orders["state"]["held"]["reason"].endswith("upgrade")
    assert stock["text"] == "they go in at once"


def test_preview_names_what_a_user_may_not_write(letters: BrokerDriver) -> None:
    access = letters.broker.access
    access.put_user("anna", None, [MANAGEMENT])
    access.set_permission("anna", "/", Permission("", "stock", ".*"))
    found = preview(letters, "anna")
    assert [each["queue"] for each in found["targets"]] == ["stock"]
    assert any("refused for user 'anna'" in str(each["reason"]) for each in found["left"])


def test_preview_looks_at_a_bounded_number_and_counts_the_rest(letters: BrokerDriver) -> None:
    look = Preview(Wanted(letters, request_of(letters, queue="dead"), REDRIVE))
    look.examined_most = 2
    found: Any = finish(look.steps(letters))
    assert (found["examined"], found["unread"]) == (2, 3)
    assert found["reasons"] == {"rejected": 2}
