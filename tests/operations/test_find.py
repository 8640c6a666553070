"""The search over all names."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import MANAGEMENT, Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.operations.joins import FOUND_MOST
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue
from tests.support.operation_calls import ask


def find(driver: BrokerDriver, text: object, user: str = "guest") -> Any:
    return ask(driver, "GET /penstock/find", {"q": text}, access=access_of(driver.broker, user))


def names(found: Any) -> list[tuple[str, str]]:
    return [(each["noun"], each["name"]) for each in found["found"]]


def test_names_of_all_nouns_are_found_and_those_that_begin_come_first(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    for name in ("my-orders", "orders", "Orders.dead", "stock"):
        vhost.declare_queue(name, {}, False, False, None, None)
    vhost.declare_exchange("orders.in", "topic", {}, False, False, False)
    driver.broker.access.put_user("orderer", None, [])
    driver.broker.add_vhost("order-desk")
    found = find(driver, "ORDER")
    assert names(found) == [
        ("queue", "orders"), ("queue", "Orders.dead"), ("queue", "my-orders"), ("exchange", "orders.in"),
        ("user", "orderer"), ("vhost", "order-desk"),
    ]  # fmt: skip
    assert (found["searched"]["queue"], found["searched"]["vhost"]) == (4, 2)


def test_answer_is_bounded_for_each_noun(driver: BrokerDriver) -> None:
    for number in range(3 * FOUND_MOST):
        driver.broker.vhosts["/"].declare_queue(f"q{number:03}", {}, False, False, None, None)
    assert names(find(driver, "q0")) == [("queue", f"q{number:03}") for number in range(FOUND_MOST)]


def test_user_finds_only_what_the_user_may_list(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("other").declare_queue("orders", {}, False, False, None, None)
    driver.broker.vhosts["/"].declare_queue("orders", {}, False, False, None, None)
    access = driver.broker.access
    access.put_user("orderly", None, [MANAGEMENT])
    access.set_permission("orderly", "other", Permission("", "", ""))
    Dialogue(driver)
    assert [(each["noun"], each["vhost"]) for each in find(driver, "orde", "orderly")["found"]] == [("queue", "other")]


def test_near_names_are_answered_for_nouns_without_a_name(driver: BrokerDriver) -> None:
    for name in ("orders", "orders.dead", "stock", "invoices"):
        driver.broker.vhosts["/"].declare_queue(name, {}, False, False, None, None)
    asked = {"q": "ordres", "near": True}
    found = ask(driver, "GET /penstock/find", asked, access=access_of(driver.broker))
    assert [(each["noun"], each["name"]) for each in found["near"]] == [("queue", "orders"), ("queue", "orders.dead")]
    found = ask(driver, "GET /penstock/find", {**asked, "q": "invoi"}, access=access_of(driver.broker))
    assert (names(found), found["near"]) == ([("queue", "invoices")], [])
    assert "near" not in find(driver, "ordres")


@pytest.mark.parametrize("text", ["", "x" * 257])
def test_empty_or_long_text_is_refused(driver: BrokerDriver, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=r"^'q' must be a text of 1 to 256 characters, not of"):
        find(driver, text)
