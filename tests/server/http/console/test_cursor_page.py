"""The page of a cursor: its position, and moves with a preview."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, LONG, console
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


@contextmanager
def reading(process: BrokerProcess, cursor: str, *queues: str) -> Iterator[None]:
    """A reader with a cursor on queues of three messages each."""
    web = Web(process.http)
    for queue in queues:
        web.declare(queue)
        for _ in range(3):
            web.publish(queue)
    with connect(process.url, protocol="amqp091") as control:
        control.attach_cursor(cursor, list(queues))
        yield


def settled(process: BrokerProcess, cursor: str) -> dict[str, int]:
    found = Web(process.http).get(f"/penstock/cursors/%2F/{quote(cursor, safe='')}")
    return {each["queue"]: each["settled"] for each in found["queues"]}


def opened(page: Page) -> Locator:
    """Open the dialog that moves a cursor."""
    page.get_by_role("button", name="Move…", exact=True).first.click()
    return page.get_by_role("dialog")


def visit(process: BrokerProcess, page: Page, cursor: str) -> None:
    page.goto(f"{process.http}/#/cursors/%2F/{quote(cursor, safe='')}")
    page.get_by_role("heading", name=cursor, exact=True).wait_for()
    page.get_by_role("table", name="Positions").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param("plain", marks=pytest.mark.long), HTML, pytest.param(LONG, marks=pytest.mark.long)],
    ids=["plain", "html", "long"],
)
def test_cursor_is_moved_in_a_dialog_that_says_what_the_move_does(
    process: BrokerProcess, web: Web, page: Page, kind: str
) -> None:
    cursor, queue = kind, kind
    with reading(process, cursor, queue):
        pass
    page.goto(f"{process.http}/#/cursors")
    page.get_by_role("link", name=cursor, exact=True).first.click()
    page.get_by_role("heading", name=cursor, exact=True).wait_for()
    assert page.locator("main img, main b img").count() == 0
    dialog = opened(page)
    dialog.get_by_label("To", exact=True).select_option("sequence")
    dialog.get_by_label("In", exact=True).select_option(queue)
    dialog.get_by_label("Sequence").fill("2")
    dialog.get_by_text(
        "from 0 to 2: 2 messages (486 bytes) would be passed over, and 2 of them would leave the queue"
    ).wait_for()
    dialog.get_by_text("What it passes over is gone for this cursor.").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    assert settled(process, cursor) == {queue: 0}
    dialog = opened(page)
    dialog.get_by_label("To", exact=True).select_option("sequence")
    dialog.get_by_label("In", exact=True).select_option(queue)
    dialog.get_by_label("Sequence").fill("2")
    dialog.get_by_role("button", name="Move", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("status").get_by_text(
        f"queue {queue}: from 0 to 2: 2 messages (486 bytes) are passed over"
    ).wait_for()
    assert settled(process, cursor) == {queue: 2}
    page.get_by_role("table", name="Positions").get_by_role("row").filter(has_text="243").wait_for()
    web.do("DELETE", f"/penstock/cursors/%2F/{quote(cursor, safe='')}")


def test_move_back_says_how_many_messages_are_read_again(process: BrokerProcess, web: Web, page: Page) -> None:
    slow, fast, queue = some_name("slow"), some_name("fast"), some_name("q")
    with reading(process, slow, queue), connect(process.url, protocol="amqp091") as control:
        control.attach_cursor(fast, [queue])
    web.do("POST", f"/penstock/cursors/%2F/{fast}/move", {"to": "latest"}, status=200)
    visit(process, page, fast)
    dialog = opened(page)
    dialog.get_by_label("To", exact=True).select_option("earliest")
    dialog.get_by_text("from 3 to 0: 3 messages (729 bytes) would be there to read again").wait_for()
    assert page.get_by_text("is gone for this cursor").count() == 0
    dialog.get_by_role("button", name="Move", exact=True).click()
    page.get_by_role("status").get_by_text("are there to read again").wait_for()
    assert settled(process, fast) == {queue: 0}


@pytest.mark.slow
def test_cursor_that_is_read_is_moved_by_force_only(process: BrokerProcess, page: Page) -> None:
    cursor, queues = some_name("read"), [some_name("q"), some_name("q")]
    with reading(process, cursor, *queues):
        visit(process, page, cursor)
        dialog = opened(page)
        dialog.get_by_text("is connected: the move will be refused until it ends.").wait_for()
        dialog.get_by_role("button", name="Move", exact=True).click()
        dialog.get_by_role("alert").get_by_text("is in use by con:").wait_for()
        assert settled(process, cursor) == dict.fromkeys(queues, 0)
        dialog.get_by_label("Also while it is read").check()
        dialog.get_by_text("gets an error at its next request.").wait_for()
        dialog.get_by_role("button", name="Move", exact=True).click()
        dialog.wait_for(state="detached")
        assert settled(process, cursor) == dict.fromkeys(queues, 3)


def test_sequence_needs_a_known_queue(process: BrokerProcess, page: Page) -> None:
    cursor, queues = some_name("two"), [some_name("q"), some_name("q")]
    with reading(process, cursor, *queues):
        pass
    visit(process, page, cursor)
    dialog = opened(page)
    dialog.get_by_label("To", exact=True).select_option("sequence")
    dialog.get_by_text("Choose the queue whose sequence this is.").wait_for()
    choice = dialog.get_by_label("In", exact=True)
    dialog.get_by_label("Sequence").fill("9")
    assert choice.evaluate("choice => choice.validationMessage") == "Choose the queue whose sequence this is."
    choice.select_option(queues[1])
    dialog.get_by_text(f"queue '{queues[1]}' ends at 3; latest is its end").wait_for()
    dialog.get_by_role("button", name="Move", exact=True).click()
    dialog.get_by_role("alert").get_by_text("ends at 3").wait_for()
    assert settled(process, cursor) == dict.fromkeys(queues, 0)


def test_flow_map_leads_to_the_cursor(process: BrokerProcess, web: Web, page: Page) -> None:
    cursor, queue = some_name("mapped"), some_name("q")
    with reading(process, cursor, queue):
        web.do("POST", "/penstock/block", {"queue": queue}, status=200)  # A held queue stays on the map.
        page.goto(f"{process.http}/#/flow")
        page.get_by_role("button", name=f"Cursor {cursor} ").press("Enter")
        page.get_by_role("link", name="Open the cursor").click()
        page.get_by_role("heading", name=cursor, exact=True).wait_for()
        page.get_by_role("link", name=re.compile("^con:")).first.wait_for()
        web.do("POST", "/penstock/unblock", {"queue": queue}, status=200)


def test_cursor_is_deleted_from_its_page(process: BrokerProcess, page: Page) -> None:
    cursor = some_name("gone")
    with reading(process, cursor, some_name("q")):
        pass
    visit(process, page, cursor)
    page.get_by_role("button", name="Delete cursor…").click()
    page.get_by_role("dialog").get_by_text("3 messages that it has not read are no longer kept for it.").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="Cursors").wait_for()
    page.goto(f"{process.http}/#/cursors/%2F/{quote(cursor)}")
    page.get_by_text("is not there any more. Its queues keep nothing for it.").wait_for()
    assert page.get_by_role("table").count() == 0


def test_move_needs_the_permission_to_read_the_queues(browser: Browser, process: BrokerProcess, web: Web) -> None:
    user, cursor = some_name("reader"), some_name("cursor")
    web.do("PUT", f"/users/{user}", {"password": "a long password", "tags": "management"}, 201)
    web.do("PUT", f"/permissions/%2F/{user}", {"configure": "", "write": "", "read": ".*"}, 201)
    with reading(process, cursor, some_name("q")):
        pass
    with console(browser, process.http, 360, 740, "dark", user, "a long password") as page:
        visit(process, page, cursor)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        web.do("PUT", f"/permissions/%2F/{user}", {"configure": "", "write": "", "read": ""})
        opened(page).get_by_text("refused for user").first.wait_for()
    web.do("DELETE", f"/users/{user}")
