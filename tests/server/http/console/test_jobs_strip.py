"""The strip of jobs: progress and Cancel on each page, and the closing sentence until it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import visit
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Page


def move(web: Web, messages: int, capacity: int) -> int:
    """Move messages into a new queue of some capacity as a job; return its number."""
    source, target = some_name("source"), some_name("target")
    web.declare(source)
    web.declare(target, **{"capacity-messages": capacity})
    for _ in range(messages):
        web.publish(source)
    job = web.do("POST", f"/penstock/queues/%2F/{source}/move?job=true", {"target": target}, status=202)
    return int(job.json["id"])


def test_held_job_is_cancelled_from_any_page_and_says_how_it_ended(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    number = move(web, messages=3, capacity=1)
    visit(process, page, "users")
    line = page.get_by_role("region", name="Jobs").get_by_role("group", name=f"Job {number}", exact=True)
    line.get_by_text("of 3 messages").wait_for()
    assert line.get_by_role("progressbar").count() == 1
    line.get_by_role("button", name=f"Cancel job {number}").click()
    close = line.get_by_role("button", name=f"Close what job {number} came to")
    close.wait_for()
    assert line.get_by_role("progressbar").count() == 0
    assert "cancelled" in line.get_by_role("alert").or_(line.get_by_role("status")).inner_text()
    page.evaluate("location.hash = '#/limits'")
    page.get_by_role("heading", name="Limits", level=1).wait_for()
    close.click()
    line.wait_for(state="detached")


def test_finished_job_names_what_was_done_as_text(process: BrokerProcess, web: Web, page: Page) -> None:
    visit(process, page, "users")
    number = move(web, messages=2, capacity=100)
    line = page.get_by_role("region", name="Jobs").get_by_role("group", name=f"Job {number}", exact=True)
    line.get_by_role("status").get_by_text("2 moved").wait_for()
    assert line.get_by_role("link").count() == 1
    line.get_by_role("button", name=f"Close what job {number} came to").click()
    line.wait_for(state="detached")
