"""Limits, permissions and topic permissions in the console: listed, set in dialogs, and removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, LONG, answer, console, row, visit
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORD = "a long password"


@pytest.fixture(
    params=[
        pytest.param("plain", id="plain", marks=pytest.mark.long),
        pytest.param(HTML, id="html"),
        pytest.param(LONG, id="long", marks=pytest.mark.long),
    ]
)
def user(request: pytest.FixtureRequest, web: Web) -> Iterator[str]:
    """A user whose name is plain, looks like markup, or is as long as it may be."""
    path = f"/users/{quote(request.param, safe='')}"
    web.do("PUT", path, {"password_hash": "", "tags": ""}, 201)
    yield request.param
    web.do("DELETE", path)


@pytest.mark.slow
def test_limit_of_a_user_is_set_and_cleared(process: BrokerProcess, web: Web, page: Page, user: str) -> None:
    path = f"/user-limits/{quote(user, safe='')}"
    visit(process, page, "limits")
    page.get_by_role("button", name="Set… a limit of a user", exact=True).click()
    answer(page, "Set", User=user, Limit="max-channels", Most="7")
    row(page, "Users", user, "Channels", "7").wait_for()
    assert web.get(path)[0]["value"] == {"max-channels": 7}
    assert page.locator("main img, main b img").count() == 0
    clear = page.get_by_role("button", name=f"Clear… max-channels of user {user}", exact=True)
    clear.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert web.get(path) != []
    clear.click()
    answer(page, "Clear")
    row(page, "Users", user, "Channels").wait_for(state="detached")
    assert web.get(path) == []


def test_limit_of_a_virtual_host_shows_its_use(process: BrokerProcess, web: Web, page: Page) -> None:
    vhost = some_name("vhost <b>")
    at = quote(vhost, safe="")
    web.do("PUT", f"/vhosts/{at}", {}, 201)
    for queue in "ab":
        web.do("PUT", f"/queues/{at}/{queue}", {}, 201)
    visit(process, page, "limits")
    for most in ("3", "2"):
        page.get_by_role("button", name="Set… a limit of a virtual host", exact=True).click()
        choice = page.get_by_role("dialog").get_by_role("option", name=vhost, exact=True)
        choice.wait_for(state="attached")
        answer(page, "Set", Virtual_host=vhost, Limit="max-queues", Most=most)
        row(page, "Virtual hosts", vhost, "Queues", "2", most).wait_for()
    assert row(page, "Virtual hosts", vhost, "Queues").locator(".red").inner_text() == "2"
    web.do("PUT", f"/vhost-limits/{at}/max-connections", {"value": 5})
    with Connection(f"amqp://127.0.0.1:{process.port}/{at}"):
        page.reload()
        row(page, "Virtual hosts", vhost, "Connections", "1", "5").wait_for()
    web.do("DELETE", f"/vhosts/{at}")


def test_limits_are_seen_with_management_and_changed_by_administrators(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    name, other = some_name("seer"), some_name("other")
    web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": "management"}, 201)
    web.do("PUT", f"/users/{other}", {"password_hash": "", "tags": ""}, 201)
    for each in (name, other):
        web.do("PUT", f"/user-limits/{each}/max-connections", {"value": 4})
    with console(browser, process.http, user=name, password=PASSWORD) as page:
        page.goto(f"{process.http}/#/limits")
        row(page, "Users", name, "Connections", "0", "4").wait_for()
        row(page, "Users", other, "Connections", "not shown", "4").wait_for()
        page.get_by_text("To set limits needs the tag administrator.").wait_for()
        assert page.locator("main button:not(.icon)").count() == 0
    for each in (name, other):
        web.do("DELETE", f"/users/{each}")


def test_refusal_of_a_limit_is_said_in_the_dialog(process: BrokerProcess, web: Web, page: Page) -> None:
    visit(process, page, "limits")
    page.get_by_role("button", name="Set… a limit of a user", exact=True).click()
    answer(page, "Set", User="guest", Limit="max-channels", Most="9999999999")
    page.get_by_role("dialog").get_by_text("limit max-channels must be 2147483647 at most").wait_for()
    assert web.get("/user-limits/guest") == []


def test_limits_are_cards_on_a_narrow_screen(browser: Browser, process: BrokerProcess, web: Web, user: str) -> None:
    web.do("PUT", f"/user-limits/{quote(user, safe='')}/max-channels", {"value": 7})
    with console(browser, process.http, 360, 740, "dark") as page:
        page.goto(f"{process.http}/#/limits")
        found = page.get_by_role("table", name="Users").get_by_role("row").filter(has_text=user)
        found.wait_for()
        assert found.evaluate("row => getComputedStyle(row).display") == "flex"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_topic_permission_is_set_and_removed_alone(process: BrokerProcess, web: Web, page: Page, user: str) -> None:
    path = f"/topic-permissions/%2F/{quote(user, safe='')}"
    web.do("PUT", path, {"exchange": "kept", "write": "w", "read": "r"}, 201)
    visit(process, page, f"users/{quote(user, safe='')}")
    page.get_by_role("heading", name=user, exact=True, level=1).wait_for()
    table = "Topic permissions"
    row(page, table, "/", "kept", "w", "r").wait_for()
    page.get_by_role("button", name="Add… a topic permission").click()
    answer(page, "Save", Topic_exchange="amq.topic", Write="^{username}[.]", Read="")
    row(page, table, "/", "amq.topic", "^{username}[.]").wait_for()
    assert [(each["exchange"], each["write"], each["read"]) for each in web.get(path)] == [
        ("kept", "w", "r"),
        ("amq.topic", "^{username}[.]", ""),
    ]
    page.get_by_role("button", name=f"Remove… topic permission of {user} for amq.topic in /", exact=True).focus()
    page.keyboard.press("Enter")
    answer(page, "Remove")
    row(page, table, "/", "amq.topic").wait_for(state="detached")
    assert [each["exchange"] for each in web.get(path)] == ["kept"]
    page.get_by_role("button", name=f"Edit… topic permission of {user} for kept in /", exact=True).click()
    answer(page, "Save", Write="(?=x)")
    page.get_by_role("dialog").get_by_text("RE2 refuses").wait_for()
    assert page.locator("main img, dialog img").count() == 0


def test_permission_is_added_and_removed_on_the_page_of_a_user(
    process: BrokerProcess, web: Web, page: Page, user: str
) -> None:
    path = f"/permissions/%2F/{quote(user, safe='')}"
    visit(process, page, f"users/{quote(user, safe='')}")
    page.get_by_text("This user may enter no virtual host.").wait_for()
    page.get_by_role("button", name="Add… a permission").click()
    answer(page, "Save", Virtual_host="/", Configure="^mine", Write=".*", Read="")
    row(page, "Permissions", "/", "^mine", ".*", "^$").wait_for()
    found = web.get(path)
    assert (found["configure"], found["write"], found["read"]) == ("^mine", ".*", "")
    page.get_by_role("button", name=f"Remove… permissions of {user} in /", exact=True).click()
    page.get_by_role("dialog").get_by_text(f"{user} may no longer enter /").wait_for()
    answer(page, "Remove")
    page.get_by_text("This user may enter no virtual host.").wait_for()
    web.do("GET", path, status=404)
