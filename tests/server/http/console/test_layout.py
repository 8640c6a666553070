"""Pages of the console: they fit a narrow screen, and offer no action that would be refused."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, LONG, console
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NARROW = 390
PASSWORD = "a long password"
PAGES = {
    "flow": "closed",
    "overview": "Disk free",
    "queues": "closed",
    f"queues/%2F/{quote(LONG)}": "Gate closed",
    f"queues/%2F/{quote(HTML, safe='')}": "Gate closed",
    f"queues/%2F/{quote(HTML, safe='')}/limits": "hold-deadline",
    "exchanges": "amq.topic",
    f"exchanges/%2F/{'e' * 255}": "Leading from here",
    "connections": "page 1 of 1",
    "channels": "page 1 of 1",
    "cursors": "page 1 of 1",
    "users": "guest",
    "limits": "None.",
    "policies": "None.",
    "settings": "hold-deadline",
    "definitions": "Download",
}
"""Pages, and what they have when they are loaded."""


@pytest.mark.slow
def test_console_page_fits_a_narrow_screen_and_marks_its_place(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    for name in (LONG, HTML):
        bounds = {"capacity-messages": 1, "hold-deadline": 1}
        web.declare(name, **bounds)
        web.publish(name)
        web.publish(name)
        web.do("POST", "/penstock/block", {"queue": name, "reason": "a reason " * 9}, status=200)
    web.do("PUT", f"/exchanges/%2F/{'e' * 255}", {"type": "topic"}, status=201)
    with console(browser, process.http, NARROW, 800) as page:
        for key, loaded in PAGES.items():
            page.goto(f"{process.http}/#/{key}")
            page.locator("main").get_by_text(loaded).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, key
            current = page.locator("#thumb [aria-current]").bounding_box()
            assert 0 <= current["x"] <= NARROW - current["width"], key


@pytest.mark.parametrize("width", [320, 390, 600, 860, 1024, 1280, 1440])
def test_head_is_one_row_at_every_width(browser: Browser, process: BrokerProcess, web: Web, width: int) -> None:
    node = web.get("/overview")["node"].partition("@")[2]
    with console(browser, process.http, width, 800) as page:
        page.locator("#node", has_text=node).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.getElementById('head').offsetHeight") in (48, 52)
        parts = page.locator("#head a:visible, #head button:visible")
        boxes = [each.bounding_box() for each in parts.all()]
        assert all(box["y"] >= 0 and box["y"] + box["height"] <= 52 for box in boxes)
        assert all(one["x"] + one["width"] <= other["x"] for one, other in pairwise(boxes))
        assert page.get_by_role("navigation", name="Pages").get_by_role("link").count() == (5 if width < 860 else 7)


def test_charts_show_a_minute_at_least_and_hours_of_a_day(process: BrokerProcess, page: Page) -> None:
    page.goto(f"{process.http}/#/overview")
    page.locator(".uplot").first.wait_for()
    page.wait_for_function("document.querySelectorAll('.uplot').length === 2")
    assert page.evaluate("import('/static/format.js').then((all) => all.clock(86399.5, 3600).length)") == 5
    assert page.evaluate("import('/static/format.js').then((all) => all.clock(86399.5, 1).length)") == 8


def test_list_of_users_shows_which_have_a_password(process: BrokerProcess, web: Web, page: Page) -> None:
    without = some_name("without")
    web.do("PUT", f"/users/{without}", {"password_hash": "", "tags": ""}, status=201)
    page.goto(f"{process.http}/#/users")
    page.reload()
    people = page.get_by_role("table", name="Users", exact=True).get_by_role("row")
    assert people.filter(has_text="guest").get_by_role("cell").nth(3).inner_text() == "set"
    assert people.filter(has_text=without).get_by_role("cell").nth(3).inner_text() == "none"
    web.do("DELETE", f"/users/{without}")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("users", "Users are shown to administrators."),
        ("definitions", "Definitions are for administrators."),
        ("policies", "Policies are set with the tag policymaker."),
        ("settings", "Settings are changed with the tag policymaker."),
    ],
)
def test_forms_are_hidden_from_users_without_the_tag(
    browser: Browser, process: BrokerProcess, web: Web, key: str, said: str
) -> None:
    name = some_name("seer")
    web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": "management"}, status=201)
    with console(browser, process.http, user=name, password=PASSWORD) as page:
        page.goto(f"{process.http}/#/{key}")
        page.get_by_text(said).wait_for()
        assert page.locator("main fieldset, main button.danger").count() == 0
        assert page.locator(".notice").count() == 0
        page.goto(f"{process.http}/#/overview")
        page.get_by_text("Your consumers", exact=True).wait_for()
        assert page.locator(".uplot").count() == 0
    web.do("DELETE", f"/users/{name}")
