"""Exchanges in the console: the list, and one exchange with its bindings, its hold and its danger zone."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, answer, console, row, visit
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORD = "a long password"


def declared(web: Web, kind: str = "topic") -> str:
    name = some_name("exchange")
    web.do("PUT", f"/exchanges/%2F/{name}", {"type": kind}, status=201)
    return name


def test_exchange_is_declared_with_any_type_that_the_broker_has(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("declared")
    visit(process, page, "exchanges")
    page.get_by_role("button", name="New exchange").click()
    choice = page.get_by_role("dialog").get_by_label("Type")
    types = [each["name"] for each in web.get("/overview")["exchange_types"]]
    choice.get_by_role("option", name=types[-1]).wait_for(state="attached")
    assert choice.get_by_role("option").all_inner_texts() == types
    answer(page, "Create exchange", Name=name, Type="topic", Alternate_exchange="amq.fanout")
    page.get_by_role("heading", name=name, exact=True, level=1).wait_for()
    found = web.get(f"/exchanges/%2F/{name}")
    assert (found["type"], found["arguments"]) == ("topic", {"alternate-exchange": "amq.fanout"})
    page.get_by_role("link", name="amq.fanout").wait_for()


def test_exchanges_of_every_virtual_host_are_behind_a_chip(process: BrokerProcess, web: Web, page: Page) -> None:
    name = declared(web)
    visit(process, page, "exchanges")
    table = page.get_by_role("table", name="Exchanges")
    table.get_by_role("link", name=name, exact=True).wait_for()
    names = table.locator("td.name a").all_inner_texts()
    assert not [each for each in names if each.startswith(("amq.", "(default)"))]
    page.get_by_role("button", name="All, amq.* too").click()
    table.get_by_role("link", name="amq.topic", exact=True).wait_for()
    table.get_by_role("link", name="(default)", exact=True).wait_for()


def test_refused_exchange_keeps_the_dialog_with_the_sentence(process: BrokerProcess, web: Web, page: Page) -> None:
    name = declared(web, "fanout")
    visit(process, page, "exchanges")
    page.get_by_role("button", name="New exchange").click()
    answer(page, "Create exchange", Name=name, Type="direct")
    page.get_by_role("dialog").get_by_role("alert").get_by_text("type").wait_for()
    assert web.get(f"/exchanges/%2F/{name}")["type"] == "fanout"


@pytest.mark.parametrize("queue", ["plain queue", HTML])
def test_binding_is_made_and_removed_in_dialogs(process: BrokerProcess, web: Web, page: Page, queue: str) -> None:
    name = declared(web)
    web.declare(queue)
    visit(process, page, f"exchanges/%2F/{name}")
    page.get_by_text("No binding leads from here: messages go nowhere.").wait_for()
    page.get_by_role("button", name="Bind…").click()
    answer(page, "Bind", Name=queue, Routing_key="eu.#")
    row(page, "Bindings from here", queue, "eu.#").wait_for()
    assert [each["routing_key"] for each in web.get(f"/exchanges/%2F/{name}/bindings/source")] == ["eu.#"]
    page.get_by_role("button", name=f"Unbind… {queue}, key eu.#", exact=True).click()
    page.get_by_role("dialog").get_by_text("Nothing comes in now.").wait_for()
    answer(page, "Unbind")
    page.get_by_text("No binding leads from here: messages go nowhere.").wait_for()
    assert web.get(f"/exchanges/%2F/{name}/bindings/source") == []
    assert page.locator("main img, dialog img").count() == 0


def test_binding_to_an_absent_queue_is_refused_in_the_dialog(process: BrokerProcess, web: Web, page: Page) -> None:
    name = declared(web)
    visit(process, page, f"exchanges/%2F/{name}")
    page.get_by_role("button", name="Bind…").click()
    answer(page, "Bind", Name="absent")
    page.get_by_role("dialog").get_by_role("alert").get_by_text("absent").wait_for()


def test_held_exchange_is_red_with_its_reason_until_it_is_released(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    name = declared(web)
    visit(process, page, f"exchanges/%2F/{name}")
    page.get_by_role("button", name="Hold…").click()
    answer(page, "Hold", Reason="the warehouse moves")
    why = page.get_by_role("region", name="Why")
    why.get_by_text("Held by the operator for").wait_for()
    why.get_by_text("Reason: the warehouse moves").wait_for()
    assert page.get_by_role("button", name="Hold…").count() == 0
    page.goto(f"{process.http}/#/exchanges")
    state = row(page, "Exchanges", name).locator("td.st .red")
    state.wait_for()
    assert "held by the operator" in state.inner_text()
    assert state.get_attribute("title") == "the warehouse moves"
    page.goto(f"{process.http}/#/exchanges/%2F/{name}")
    page.get_by_role("button", name="Release").click()
    why.wait_for(state="detached")
    assert web.get(f"/exchanges/%2F/{name}")["penstock"]["held"] is None


def test_message_is_published_from_the_page_of_an_exchange(process: BrokerProcess, web: Web, page: Page) -> None:
    name, queue = declared(web), some_name("target")
    web.declare(queue)
    web.do("POST", f"/bindings/%2F/e/{name}/q/{quote(queue)}", {"routing_key": "k"}, status=201)
    visit(process, page, f"exchanges/%2F/{name}")
    page.get_by_role("button", name="Publish…").click()
    answer(page, "Publish", Routing_key="k", Body="hello")
    page.get_by_role("status").get_by_text("Published.").first.wait_for()
    assert web.queue(queue)["messages"] == 1


def test_exchange_is_deleted_after_its_bindings_are_counted(process: BrokerProcess, web: Web, page: Page) -> None:
    name, queue = declared(web), some_name("target")
    web.declare(queue)
    for key in ("one", "two"):
        web.do("POST", f"/bindings/%2F/e/{name}/q/{quote(queue)}", {"routing_key": key}, status=201)
    visit(process, page, f"exchanges/%2F/{name}")
    row(page, "Bindings from here", queue, "two").wait_for()
    page.get_by_role("button", name="Delete exchange…").click()
    page.get_by_role("dialog").get_by_text("2 bindings go with it.").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    answer(page, "Delete")
    page.get_by_role("heading", name="Exchanges", exact=True).wait_for()
    page.goto(f"{process.http}/#/exchanges/%2F/{name}")
    page.get_by_text("is not there any more. Its bindings went with it.").wait_for()
    assert page.get_by_role("button", name="Publish…").count() == 0


def test_exchange_that_nobody_may_delete_has_no_danger_zone(process: BrokerProcess, page: Page) -> None:
    for name in ("amq.topic", "amq.default"):
        visit(process, page, f"exchanges/%2F/{name}")
        page.get_by_role("table", name="Bindings from here").or_(page.locator("main .empty")).first.wait_for()
        assert page.get_by_role("region", name="Danger zone").count() == 0


def test_hold_is_offered_to_policymakers_only(browser: Browser, process: BrokerProcess, web: Web) -> None:
    user, name = some_name("manager"), declared(web)
    web.do("PUT", f"/users/{user}", {"password": PASSWORD, "tags": "management"}, status=201)
    web.do("PUT", f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"}, status=201)
    with console(browser, process.http, user=user, password=PASSWORD) as page:
        page.goto(f"{process.http}/#/exchanges/%2F/{name}")
        page.get_by_role("button", name="Publish…").wait_for()
        page.get_by_role("button", name="Delete exchange…").wait_for()
        assert page.get_by_role("button", name="Hold…").count() == 0
    web.do("DELETE", f"/users/{user}")
