"""Alarms in the console: a strip below the head of each page, and all of them in a dialog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import serving
from tests.support.commands import run
from tests.support.console_browser import HTML, console
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SETTINGS = ("alarm-gate-closed=1ms", "alarm-clear=1ms", "alarm-disk-low=none", "alarm-loop=none")
"""Settings under which the only alarms are of gates, at once."""


@pytest.mark.slow
def test_hold_by_the_operator_is_a_red_alarm_on_each_page_until_its_end(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker, console(browser, broker.http) as page:
        run(broker, "broker", "set", *SETTINGS)
        run(broker, "queues", "declare", HTML)
        run(broker, "queues", "block", HTML)
        page.goto(f"{broker.http}/#/users")
        strip = page.get_by_role("region", name="Alarms")
        strip.get_by_text(f"The operator, who holds queue {HTML}").wait_for()
        assert page.locator("#alarms img").count() == 0
        assert strip.get_attribute("class") == "stop"
        assert page.locator("#alarms .others").count() == 0
        strip.get_by_role("button", name="1 alarm", exact=True).click()
        dialog = page.get_by_role("dialog", name="Alarms")
        dialog.get_by_text(f"penstock queues unblock {HTML}").wait_for()
        assert dialog.locator("code").count() == 1
        dialog.get_by_role("link", name="See the queue").click()
        page.get_by_role("heading", name=HTML, level=1).wait_for()
        assert dialog.count() == 0, "a change of the page closes it"
        run(broker, "queues", "unblock", HTML)
        strip.get_by_text(HTML).first.wait_for(state="detached")


@pytest.mark.slow
def test_strip_has_the_first_alarm_in_full_and_others_by_name(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker, console(browser, broker.http) as page:
        run(broker, "broker", "set", *SETTINGS)
        web = Web(broker.http)
        for name in ("first", "second"):
            web.declare(name, **{"capacity-messages": 10, "stop-messages": 0, "resume-messages": 0, "hold-deadline": 1})
            web.publish(name)
        strip = page.get_by_role("region", name="Alarms")
        strip.get_by_role("button", name="2 alarms", exact=True).wait_for()
        assert strip.get_attribute("class") == "", "no publisher of the whole broker waits"
        assert page.locator("#alarms .one").count() == 1
        assert strip.get_by_role("listitem").count() == 1
        assert strip.get_by_role("status").inner_text() == "2 alarms: Gate, Gate"
