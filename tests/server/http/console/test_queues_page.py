"""The list of queues: groups, words of states, filters, chosen columns, and the dialog that declares a queue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.console_browser import HTML, LONG, console, visit
from tests.support.http_client import Web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

GATED = {"capacity-messages": 10, "stop-messages": 3, "resume-messages": 1}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a queue whose gate is closed, one that the operator holds, one without readers, two empty ones."""
    with serving(tmp_path_factory.mktemp("queues"), "--http", "127.0.0.1:0") as process:
        web = Web(process.http)
        web.do("PUT", "/vhosts/tenants", {}, status=201)
        web.do("PUT", "/queues/tenants/idle.jobs", {}, status=201)
        web.declare("idle")
        web.declare("shut", **GATED, **{"hold-deadline": 1})
        for _ in range(4):
            web.publish("shut")
        web.declare("left")
        for _ in range(5):
            web.publish("left")
        web.declare("held")
        web.do("POST", "/penstock/block", {"queue": "held", "reason": "stocktaking until noon"}, status=200)
        yield process


def listed(page: Page) -> Locator:
    return page.get_by_role("table", name="Queues")


def row(page: Page, queue: str) -> Locator:
    return listed(page).get_by_role("row").filter(has=page.get_by_role("link", name=queue, exact=True))


@pytest.mark.slow
def test_queues_are_in_groups_with_their_states_in_words(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "queues")
    row(page, "left").wait_for()
    groups = listed(page).get_by_role("rowgroup").filter(has=page.get_by_role("rowheader"))
    heads = [each.inner_text().split("\n")[0] for each in groups.get_by_role("rowheader").all()]
    assert [re.sub(r"\s.*", "", head) for head in heads] == ["Blocked", "Nobody", "Quiet"]
    assert re.search(r"closed [\d.]+\xa0?", row(page, "shut").inner_text())
    held = row(page, "held").get_by_text("held by the operator")
    held.wait_for()
    assert row(page, "held").get_by_title("stocktaking until noon").count() == 1
    row(page, "left").get_by_text("no consumer").wait_for()
    assert row(page, "shut").get_by_role("img", name="gate closed").count() == 1
    assert row(page, "left").get_by_role("img", name="gate open").count() == 1
    bar = row(page, "shut").get_by_role("img", name="4 messages, resume 1, stop 3, capacity 10")
    assert bar.count() == 1
    page.get_by_text("5 in 2 virtual hosts, 9 messages").wait_for()


def test_queue_held_with_its_virtual_host_says_which(process: BrokerProcess, web: Web, page: Page) -> None:
    web.do("POST", "/penstock/block", {"vhost": "tenants", "reason": "unpaid"}, status=200)
    visit(process, page, "queues")
    held = row(page, "idle.jobs")
    held.get_by_text("with virtual host tenants").wait_for()
    assert held.get_by_title("unpaid").count() == 1
    web.do("POST", "/penstock/unblock", {"vhost": "tenants"}, status=200)


@pytest.mark.parametrize(
    ("chip", "shown"),
    [
        ("Blocked 2", ["shut", "held"]),
        ("Nobody reads 1", ["left"]),
        ("All 5", ["shut", "held", "left", "idle", "idle.jobs"]),
    ],
)
def test_chip_has_the_count_of_its_group_and_chooses_the_group(
    process: BrokerProcess, page: Page, chip: str, shown: list[str]
) -> None:
    visit(process, page, "queues")
    page.get_by_role("button", name=chip).click()
    page.get_by_text(f"1–{len(shown)} of {len(shown)}", exact=True).wait_for()
    assert listed(page).get_by_role("link").all_inner_texts() == shown
    assert page.get_by_role("button", name=chip).get_attribute("aria-pressed") == "true"


def test_virtual_host_is_chosen_and_its_totals_are_told(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "queues")
    page.get_by_label("Virtual host").select_option("tenants")
    page.get_by_text("1–1 of 1", exact=True).wait_for()
    assert listed(page).get_by_role("link").all_inner_texts() == ["idle.jobs"]
    page.get_by_text("1, 0 messages, 0 B.").wait_for()


def test_filter_that_finds_nothing_names_how_many_were_searched(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "queues")
    row(page, "left").wait_for()
    page.get_by_label("Filter by name").fill("ordres")
    page.get_by_text("Nothing has “ordres” in its name; 5 were searched.").wait_for()
    page.get_by_label("Filter by name").fill("lfet")
    page.get_by_text(re.compile("left( and .*)? (is|are) near")).wait_for()
    page.get_by_role("link", name="left").wait_for()
    page.get_by_role("button", name="Clear the filter").click()
    row(page, "left").wait_for()
    assert page.get_by_label("Filter by name").input_value() == ""


def test_chosen_columns_are_kept_for_the_next_visit(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "queues")
    row(page, "left").wait_for()
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Type", exact=True).check()
    page.get_by_label("Bytes", exact=True).uncheck()
    page.get_by_role("dialog").get_by_text("Close", exact=True).click()
    visit(process, page, "queues")
    row(page, "left").get_by_role("cell", name="classic").wait_for()
    heads = listed(page).get_by_role("columnheader").all_inner_texts()
    assert ("Type" in heads, "Bytes" in heads) == (True, False)
    page.evaluate("localStorage.clear()")


def test_rows_and_the_focus_stay_over_an_update(process: BrokerProcess, web: Web, page: Page) -> None:
    visit(process, page, "queues")
    row(page, "left").wait_for()
    row(page, "left").evaluate("row => { row.dataset.kept = 'yes'; row.focus(); }")
    before = web.queue("idle")["messages"]
    web.publish("idle")
    shown = row(page, "idle").get_by_role("cell", name=str(before + 1), exact=True).first
    shown.wait_for(timeout=60_000)  # A list that answers slowly is asked for less often.
    assert page.evaluate("document.activeElement.dataset.kept") == "yes"
    web.do("DELETE", "/queues/%2F/idle/contents")


@pytest.mark.slow
def test_queue_is_two_lines_on_a_narrow_screen(browser: Browser, process: BrokerProcess, page: Page) -> None:
    with console(browser, process.http, 390, 844) as narrow:
        visit(process, narrow, "queues")
        row(narrow, "left").wait_for()
        for name in ("shut", "held", "left", "idle"):
            assert row(narrow, name).bounding_box()["height"] <= 66, name
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 390


def test_list_is_filtered_and_names_are_only_text(process: BrokerProcess, web: Web, page: Page) -> None:
    for name in (HTML, LONG):
        web.declare(name)
    visit(process, page, "queues")
    row(page, HTML).wait_for()
    row(page, LONG).wait_for()
    page.get_by_label("Filter by name").fill("<IMG")
    page.get_by_text("1–1 of 1", exact=True).wait_for()
    assert listed(page).get_by_role("link").all_inner_texts() == [HTML]
    row(page, HTML).get_by_role("link").click()
    page.get_by_role("heading", name=HTML).wait_for()
    assert page.locator("img, main b > b").count() == 0
    page.goto(f"{process.http}/#/queues/%2F/{quote(LONG)}")
    page.get_by_role("heading", name=LONG).wait_for()
    for name in (HTML, LONG):
        web.do("DELETE", f"/queues/%2F/{quote(name, safe='')}")


def test_new_queue_is_declared_as_its_dialog_says(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("made")
    visit(process, page, "queues")
    page.get_by_role("button", name="New queue").click()
    dialog = page.get_by_role("dialog", name="New queue")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Capacity in messages").fill("10")
    dialog.get_by_text("Further arguments").click()
    dialog.get_by_label("Arguments, as JSON").fill('{"stop-messages": 20}')
    dialog.get_by_role("button", name="Create queue").click()
    dialog.get_by_role("alert").get_by_text("stop-messages").wait_for()
    assert dialog.get_by_label("Arguments, as JSON").get_attribute("aria-invalid") == "true"
    assert dialog.get_by_label("Capacity in messages").get_attribute("aria-invalid") is None
    dialog.get_by_label("Arguments, as JSON").fill("[1]")
    dialog.get_by_role("button", name="Create queue").click()
    dialog.get_by_text("The arguments are no JSON object.").wait_for()
    dialog.get_by_label("Arguments, as JSON").fill('{"stop-messages": 5}')
    dialog.get_by_role("button", name="Create queue").click()
    page.get_by_role("heading", name=name).wait_for()
    assert web.queue(name)["arguments"] == {"capacity-messages": 10, "stop-messages": 5}
    web.do("DELETE", f"/queues/%2F/{name}")
