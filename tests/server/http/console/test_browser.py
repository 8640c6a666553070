"""The console in a real browser: a blocked producer, and the actions of a person."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.console_browser import console
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def fill(process: BrokerProcess, queue: str, count: int) -> Connection:
    """Publish to a queue until its gate closes; return the connection, whose producer is blocked."""
    connection = Connection(process.url)
    channel = connection.channel()
    channel.queue_declare(queue, arguments={"capacity-messages": 10, "stop-messages": 3, "resume-messages": 1})
    channel.confirm_select()
    for _ in range(count):
        channel.publish(b"order", routing_key=queue)
    return connection


@pytest.mark.slow
def test_blocked_producer_is_on_the_map_and_why_names_the_gate(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("orders")
    with fill(process, queue, 4):
        page.goto(f"{process.http}/#/flow")
        producer = page.get_by_role("group", name="Producers").get_by_role("button", name="blocked").first
        producer.focus()
        assert page.locator("svg.roads .stops path").count() >= 1
        page.keyboard.press("Enter")
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_text(f"{queue} has been closed for").wait_for()
        panel.get_by_role("button", name=queue).first.press("Enter")
        panel.get_by_text("The gate opens at 1 message: 3 fewer").wait_for()
        panel.get_by_role("table", name="In line").wait_for()
        panel.get_by_text("A consumer: nobody reads this queue.").wait_for()
        web.do("DELETE", f"/queues/%2F/{quote(queue)}/contents")
        page.get_by_text("Nobody waits.").first.wait_for()


def test_console_pages_open_and_show_their_objects(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("seen")
    web.declare(queue)
    with Connection(process.url) as connection, connect(process.url, protocol="amqp091") as control:
        connection.channel().confirm_select()
        control.attach_cursor(f"reader of {queue}", [queue])
        for key, heading, text in (
            ("overview", "Overview", "Blocked producers"),
            ("exchanges", "Exchanges", "No application has declared an exchange yet."),
            ("exchanges/%2F/amq.topic", "amq.topic", "Leads to"),
            ("connections", "Connections", "con:"),
            ("channels", "Channels", "confirms"),
            ("consumers", "Consumers", "consumer"),
            ("users", "Users", "administrator"),
            ("vhosts", "Virtual hosts", "1 virtual host."),
            ("limits", "Limits", "No user has a limit."),
            ("settings", "Settings", "hold-deadline"),
            ("cursors", "Cursors", f"reader of {queue}"),
            ("policies", "Policies", "Operator policies"),
            ("definitions", "Definitions", "Export…"),
        ):
            page.goto(f"{process.http}/#/{key}")
            page.get_by_role("heading", name=heading, exact=True, level=1).wait_for()
            page.get_by_role("main").get_by_text(text).first.wait_for()


def test_login_is_refused_in_words_and_one_without_monitoring_has_lists(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    web.do("PUT", "/users/manager", {"password": "a long password", "tags": "management"}, status=201)
    window = browser.new_context()
    page = window.new_page()
    page.goto(process.http)
    for password, expected in (("wrong", "The broker refuses this login."), ("a long password", "every 10 s")):
        page.get_by_label("User").fill("manager")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.get_by_text(expected).wait_for()
    assert page.locator("#trouble").inner_text() == "", "a user without monitoring is no trouble"
    page.goto(f"{process.http}/#/overview")
    page.get_by_text("Messages", exact=True).wait_for()
    page.get_by_role("button", name="User manager").click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Password").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    window.close()


def held(web: Web, queue: str) -> None:
    """Declare a queue that the operator holds: it stays on the map."""
    web.do("PUT", f"/queues/%2F/{queue}", {"durable": False}, status=201)
    web.do("POST", "/penstock/block", {"queue": queue}, status=200)


@pytest.mark.slow
def test_console_says_that_the_broker_is_away_and_comes_back_by_itself(browser: Browser, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with serving(tmp_path, "--http", address) as first, console(browser, first.http) as page:
        page.get_by_text("There are no queues yet.").wait_for()
        held(Web(first.http), "sooner")
        page.get_by_role("button", name="Queue sooner ").click()
        page.get_by_role("complementary", name="Why").get_by_role("button", name="Close").wait_for()
        first.stop()
        page.get_by_text("The broker does not answer.").wait_for()
        with serving(tmp_path, "--http", address) as second:
            held(Web(second.http), "later")
            page.get_by_role("button", name="Queue later ").wait_for()
            assert page.get_by_role("alert").inner_text() == ""
            assert page.get_by_role("complementary", name="Why").get_by_role("button", name="Close").count() == 0
