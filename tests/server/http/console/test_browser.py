"""The console in a real browser: a blocked producer, and the actions of a person."""

from __future__ import annotations

import re
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
        producer = page.locator("svg .producer.blocked").first
        producer.wait_for()
        assert "blocked" in (producer.get_attribute("aria-label") or "")
        assert page.locator("svg .edge.blocked").count() >= 1
        producer.focus()
        page.keyboard.press("Enter")
        panel = page.get_by_role("complementary")
        panel.get_by_role("heading", name="What would open it").wait_for()
        said = panel.inner_text()
        assert "is blocked" in said
        assert f"by queue {queue}: 4 messages > stop 3 (opens at 1)" in said
        assert "It opens when its depth is at most 1 message; now it is 4 messages" in said
        assert f"start a consumer of queue {queue}" in said
        web.do("DELETE", f"/queues/%2F/{quote(queue)}/contents")
        page.get_by_text("Nobody is blocked.").wait_for()


def test_message_is_published_and_taken_by_hand(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("by hand")
    web.declare(queue)
    page.goto(f"{process.http}/#/queues/%2F/{quote(queue)}")
    page.get_by_label("Body of the message").fill("<script>hello</script>")
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("Published.").wait_for()
    page.get_by_label("Then").select_option("ack_requeue_false")
    page.get_by_role("button", name="Get", exact=True).click()
    page.get_by_text("<script>hello</script>", exact=True).wait_for()
    assert web.queue(queue)["messages"] == 0


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
            ("definitions", "Definitions", "Download"),
        ):
            page.goto(f"{process.http}/#/{key}")
            page.get_by_role("heading", name=heading, exact=True, level=1).wait_for()
            page.get_by_text(text).first.wait_for()


def test_limits_are_set_after_a_preview(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("limited")
    web.declare(queue)
    for _ in range(9):
        web.publish(queue)
    page.goto(f"{process.http}/#/queues/%2F/{quote(queue)}")
    page.get_by_label("Capacity in messages").fill("10")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("its gate closes at once: the depth is 9 messages").wait_for()
    assert web.queue(queue)["penstock"]["gate"]["open"]
    page.get_by_role("button", name="Set", exact=True).click()
    page.get_by_text(re.compile("^closed ")).first.wait_for()
    assert not web.queue(queue)["penstock"]["gate"]["open"]


def test_login_is_refused_in_words_and_one_without_monitoring_has_lists(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    web.do("PUT", "/users/manager", {"password": "a long password", "tags": "management"}, status=201)
    window = browser.new_context()
    page = window.new_page()
    page.goto(process.http)
    for password, expected in (("wrong", "The broker refuses this login."), ("a long password", "needs the tag")):
        page.get_by_label("User").fill("manager")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.get_by_text(expected).wait_for()
    page.goto(f"{process.http}/#/overview")
    page.get_by_text("Messages", exact=True).wait_for()
    page.get_by_role("button", name="Log out manager").click()
    page.get_by_label("Password").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    window.close()


@pytest.mark.slow
def test_console_says_that_the_broker_is_away_and_comes_back_by_itself(browser: Browser, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with serving(tmp_path, "--http", address) as first, console(browser, first.http) as page:
        page.get_by_text("There are no queues yet.").wait_for()
        Web(first.http).do("PUT", "/queues/%2F/sooner", {"durable": False}, status=201)
        page.get_by_role("button", name="Queue sooner: ").click()
        page.get_by_text("queue sooner: the gate is open").wait_for()
        first.stop()
        page.get_by_text("The broker does not answer.").wait_for()
        with serving(tmp_path, "--http", address) as second:
            Web(second.http).do("PUT", "/queues/%2F/later", {}, status=201)
            page.get_by_role("button", name="Queue later: ").wait_for()
            assert page.get_by_role("alert").inner_text() == ""
            page.get_by_text("Choose a producer, a gate, a queue or a reader.").wait_for()
