"""The form that moves messages on the page of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Page


def visit(process: BrokerProcess, page: Page, queue: str) -> None:
    page.goto(f"{process.http}/#/queues/%2F/{quote(queue, safe='')}")
    page.get_by_role("heading", name=queue, exact=True).wait_for()


@pytest.mark.slow
def test_form_moves_messages_and_shows_the_count(process: BrokerProcess, web: Web, page: Page) -> None:
    source, target = some_name("source"), f"{some_name('target')}{HTML}"
    for queue in (source, target):
        web.declare(queue)
    for _ in range(3):
        web.publish(source)
    visit(process, page, source)
    page.get_by_label("Into queue").fill(target)
    page.get_by_label("At most").fill("2")
    page.get_by_role("button", name="Move", exact=True).click()
    page.get_by_text("2 messages moved.").wait_for()
    assert web.get(f"/queues/%2F/{quote(target, safe='')}")["messages"] == 2
    page.get_by_role("button", name="Redrive dead letters").click()
    page.get_by_text("1 message left: the broker has written no death headers into them").wait_for()


@pytest.mark.slow
def test_form_shows_what_holds_a_job_and_cancels_it(process: BrokerProcess, web: Web, page: Page) -> None:
    source, target = some_name("source"), some_name("full")
    web.declare(source)
    web.declare(target, **{"capacity-messages": 1})
    for _ in range(3):
        web.publish(source)
    visit(process, page, source)
    page.get_by_label("Into queue").fill(target)
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_text(f"is held: 1 of 3 messages; its next message waits: queue '{target}'").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("1 of 3 messages are copied").wait_for()
    assert web.get(f"/queues/%2F/{source}")["messages"] == 3
