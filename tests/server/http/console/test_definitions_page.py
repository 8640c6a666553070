"""Definitions in the console: dry run, import, and skipped entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, row, visit
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, str]:
    """A file with an exchange that is refused, what needs it, a stream and a queue; and its virtual host."""
    vhost = some_name("definitions")
    exchange = {"vhost": vhost, "name": HTML, "type": "x-delayed-message", "durable": True}
    queues = [
        {"vhost": vhost, "name": "orders", "durable": True, "arguments": {"x-dead-letter-exchange": HTML}},
        {"vhost": vhost, "name": "events", "durable": True, "arguments": {"x-queue-type": "stream"}},
    ]
    bindings = [{"vhost": vhost, "source": HTML, "destination": "orders", "destination_type": "queue"}]
    path = tmp_path / "broker.json"
    path.write_text(
        json.dumps({"vhosts": [{"name": vhost}], "exchanges": [exchange], "queues": queues, "bindings": bindings})
    )
    return path, vhost


def give(page: Page, path: Path, *options: str) -> None:
    page.get_by_label("File").set_input_files(path)
    for option in ("Skip refused entries", "Streams as queues"):
        page.get_by_label(option).set_checked(option in options)


@pytest.mark.slow
def test_file_with_refused_entries_is_tried_refused_and_imported_without_them(
    process: BrokerProcess, web: Web, page: Page, file: tuple[Path, str]
) -> None:
    path, vhost = file
    before = [each["name"] for each in web.get("/vhosts")]
    visit(process, page, "definitions")
    give(page, path)
    page.get_by_role("button", name="Try").click()
    page.get_by_text("It cannot be imported: 3 entries are refused, and nothing would be changed.").wait_for()
    row(page, "Entries", f"exchange '{HTML}' in vhost '{vhost}'", "refused").wait_for()
    page.get_by_role("button", name="Import").click()
    page.get_by_role("heading", name="Refused", exact=True).wait_for()
    page.get_by_text("nothing was imported").wait_for()
    assert [each["name"] for each in web.get("/vhosts")] == before
    options = ("Skip refused entries", "Streams as queues")
    give(page, path, *options)
    page.get_by_role("button", name="Try").click()
    page.get_by_text("It can be imported: 3 to be created, 0 to be changed, 0 unchanged, 2 to be skipped.").wait_for()
    row(page, "Entries", f"exchange '{HTML}' in vhost '{vhost}'", "skipped").wait_for()
    page.get_by_role("button", name="Import").click()
    page.get_by_text("1 vhost, 2 queues created; 1 exchange, 1 binding skipped.").wait_for()
    page.get_by_text("dead letters are lost until it exists").wait_for()
    page.get_by_text("a stream, imported as a durable queue").wait_for()
    assert page.locator("main img, main b").count() == 0
    assert {each["name"] for each in web.get(f"/queues/{vhost}")} == {"orders", "events"}
    web.do("DELETE", f"/vhosts/{vhost}")
