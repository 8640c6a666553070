"""Connections, channels and consumers in the console: names first, states in words, and what can be done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from penstock.client.errors import ConnectionClosed
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_socket import SocketPeer
from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, answer, console, visit
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

PASSWORD = "a long password"


@contextmanager
def named(process: BrokerProcess, name: str) -> Iterator[Connection]:
    """A connection whose client has a name for itself."""
    with Connection(process.url, name=name) as connection:
        yield connection


def listed(page: Page, table: str, name: str) -> Locator:
    """Return the row of a client in a list."""
    rows = page.get_by_role("table", name=table, exact=True).get_by_role("row")
    return rows.filter(has=page.get_by_role("link", name=name, exact=True))


@pytest.mark.parametrize("kind", ["web", HTML])
def test_connection_has_its_own_name_first_and_its_number_in_grey(
    process: BrokerProcess, web: Web, page: Page, kind: str
) -> None:
    name = f"{kind} {some_name('client')}"
    with named(process, name) as connection:
        connection.channel().confirm_select()
        number = next(each for each in web.get("/connections") if each["user_provided_name"] == name)["penstock"][
            "number"
        ]
        visit(process, page, "connections")
        shown = listed(page, "Connections", name)
        shown.wait_for()
        assert shown.locator("td.name").inner_text() == f"{name}con:{number}"
        assert "0-9-1" in shown.inner_text()
        assert "AMQP" not in shown.inner_text()
        page.goto(f"{process.http}/#/channels")
        assert listed(page, "Channels", name).locator("td.name").inner_text() == f"{name}con:{number}/ch:1"
        page.goto(f"{process.http}/#/connections/{number}")
        page.get_by_role("heading", name=name, exact=True, level=1).wait_for()
        assert page.locator("main img").count() == 0


def test_connection_held_by_the_operator_is_red_until_it_is_released(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    name = some_name("loud")
    with named(process, name):
        visit(process, page, "connections")
        assert listed(page, "Connections", name).locator("td.st").inner_text() == "open"
        listed(page, "Connections", name).get_by_role("link").click()
        page.get_by_role("button", name="Hold…").click()
        answer(page, "Hold", Reason="too loud")
        why = page.get_by_role("region", name="Why")
        why.get_by_text("The operator holds").wait_for()
        why.get_by_text("Reason: too loud").wait_for()
        page.goto(f"{process.http}/#/connections")
        held = listed(page, "Connections", name).locator("td.st .red")
        held.wait_for()
        assert held.inner_text().startswith("held by the operator")
        page.goto(f"{process.http}/#/connections/{quote(name)}")
        page.get_by_role("button", name="Release").click()
        why.wait_for(state="detached")
        page.get_by_role("button", name="Hold…").wait_for()


def test_blocked_connection_names_the_queue_and_leads_there(process: BrokerProcess, web: Web, page: Page) -> None:
    name, queue = some_name("blocked"), some_name("full")
    with named(process, name) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, arguments={"capacity-messages": 10, "stop-messages": 3, "resume-messages": 1})
        channel.confirm_select()
        for _ in range(4):
            channel.publish(b"order", routing_key=queue)
        visit(process, page, "connections")
        listed(page, "Connections", name).get_by_text(re.compile(f"^blocked .* by queue {queue}$")).wait_for()
        first = page.get_by_role("table", name="Connections").locator("tbody tr").first
        assert first.locator(".red").count() == 1, "those that stand still are first"
        listed(page, "Connections", name).get_by_role("link").click()
        why = page.get_by_role("region", name="Why")
        why.get_by_text(f"{name} has waited for").wait_for()
        why.get_by_text("4 messages > stop 3 (opens at 1)").wait_for()
        why.get_by_role("link", name=f"Open {queue}").click()
        page.get_by_role("heading", name=queue, exact=True, level=1).wait_for()
        web.do("DELETE", f"/queues/%2F/{queue}")


def test_consumer_says_how_much_of_its_window_is_used(process: BrokerProcess, web: Web, page: Page) -> None:
    name, queue = some_name("reader"), some_name("read")
    web.declare(queue)
    for _ in range(3):
        web.publish(queue)
    with named(process, name) as connection:
        channel = connection.channel()
        channel.qos(2)
        channel.consume(queue)
        visit(process, page, "consumers")
        shown = listed(page, "Consumers", name)
        shown.get_by_text("prefetch is used up").wait_for()
        assert "2 of 2" in shown.inner_text()
        shown.get_by_role("link", name=queue, exact=True).wait_for()
        page.goto(f"{process.http}/#/connections/{quote(name)}")
        page.get_by_role("table", name="Consumers").get_by_text("prefetch is used up").wait_for()


def test_consumer_has_a_rate_with_the_second_answer(process: BrokerProcess, web: Web, page: Page) -> None:
    name, queue = some_name("idle"), some_name("read")
    web.declare(queue)
    with named(process, name) as connection:
        connection.channel().consume(queue)
        visit(process, page, "consumers")
        rate = listed(page, "Consumers", name).locator("td[data-label='Out /s']")
        rate.get_by_text("–", exact=True).wait_for()
        rate.get_by_text("0", exact=True).wait_for()


def test_session_of_amqp_10_shows_the_credit_of_its_links(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("linked")
    web.declare(queue)
    with SocketPeer(process) as client:
        client.attach_sender(0, composite(spec.TARGET, address=f"/queues/{queue}"))
        client.await_one("attach")
        number = next(each for each in web.get("/connections") if each["protocol"] == "AMQP 1.0")["penstock"]["number"]
        visit(process, page, f"connections/{number}")
        sessions = page.get_by_role("table", name="Sessions")
        sessions.get_by_text("1 sending link").wait_for()
        sessions.get_by_text(re.compile("^credit [0-9,]+$")).wait_for()


def test_connection_is_closed_with_a_reason_for_its_client(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("closed")
    with named(process, name) as connection:
        channel = connection.channel()
        visit(process, page, f"connections/{quote(name)}")
        page.get_by_role("button", name="Close connection…").click()
        page.get_by_role("dialog").get_by_text("1 channel ends.").wait_for()
        answer(page, "Close connection", Reason="the host moves")
        page.get_by_role("heading", name="Connections", exact=True).wait_for()
        with pytest.raises(ConnectionClosed, match="the host moves"):
            channel.queue_declare("never")


def test_page_of_an_ended_connection_has_no_forms(process: BrokerProcess, page: Page) -> None:
    name = some_name("ended")
    with named(process, name):
        visit(process, page, f"connections/{quote(name)}")
        page.get_by_role("button", name="Close connection…").wait_for()
    page.get_by_text("has ended. Its client may have a new one.").wait_for()
    assert page.get_by_role("button", name="Close connection…").count() == 0
    assert page.get_by_role("table").count() == 0


def test_own_connection_is_closed_and_not_held_without_the_tag(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    user = some_name("manager")
    web.do("PUT", f"/users/{user}", {"password": PASSWORD, "tags": "management"}, status=201)
    web.do("PUT", f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"}, status=201)
    with (
        Connection(f"amqp://{user}:{quote(PASSWORD)}@127.0.0.1:{process.port}/") as _,
        console(browser, process.http, user=user, password=PASSWORD) as page,
    ):
        page.goto(f"{process.http}/#/connections")
        page.get_by_role("table", name="Connections").get_by_role("link").click()
        page.get_by_role("button", name="Close connection…").wait_for()
        assert page.get_by_role("button", name="Hold…").count() == 0
    web.do("DELETE", f"/users/{user}")
