"""The palette of the console: names, pages and actions are found and opened from the keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, console, visit
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


def find(page: Page, text: str) -> Locator:
    """Open the palette, and type a text; return the list."""
    page.get_by_role("button", name="Find or do").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find or do").fill(text)
    return page.get_by_role("listbox", name="Found")


def test_palette_opens_a_queue_whose_name_has_the_text(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("Found")
    web.declare(name)
    visit(process, page, "overview")
    page.get_by_role("heading", name="Overview", level=1).wait_for()
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Find or do")
    field.fill(name.lower())
    option = page.get_by_role("group", name="Queues").get_by_role("option", name=name)
    option.wait_for()
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=name, level=1).wait_for()
    assert page.get_by_role("dialog").count() == 0
    web.do("DELETE", f"/queues/%2F/{quote(name)}")


def test_palette_shows_names_as_text_and_says_how_many_it_searched(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    web.declare(HTML)
    visit(process, page, "overview")
    find(page, "<IMG").get_by_role("option", name=HTML).wait_for()
    assert page.locator("dialog img, dialog b").count() == 0
    page.get_by_role("combobox", name="Find or do").fill("no such name")
    said = page.get_by_role("dialog").get_by_text(re.compile(r"Nothing has “no such name” in its name; \d+ names were"))
    said.first.wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    web.do("DELETE", f"/queues/%2F/{quote(HTML, safe='')}")


def test_palette_finds_a_client_by_the_name_it_gave_itself(process: BrokerProcess, page: Page) -> None:
    name = some_name("web shop")
    with named_connection(process.url, name):
        visit(process, page, "overview")
        find(page, name)
        page.get_by_role("group", name="Clients").get_by_role("option", name=name).click()
        page.get_by_role("heading", name=name, level=1).wait_for()


def test_palette_action_opens_its_dialog_on_its_page(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "overview")
    find(page, "new queue").get_by_role("option", name="New queue…").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="New queue").wait_for()
    page.get_by_role("heading", name="Queues", level=1).wait_for()
    page.keyboard.press("Escape")
    find(page, "redrive").get_by_role("option", name=re.compile("Redrive")).click()
    page.get_by_role("dialog").get_by_text("No queue has dead letters.").first.wait_for()
    page.keyboard.press("Escape")


def test_palette_begins_with_blocked_queues_and_their_clients(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    name = some_name("held")
    web.declare(name)
    web.do("POST", "/penstock/block", {"queue": name, "reason": "a test"}, status=200)
    with console(browser, process.http) as page:
        page.get_by_role("main").get_by_text(name).first.wait_for()
        page.get_by_role("button", name="Find or do").click()
        option = page.get_by_role("option", name=re.compile(rf"{name}\s*held by the operator"))
        option.wait_for()
        assert option.locator(".red").count() == 1
        page.keyboard.press("ArrowUp")
        assert page.get_by_role("option", selected=True).inner_text() == "Log out", "the choice goes round"
    web.do("DELETE", f"/queues/%2F/{quote(name)}")
