"""Alarms in the console: their number in the head of each page, and their list on the overview."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import serving
from tests.support.commands import run
from tests.support.console_browser import HTML, console

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.slow
def test_raised_alarm_is_in_the_head_and_on_the_overview_until_it_is_cleared(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker, console(browser, broker.http) as page:
        run(
            broker,
            "broker",
            "set",
            "alarm-gate-closed=1ms",
            "alarm-clear=1ms",
            "alarm-disk-low=none",
            "alarm-loop=none",
        )
        run(broker, "queues", "declare", HTML)
        run(broker, "queues", "block", HTML)
        page.goto(f"{broker.http}/#/queues")
        strip = page.locator("#alarms")
        strip.get_by_text(f"the operator, who holds queue {HTML}").wait_for()
        assert page.locator("#alarms img").count() == 0
        link = strip.get_by_role("link", name="1 alarm", exact=True)
        link.click()
        page.get_by_role("heading", name="Overview", exact=True, level=1).wait_for()
        page.get_by_role("main").get_by_text(f"the operator, who holds queue {HTML}").first.wait_for()
        run(broker, "queues", "unblock", HTML)
        link.wait_for(state="detached")
        page.locator("main .alarm").wait_for(state="detached")
