"""Single keys of the console: they go to pages and rows, act only outside of fields, and can be turned off."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import reached, visit
from tests.support.http_client import Web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

GOES = {
    "f": "Flow",
    "o": "Overview",
    "q": "Queues",
    "e": "Exchanges",
    "c": "Connections",
    "d": "Definitions",
}


@pytest.fixture
def queues(web: Web) -> Iterator[list[str]]:
    """Two queues, the first and the last of the list by name."""
    names = [some_name("a key"), some_name("b key")]
    for name in names:
        web.declare(name)
    yield names
    for name in names:
        web.do("DELETE", f"/queues/%2F/{quote(name)}")


def test_g_and_a_letter_go_to_pages(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "users")
    page.get_by_role("heading", name="Users", level=1).wait_for()
    for key, heading in GOES.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.get_by_role("heading", name=heading, exact=True, level=1).wait_for()


def test_j_and_k_move_between_rows_and_enter_opens_one(process: BrokerProcess, page: Page, queues: list[str]) -> None:
    visit(process, page, "queues")
    page.get_by_label("Filter by name").fill(" key")
    rows = page.locator("main tr[data-href]")
    reached(page, "() => document.querySelectorAll('main tr[data-href]').length === 2")
    page.get_by_role("heading", level=1).focus()
    page.keyboard.press("j")
    first = rows.filter(has=page.locator(":scope:focus")).inner_text()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement === [...document.querySelectorAll('main tr[data-href]')].at(-1)")
    page.keyboard.press("k")
    assert rows.filter(has=page.locator(":scope:focus")).inner_text() == first
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    page.get_by_role("navigation", name="Parts of the queue").wait_for()
    assert heading.inner_text() in queues


def test_single_keys_are_only_text_in_a_field(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "queues")
    field = page.get_by_label("Filter by name")
    field.press_sequentially("gt?/")
    assert field.input_value() == "gt?/"
    assert page.get_by_role("dialog").count() == 0
    field.press("Control+k")
    page.get_by_role("combobox", name="Find or do").wait_for()
    page.keyboard.press("Escape")
    assert field.evaluate("field => field === document.activeElement"), "the focus comes back"


def test_single_keys_are_turned_off_in_the_menu_of_the_user(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "overview")
    page.get_by_role("heading", name="Overview", level=1).wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_label("Single keys").uncheck()
    page.keyboard.press("Escape")
    for key in ("?", "/", "t"):
        page.keyboard.press(key)
    assert page.get_by_role("dialog").count() == 0
    assert not page.evaluate("document.documentElement.classList.contains('dark')")
    page.get_by_role("button", name="User guest").click()
    page.get_by_label("Single keys").check()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.classList.contains('dark')")
    page.keyboard.press("t")
