"""Limits and topic permissions in the console: listed, set and cleared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, LONG, console, row, visit
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORD = "a long password"


def submit(page: Page, group: str, button: str, **values: str) -> None:
    """Fill in fields of a form by their labels, with spaces as underscores, and submit it."""
    form = page.get_by_role("group", name=group, exact=True)
    for label, value in values.items():
        control = form.get_by_label(label.replace("_", " "), exact=True)
        if control.evaluate("control => control.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
    form.get_by_role("button", name=button).click()


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
    submit(page, "Set a limit of a user", "Set", User=user, Limit="max-channels", Most="7")
    row(page, "Users", user, "max-channels", "7", "0").wait_for()
    assert web.get(path)[0]["value"] == {"max-channels": 7}
    assert page.locator("main img, main b").count() == 0
    page.get_by_role("button", name=f"Clear max-channels of user {user}", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert web.get(path) != []
    page.get_by_role("button", name=f"Clear max-channels of user {user}", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    row(page, "Users", user, "max-channels").wait_for(state="detached")
    assert web.get(path) == []


def test_limit_of_a_virtual_host_shows_its_use(process: BrokerProcess, web: Web, page: Page) -> None:
    vhost = some_name("vhost <b>")
    at = quote(vhost, safe="")
    web.do("PUT", f"/vhosts/{at}", {}, 201)
    for queue in "ab":
        web.do("PUT", f"/queues/{at}/{queue}", {}, 201)
    visit(process, page, "limits")
    page.get_by_role("group", name="Set a limit of a virtual host").get_by_role("option", name=vhost).wait_for(
        state="attached"
    )
    submit(page, "Set a limit of a virtual host", "Set", Virtual_host=vhost, Limit="max-queues", Most="3")
    row(page, "Virtual hosts", vhost, "max-queues", "3", "2").wait_for()
    submit(page, "Set a limit of a virtual host", "Set", Virtual_host=vhost, Limit="max-queues", Most="2")
    row(page, "Virtual hosts", vhost, "max-queues", "2", "2, at the limit").wait_for()
    submit(page, "Set a limit of a virtual host", "Set", Virtual_host=vhost, Limit="max-connections", Most="5")
    row(page, "Virtual hosts", vhost, "max-connections", "5", "0").wait_for()
    with Connection(f"amqp://127.0.0.1:{process.port}/{at}"):
        page.reload()
        row(page, "Virtual hosts", vhost, "max-connections", "5", "1").wait_for()
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
        row(page, "Users", name, "max-connections", "4", "0").wait_for()
        row(page, "Users", other, "max-connections", "4", "not shown").wait_for()
        submit(page, "Set a limit of a user", "Set", User=name, Limit="max-connections", Most="9")
        page.get_by_text("Not administrator user").wait_for()
    assert web.get(f"/user-limits/{name}")[0]["value"] == {"max-connections": 4}
    for each in (name, other):
        web.do("DELETE", f"/users/{each}")


def test_refusal_of_a_limit_is_shown(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "limits")
    submit(page, "Set a limit of a user", "Set", User="guest", Limit="max-channels", Most="9999999999")
    page.get_by_text("limit max-channels must be 2147483647 at most").wait_for()


def test_limits_are_cards_on_a_narrow_screen(browser: Browser, process: BrokerProcess, web: Web, user: str) -> None:
    web.do("PUT", f"/user-limits/{quote(user, safe='')}/max-channels", {"value": 7})
    with console(browser, process.http, 360, 740, "dark") as page:
        page.goto(f"{process.http}/#/limits")
        found = page.get_by_role("table", name="Users").get_by_role("row").filter(has_text=user)
        found.wait_for()
        assert found.evaluate("row => getComputedStyle(row).display") == "block"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_topic_permission_is_set_and_removed_alone(process: BrokerProcess, web: Web, page: Page, user: str) -> None:
    path = f"/topic-permissions/%2F/{quote(user, safe='')}"
    web.do("PUT", path, {"exchange": "kept", "write": "w", "read": "r"}, 201)
    visit(process, page, "users")
    table = "Topic permissions"
    row(page, table, user, "/", "kept", "w", "r").wait_for()
    submit(page, "Set topic permissions", "Save", User=user, In_virtual_host="/", Topic_exchange="amq.topic",
           Write="^{username}[.]", Read="")  # fmt: skip
    row(page, table, user, "/", "amq.topic", "^{username}[.]", "").wait_for()
    assert [(each["exchange"], each["write"]) for each in web.get(path)] == [
        ("kept", "w"),
        ("amq.topic", "^{username}[.]"),
    ]
    name = f"Remove the topic permission of {user} for amq.topic in /"
    page.get_by_role("button", name=name, exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    row(page, table, user, "/", "amq.topic").wait_for(state="detached")
    assert [each["exchange"] for each in web.get(path)] == ["kept"]
    submit(
        page,
        "Set topic permissions",
        "Save",
        User=user,
        In_virtual_host="/",
        Topic_exchange="kept",
        Write="(?=x)",
        Read="",
    )
    page.get_by_text("RE2 refuses").wait_for()
    assert page.locator("main img, main b").count() == 0
