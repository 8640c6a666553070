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
    "overview": "Open files",
    "queues": "closed",
    f"queues/%2F/{quote(LONG)}": "Gate closed",
    f"queues/%2F/{quote(HTML, safe='')}": "Gate closed",
    f"queues/%2F/{quote(HTML, safe='')}/limits": "hold-deadline",
    "exchanges": "1–",
    f"exchanges/%2F/{'e' * 255}": "Leads to",
    "connections": "No client is connected.",
    "channels": "No client has a channel",
    "consumers": "Nobody consumes",
    "cursors": "No cursor keeps messages.",
    "users": "guest",
    "users/guest": "Open now",
    "vhosts": "1–1 of 1",
    "vhosts/%2F": "Type of new queues",
    "limits": "No user has a limit.",
    "policies": "No policy is set.",
    "settings": "hold-deadline",
    "definitions": "Export…",
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
    page.locator("main .chart svg").wait_for()
    assert page.evaluate("import('/static/format.js').then((all) => all.clock(86399.5, 3600).length)") == 5
    assert page.evaluate("import('/static/format.js').then((all) => all.clock(86399.5, 1).length)") == 8


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("definitions", "Definitions need the tag administrator."),
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
    web.do("DELETE", f"/users/{name}")
