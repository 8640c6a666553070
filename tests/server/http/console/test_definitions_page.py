"""Definitions in the console: a file is tried first, refused entries are seen first, and the rest is imported."""

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

BIG = 9_007_199_254_740_993
"""Number that JavaScript cannot count to."""


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, str]:
    """A file with an exchange that is refused, what needs it, a stream and a queue; and its virtual host."""
    vhost = some_name("definitions")
    exchange = {"vhost": vhost, "name": HTML, "type": "x-recent-history", "durable": True}
    queues = [
        {"vhost": vhost, "name": "orders", "durable": True, "arguments": {"x-dead-letter-exchange": HTML}},
        {"vhost": vhost, "name": "events", "durable": True, "arguments": {"x-queue-type": "stream"}},
    ]
    bindings = [
        {"vhost": vhost, "source": HTML, "destination": "orders", "destination_type": "queue", "arguments": {"n": BIG}},
        {"vhost": vhost, "source": "amq.topic", "destination": "orders", "destination_type": "queue"},
    ]
    path = tmp_path / "broker.json"
    # All in one line: entries are found by their names, and not by their lines alone.
    path.write_text(
        json.dumps(
            {
                "rabbit_version": "3.13.1",
                "vhosts": [{"name": vhost}],
                "exchanges": [exchange],
                "queues": queues,
                "bindings": bindings,
            }
        )
    )
    return path, vhost


def give(page: Page, path: Path) -> None:
    page.get_by_label("File", exact=True).first.set_input_files(path)


@pytest.mark.slow
def test_file_with_refused_entries_is_imported_without_them(
    process: BrokerProcess, web: Web, page: Page, file: tuple[Path, str]
) -> None:
    path, vhost = file
    before = [each["name"] for each in web.get("/vhosts")]
    visit(process, page, "definitions")
    give(page, path)
    page.get_by_text("3 entries are refused, so this file is not imported as it is.").wait_for()
    page.get_by_text("from RabbitMQ 3.13.1").wait_for()
    assert page.get_by_role("button", name="Import all").is_disabled()
    rows = page.get_by_role("table", name="Entries").get_by_role("row")
    assert [each.get_by_role("cell").first.inner_text() for each in rows.all()[1:]] == ["refused"] * 3 + ["created"] * 3
    row(page, "Entries", "refused", "exchange", HTML, vhost).wait_for()
    page.get_by_role("button", name="Refused 3").click()
    assert rows.count() == 4
    assert [each["name"] for each in web.get("/vhosts")] == before
    page.get_by_label("Streams as durable queues").check()
    page.get_by_text("2 entries are refused,").wait_for()
    page.get_by_role("button", name="Import 4 without them").click()
    page.get_by_text("Imported. 4 created, 2 left out.").wait_for()
    page.get_by_text("Created: 1 virtual host, 2 queues, 1 binding.").wait_for()
    page.get_by_text("dead letters are lost until it exists").wait_for()
    row(page, "Entries", "left out", "exchange", HTML, vhost).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download what was left out").click()
    assert download.value.suggested_filename == "left-out-of-broker.json"
    left = json.loads(Path(download.value.path()).read_text())
    assert [each["name"] for each in left["exchanges"]] == [HTML]
    assert left["bindings"] == [
        {"vhost": vhost, "source": HTML, "destination": "orders", "destination_type": "queue", "arguments": {"n": BIG}}
    ]
    assert page.locator("main img, main b > b").count() == 0
    assert {each["name"] for each in web.get(f"/queues/{vhost}")} == {"orders", "events"}
    page.get_by_role("button", name="Dry run again").click()
    page.get_by_role("button", name="As it is 4").click()
    page.get_by_text("1 virtual host, 2 queues, 1 binding: they are there as the file has them.").wait_for()
    web.do("DELETE", f"/vhosts/{vhost}")


def test_broken_file_is_shown_at_its_place(process: BrokerProcess, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"vhosts": [\n  {"name": "eu",}\n]}')
    visit(process, page, "definitions")
    give(page, path)
    page.get_by_text("This file cannot be read. Line 2, column 17:").wait_for()
    assert page.locator("mark").inner_text() == "}"
    assert page.get_by_role("button", name="Import").count() == 0


def test_file_that_is_dropped_on_the_page_is_tried(process: BrokerProcess, web: Web, page: Page) -> None:
    vhost = some_name("dropped")
    visit(process, page, "definitions")
    page.get_by_role("button", name="Choose a file…").wait_for()
    text = json.dumps({"vhosts": [{"name": vhost}], "queues": [{"name": "q", "durable": True}]})
    page.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "one.json"));
            const more = { dataTransfer: data, bubbles: true, cancelable: true };
            const main = document.querySelector("main");
            for (const kind of ["dragover", "drop"]) main.dispatchEvent(new DragEvent(kind, more));
        }""",
        text,
    )
    page.get_by_text("1 entry is refused,").wait_for()
    page.get_by_label("Entries without a virtual host go").select_option("/")
    page.get_by_text("This file can be imported. 2 created.").wait_for()
    page.get_by_role("button", name="Import all 2").click()
    page.get_by_text("Imported. 2 created.").wait_for()
    assert web.queue("q")["durable"]
    web.do("DELETE", "/queues/%2F/q")
    web.do("DELETE", f"/vhosts/{vhost}")


def test_export_has_what_was_chosen(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("exported")
    web.do("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": {"n": BIG}}, status=201)
    visit(process, page, "definitions")
    for vhost, users, sections in (("", True, True), ("", False, False), ("/", True, False)):
        page.get_by_role("button", name="Export…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Of").select_option(vhost)
        if dialog.get_by_label("With users and permissions").is_enabled():
            dialog.get_by_label("With users and permissions").set_checked(users)
        with page.expect_download() as download:
            dialog.get_by_role("button", name="Export", exact=True).click()
        found = json.loads(Path(download.value.path()).read_text())
        assert ("users" in found, "permissions" in found) == (sections, sections)
        (queue,) = [each for each in found["queues"] if each["name"] == name]
        assert queue["arguments"] == {"n": BIG}
        dialog.wait_for(state="detached")
    web.do("DELETE", f"/queues/%2F/{name}")
