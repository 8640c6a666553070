"""The overview: figures, the chart with its lane, alarms in full, and resources against their limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.certificates import SETTINGS, Authority, serving_tls
from tests.support.commands import run
from tests.support.console_browser import HTML, console, row, visit
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORD = "a long password"


def figure(page: Page, name: str) -> str:
    """Return the figure of this name, without its unit."""
    found = page.locator(".figures > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")
    found.wait_for()
    return str(found.evaluate("figure => figure.firstChild.textContent"))


def test_figures_are_those_of_the_events(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("counted")
    web.declare(queue)
    web.publish(queue)
    visit(process, page, "overview")
    page.get_by_text("Blocked producers", exact=True).wait_for()
    messages = sum(each["messages"] for each in web.get("/queues"))
    page.locator(".figures dd").first.get_by_text(f"{messages:,}", exact=True).wait_for()
    assert figure(page, "Blocked producers") == "0"


def test_lane_of_the_chart_says_when_a_gate_was_closed(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("held")
    web.declare(queue)
    web.do("POST", "/penstock/block", {"queue": queue}, status=200)
    visit(process, page, "overview")
    chart = page.get_by_role("region", name="Messages and rates")
    chart.locator("path.shut").wait_for(state="attached")
    assert chart.locator("svg text", has_text="a gate closed").count() == 1
    web.do("POST", "/penstock/unblock", {"queue": queue}, status=200)
    chart.get_by_role("button", name="1 h").click()
    assert chart.get_by_role("button", name="1 h").get_attribute("aria-pressed") == "true"
    chart.locator("path.shut").wait_for(state="attached")


def test_resources_and_listeners_have_their_limits(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "overview")
    table = page.get_by_role("table", name="Resources")
    files = table.get_by_role("row").filter(has_text="Open files")
    files.wait_for()
    assert " of " in files.inner_text()
    assert table.get_by_role("row").filter(has_text="Connections").get_by_text("no limit").count() == 1
    row(page, "Listeners", "amqp", f"127.0.0.1:{process.port}").wait_for()
    assert (
        page.get_by_text("none: nothing is kept after a stop").count() + page.get_by_text("all of it written").count()
        == 1
    )


@pytest.mark.slow
def test_certificate_that_ends_is_on_the_overview(browser: Browser, tmp_path: Path) -> None:
    Authority(tmp_path).issue("server", "localhost", days=5)
    with (
        serving_tls(tmp_path, SETTINGS.replace('http-tls = "127.0.0.1:0"\n', ""), "--http", "127.0.0.1:0") as broker,
        console(browser, broker.http) as page,
    ):
        page.goto(f"{broker.http}/#/overview")
        left = page.get_by_role("table", name="Certificates").locator(".amber")
        left.get_by_text("left").wait_for()


@pytest.mark.slow
def test_alarm_is_told_in_full_with_what_helps(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker, console(browser, broker.http) as page:
        names = ("alarm-gate-closed=1ms", "alarm-clear=1ms", "alarm-disk-low=none", "alarm-loop=none")
        run(broker, "broker", "set", *names)
        run(broker, "queues", "declare", HTML)
        run(broker, "queues", "block", HTML)
        page.goto(f"{broker.http}/#/overview")
        alarms = page.get_by_role("region", name="Raised alarms")
        alarms.get_by_text(f"the operator, who holds queue {HTML}").wait_for()
        alarms.get_by_text("What helps: ").wait_for()
        assert alarms.locator("code").inner_text() == f"penstock queues unblock {HTML}"
        alarms.get_by_role("link", name="See the queue").click()
        page.get_by_role("heading", name=HTML, exact=True, level=1).wait_for()
        assert page.locator("main img").count() == 0
        run(broker, "queues", "unblock", HTML)
        page.goto(f"{broker.http}/#/overview")
        page.locator("main .alarm").wait_for(state="detached")


def test_overview_without_the_tag_monitoring_has_own_figures(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    name = some_name("manager")
    web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": "management"}, status=201)
    with console(browser, process.http, user=name, password=PASSWORD) as page:
        page.goto(f"{process.http}/#/overview")
        page.get_by_text("Your connections", exact=True).wait_for()
        page.get_by_text("The node, its resources and its alarms need the tag monitoring.").wait_for()
        assert page.locator("main .chart").count() == 0
    web.do("DELETE", f"/users/{name}")
