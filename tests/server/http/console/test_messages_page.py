"""Messages of a queue in the console: browsing, choosing, and what is done with chosen messages."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from pika import BasicProperties

from penstock.content.message_rows import read_message
from tests.support.brokers import BrokerProcess, eventually, serving, some_name
from tests.support.console_browser import HTML, console, visit
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

BIG = 9_007_199_254_740_993
"""Number that JavaScript cannot count to."""


def browse(process: BrokerProcess, page: Page, queue: str) -> Locator:
    """Open the messages of a queue; return their rows."""
    visit(process, page, f"queues/%2F/{quote(queue, safe='')}/messages")
    page.get_by_role("region", name="List of messages").wait_for()
    return page.get_by_role("table", name="Messages").locator("tbody tr")


def choose(page: Page, *positions: int) -> None:
    for position in positions:
        page.get_by_label(f"Select message {position}", exact=True).check()


def ended(page: Page, said: str) -> None:
    """Wait for the end of a job, and close its line."""
    line = page.locator("#jobs .job.ended", has_text=said)
    line.wait_for()
    line.get_by_role("button").click()


def letters(web: Web, count: int, **arguments: object) -> tuple[str, str]:
    """Declare a queue with so many dead letters, and the queue in which they died; return both names."""
    dead, work = some_name("dead"), some_name("work")
    web.declare(dead)
    web.declare(work, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, **arguments)
    for number in range(1, count + 1):
        payload = json.dumps({"id": number, "big": BIG, "customer": f"c-{number}"})
        properties = {"content_type": "application/json", "headers": {"trace": f"t{number % 2}", "big": BIG}}
        assert web.publish(work, payload, properties=properties).status == 200
        assert len(web.take(work, "reject_requeue_false", 1)) == 1
    eventually(lambda: web.queue(dead)["messages"] == count, "dead letters")
    return dead, work


@pytest.mark.slow
def test_dead_letters_are_shown_with_their_reason_and_stay_unmarked(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    dead, work = letters(web, 3)
    web.publish(dead, HTML, properties={"type": HTML})
    rows = browse(process, page, dead)
    page.get_by_role("button", name="rejected 3").wait_for()
    assert rows.first.inner_text().split("\t")[1:4] == ["1", dead, "rejected"]
    page.get_by_role("button", name="never died 1").click()
    rows.nth(0).get_by_text("ready").wait_for()
    assert rows.count() == 1
    rows.first.click()
    message = page.get_by_role("complementary", name="The message")
    message.get_by_text(HTML).first.wait_for()
    assert page.locator("main img, main b > b").count() == 0
    page.get_by_role("button", name="All 4").click()
    rows.nth(3).wait_for()
    rows.nth(1).click()
    body = message.get_by_role("region", name="Body")
    body.get_by_text('"customer": "c-2"').wait_for()
    assert body.inner_text() == f'{{\n  "id": 2,\n  "big": {BIG},\n  "customer": "c-2"\n}}'
    assert message.locator("dt", has_text="big").locator("+ dd").inner_text() == str(BIG)
    message.get_by_role("link", name=work).wait_for()
    assert [row["redelivered"] for row in web.get(f"/penstock/queues/%2F/{dead}/messages")["messages"]] == [False] * 4
    assert web.queue(dead)["message_stats"]["get"] == 0


@pytest.mark.slow
def test_chosen_letters_are_redriven_after_a_preview(process: BrokerProcess, web: Web, page: Page) -> None:
    dead, work = letters(web, 3)
    browse(process, page, dead)
    choose(page, 1, 3)
    page.get_by_role("button", name=f"Redrive to {work}…").click()
    dialog = page.get_by_role("dialog", name="Redrive 2 messages")
    row = dialog.get_by_role("row").nth(1)
    row.get_by_text("They go in at once.").wait_for()
    assert row.get_by_role("cell").all_inner_texts() == [work, "2", "They go in at once."]
    dialog.get_by_label("At most, per second").fill("fast")
    dialog.get_by_role("button", name="Redrive 2").click()
    dialog.get_by_text("is a whole number from 1, not “fast”").wait_for()
    dialog.get_by_label("At most, per second").fill("1,000")
    dialog.get_by_label("x-death").select_option("forget")
    dialog.get_by_role("button", name="Redrive 2").click()
    ended(page, "2 redriven")
    page.get_by_role("button", name="Redrive all 1…").wait_for()
    found = web.get(f"/penstock/queues/%2F/{work}/messages")["messages"]
    assert [json.loads(row["payload"])["id"] for row in found] == [1, 3]
    assert [sorted(row["properties"]["headers"]) for row in found] == [["big", "trace", "x-redrive-count"]] * 2
    page.get_by_role("button", name="Redrive all 1…").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive 1").click()
    ended(page, "1 redriven")
    page.get_by_text("The queue has no message.").wait_for()
    assert web.queue(work)["messages"] == 3


@pytest.mark.slow
def test_letters_that_cannot_go_are_named_before_a_redrive(process: BrokerProcess, web: Web, page: Page) -> None:
    dead, work = letters(web, 2)
    web.do("DELETE", f"/queues/%2F/{work}")
    browse(process, page, dead)
    page.get_by_role("button", name="Redrive all 2…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("row", name="stay here 2").get_by_text(f"Queue '{work}', in which they died").wait_for()
    assert dialog.get_by_role("button", name="Redrive 2").is_disabled()
    dialog.get_by_role("button", name="Cancel").click()


@pytest.mark.slow
def test_full_target_holds_a_copy_which_a_person_stops(process: BrokerProcess, web: Web, page: Page) -> None:
    source, target = some_name("source"), f"{some_name('full')}{HTML}"
    web.declare(source)
    web.declare(target, **{"capacity-messages": 1})
    for _ in range(3):
        web.publish(source)
    browse(process, page, source)
    page.get_by_label("Select all shown").check()
    page.get_by_role("button", name="Move to…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy", exact=True).click()
    dialog.get_by_label("Target queue").fill("no queue")
    dialog.get_by_label("At most, per second").focus()
    dialog.get_by_text("There is no queue no queue in virtual host /.").wait_for()
    dialog.get_by_label("Target queue").fill(target)
    dialog.get_by_label("At most, per second").focus()
    dialog.get_by_text("open; 0 messages").wait_for()
    dialog.get_by_role("button", name="Copy 3").click()
    page.locator("#jobs").get_by_text(f"its next message waits: queue '{target}'").wait_for()
    page.get_by_role("button", name="Cancel job").click()
    ended(page, "1 of 3 messages are copied")
    assert web.queue(source)["messages"] == 3


@pytest.mark.slow
def test_messages_are_moved_to_a_queue_and_to_an_exchange(process: BrokerProcess, web: Web, page: Page) -> None:
    source, target = some_name("source"), some_name("target")
    for queue in (source, target):
        web.declare(queue)
    for number in range(3):
        web.publish(source, str(number))
    browse(process, page, source)
    choose(page, 2)
    page.get_by_role("button", name="Move to…").click()
    page.get_by_role("dialog").get_by_label("Target queue").fill(target)
    page.get_by_role("dialog").get_by_role("button", name="Move 1").click()
    ended(page, "1 moved")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("button", name="Move all…").click()
    dialog = page.get_by_role("dialog", name="Move 2 messages")
    dialog.get_by_role("button", name="To an exchange").click()
    dialog.get_by_label("Routing key").fill(target)
    dialog.get_by_role("button", name="Move 2").click()
    ended(page, "2 moved")
    assert [row["payload"] for row in web.take(target)] == ["1", "0", "2"]


@pytest.mark.slow
def test_filter_line_finds_messages_and_names_its_faults(process: BrokerProcess, web: Web, page: Page) -> None:
    dead, _ = letters(web, 4)
    rows = browse(process, page, dead)
    rows.nth(3).wait_for()
    line = page.get_by_label("Search in messages")
    for text, ids in (
        ("header:trace=t1", [1, 3]),
        ("header:trace=t1 body:c-3", [3]),
        ("c-2", [2]),
        (f"key:{dead[:6]}*", [1, 2, 3, 4]),
        ("reason:rejected where: trace = 't0'", [2, 4]),
    ):
        line.fill(text)
        line.press("Enter")
        page.get_by_text(f"1–{len(ids)} of {len(ids)}").wait_for()
        assert [int(each.inner_text()) for each in rows.locator(".place").all()] == ids
        assert line.get_attribute("aria-invalid") is None
    for text, said in (
        ("header:", "header: needs a value, such as header:trace=abc."),
        ("where: trace = ", "'filter' is not a selector: the selector is not valid"),
    ):
        line.fill(text)
        line.press("Enter")
        page.get_by_role("alert").get_by_text(said).wait_for()
        assert line.get_attribute("aria-invalid") == "true"
    line.fill("body:nothing")
    line.press("Enter")
    page.get_by_text("No message matches; 4 were searched.").wait_for()
    page.get_by_role("button", name="Clear the filter").click()
    rows.nth(3).wait_for()


@pytest.mark.slow
def test_pages_go_by_position_and_a_choice_holds_over_them(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("long")
    web.declare(queue)
    for number in range(120):
        web.publish(queue, str(number))
    rows = browse(process, page, queue)
    page.get_by_text("1–50 of 120").wait_for()
    choose(page, 1, 2)
    page.get_by_role("button", name="Next").click()
    page.get_by_text("51–100 of 120").wait_for()
    assert rows.first.locator(".place").inner_text() == "51"
    choose(page, 51)
    page.get_by_text("3 selected").wait_for()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog", name="Delete 3 messages?").get_by_role("button", name="Delete 3").click()
    ended(page, "3 deleted")
    assert web.queue(queue)["messages"] == 117
    page.get_by_role("button", name="Previous").click()
    page.get_by_text("1–50 of 117").wait_for()
    assert rows.first.locator(".place").inner_text() == "3"
    page.get_by_label("Select all shown").check()
    page.get_by_role("button", name="Select all 117").click()
    page.get_by_role("button", name="Purge…").click()
    page.get_by_role("dialog", name="Purge 117 messages?").get_by_role("button", name="Purge 117").click()
    page.get_by_text("The queue has no message.").wait_for()
    assert web.queue(queue)["messages"] == 0


@pytest.mark.slow
def test_export_is_what_a_publish_reads(process: BrokerProcess, web: Web, page: Page, tmp_path: Path) -> None:
    dead, _ = letters(web, 3)
    large = b"\xff" * 1_200_000
    payload = base64.b64encode(large).decode()
    assert web.publish(dead, payload, payload_encoding="base64").status == 200
    browse(process, page, dead)
    choose(page, 2, 4)
    with page.expect_download() as download:
        page.get_by_role("region", name="Selected messages").get_by_role("button", name="Export").click()
    page.get_by_text("Exported. 2 messages").wait_for()
    lines = Path(download.value.path()).read_bytes().splitlines()
    first, second = (read_message(line) for line in lines)
    assert json.loads(first.body)["id"] == 2
    assert (first.properties.headers or {})["big"] == BIG
    assert second.body == large
    with page.expect_download() as download:
        page.get_by_role("button", name="Export", exact=True).first.click()
    assert download.value.suggested_filename == f"{dead}.jsonl"
    assert len(Path(download.value.path()).read_bytes().splitlines()) == 4


@pytest.mark.slow
def test_long_body_is_cut_shown_whole_and_downloaded(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("large")
    web.declare(queue)
    web.publish(queue, "ä" * 20_000)
    web.publish(queue, base64.b64encode(bytes(range(256)) * 5000).decode(), payload_encoding="base64")
    rows = browse(process, page, queue)
    message = page.get_by_role("complementary", name="The message")
    message.get_by_text("The first 16.0 KiB are shown.").wait_for()
    message.get_by_role("button", name="Show whole (39.1 KiB)").click()
    message.get_by_role("button", name="Copy the body").wait_for()
    assert len(message.get_by_role("region", name="Body").inner_text()) == 20_000
    rows.nth(1).click()
    message.get_by_text("0010  10 11 12").wait_for()
    with page.expect_download() as download:
        message.get_by_role("button", name="Download (1.2 MiB)").click()
    assert Path(download.value.path()).read_bytes() == bytes(range(256)) * 5000


@pytest.mark.slow
def test_delayed_messages_are_sent_now_or_cancelled(process: BrokerProcess, web: Web, page: Page) -> None:
    queue, exchange = some_name("later"), some_name("delays")
    web.declare(queue)
    arguments = {"x-delayed-type": "fanout"}
    web.do("PUT", f"/exchanges/%2F/{exchange}", {"type": "x-delayed-message", "arguments": arguments}, status=201)
    web.do("POST", f"/bindings/%2F/e/{exchange}/q/{queue}", {}, status=201)
    for delay in (3_600_000, 7_200_000):
        web.publish("k", exchange=exchange, properties={"headers": {"x-delay": delay}})
    browse(process, page, queue)
    page.get_by_role("button", name="Delayed 2").click()
    rows = page.get_by_role("table", name="Delayed messages").locator("tbody tr")
    rows.nth(1).wait_for()
    assert "59\N{NO-BREAK SPACE}min" in rows.first.inner_text()
    rows.first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Send now").click()
    page.get_by_text("1 message is ready now.").wait_for()
    page.get_by_role("button", name="Delayed 1").wait_for()
    assert web.queue(queue)["messages_ready"] == 1
    rows.first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel 1 message").click()
    page.get_by_text("1 message was cancelled.").wait_for()
    page.get_by_text("No message is delayed.").wait_for()
    assert web.queue(queue)["messages"] == 1


@pytest.mark.slow
def test_message_with_a_consumer_names_the_client_and_cannot_be_chosen(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    queue = some_name("held")
    web.declare(queue)
    for _ in range(2):
        web.publish(queue)
    connection = named_connection(process.url, f"shipping {HTML}")
    assert connection.channel().basic_get(queue)[0] is not None
    rows = browse(process, page, queue)
    rows.first.get_by_text(f"with shipping {HTML}").wait_for()
    page.get_by_text("1–2 of 2 · 1 with consumers").wait_for()
    assert page.get_by_label("Select message 1", exact=True).is_disabled()
    page.get_by_label("Select all shown").check()
    page.get_by_text("1 selected").wait_for()
    connection.close()


@pytest.mark.slow
def test_stream_shows_offsets_and_its_messages_are_copied(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0", "--data", str(tmp_path / "data")) as process:
        web = Web(process.http)
        web.do("PUT", "/queues/%2F/log", {"durable": True, "arguments": {"x-queue-type": "stream"}}, status=201)
        web.declare("copies")
        for number in range(3):
            web.publish("log", str(number))
        with console(browser, process.http) as page:
            rows = browse(process, page, "log")
            rows.nth(2).wait_for()
            assert [each.inner_text() for each in rows.locator(".place").all()] == ["0", "1", "2"]
            choose(page, 0, 2)
            bar = page.get_by_role("region", name="Selected messages")
            assert bar.get_by_role("button", name="Delete…").count() == 0
            bar.get_by_role("button", name="Copy to…").click()
            page.get_by_text("A stream keeps its messages, so they are copied.").wait_for()
            page.get_by_role("dialog").get_by_label("Target queue").fill("copies")
            page.get_by_role("dialog").get_by_role("button", name="Copy 2").click()
            ended(page, "2 copied")
            assert [row["payload"] for row in web.take("copies")] == ["0", "2"]


@pytest.mark.slow
def test_message_is_published_and_taken_by_hand(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("by hand")
    web.declare(queue)
    browse(process, page, queue)
    page.get_by_text("The queue has no message.").wait_for()
    page.get_by_role("button", name="Publish…").click()
    dialog = page.get_by_role("dialog", name=f"Publish to {queue}")
    dialog.get_by_label("Body", exact=True).fill("<script>hello</script>")
    dialog.get_by_label("Headers").fill("trace=abc\nold")
    dialog.get_by_role("button", name="Publish").click()
    dialog.get_by_text("A header is NAME=VALUE, not “old”.").wait_for()
    dialog.get_by_label("Headers").fill('trace=abc\ncount=3\nurgent=true\ntext="3"')
    dialog.get_by_text("More properties").click()
    dialog.get_by_label("Priority").fill("7")
    dialog.get_by_role("button", name="Publish").click()
    page.get_by_text("Published.").wait_for()
    page.get_by_role("complementary").get_by_text("<script>hello</script>", exact=True).wait_for()
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("button", name="Get…").click()
    taking = page.get_by_role("dialog", name=f"Get from {queue}")
    taking.get_by_label("Then").select_option("ack_requeue_false")
    taking.get_by_role("button", name="Get", exact=True).click()
    taking.get_by_text("<script>hello</script>", exact=True).wait_for()
    properties = json.loads(taking.locator("article .mono.quiet").inner_text())
    headers = {"trace": "abc", "count": 3, "urgent": True, "text": "3"}
    assert properties == {"headers": headers, "priority": 7, "delivery_mode": 2}
    assert web.queue(queue)["messages"] == 0


def test_queue_that_is_gone_has_no_list_and_no_forms(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "queues/%2F/gone/messages")
    page.get_by_role("heading", name="Gone", exact=True, level=2).wait_for()
    page.get_by_role("button", name="Copy gone").first.wait_for()
    assert page.locator("main table, main form").count() == 0


@pytest.mark.slow
def test_phone_has_the_message_as_a_sheet_and_one_button(browser: Browser, process: BrokerProcess, web: Web) -> None:
    dead, work = letters(web, 2)
    with console(browser, process.http, 390, 844) as page:
        rows = browse(process, page, dead)
        rows.nth(1).click()
        sheet = page.get_by_role("complementary", name="The message")
        sheet.get_by_text('"customer": "c-2"').wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.keyboard.press("Escape")
        sheet.wait_for(state="hidden")
        assert rows.nth(1).evaluate("(row) => row === document.activeElement")
        choose(page, 1)
        bar = page.get_by_role("region", name="Selected messages")
        assert bar.bounding_box()["width"] <= 390  # type: ignore[index]
        assert bar.get_by_role("button").all_inner_texts() == [f"Redrive to {work}…", "", ""]
        bar.get_by_role("button", name="More for the selected").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete…").click()
        page.get_by_role("button", name="Delete 1").click()
        ended(page, "1 deleted")
        assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.slow
def test_address_of_a_queue_opens_dead_letters_at_their_messages(process: BrokerProcess, web: Web, page: Page) -> None:
    dead, work = letters(web, 1)
    for queue, part in ((dead, "Messages 1"), (work, "State")):
        visit(process, page, f"queues/%2F/{queue}")
        page.get_by_role("navigation", name="Parts of the queue").locator("[aria-current]", has_text=part).wait_for()
        page.get_by_role("heading", name=queue, exact=True, level=1).wait_for()


@pytest.mark.slow
def test_search_in_a_long_queue_shows_how_far_it_is_and_goes_on(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("haystack")
    web.declare(queue)
    connection = named_connection(process.url, "farmer")
    channel = connection.channel()
    for number in range(61_000):
        channel.basic_publish("", queue, b"needle" if number == 60_500 else b"hay")
    connection.close()
    eventually(lambda: web.queue(queue)["messages"] == 61_000, "hay")
    rows = browse(process, page, queue)
    rows.nth(49).wait_for()
    held: list[Route] = []
    page.route("**/messages?*from=20001*", lambda route: held.append(route))
    line = page.get_by_label("Search in messages")
    line.fill("needle")
    line.press("Enter")
    page.get_by_text("20,000 of 61,000 messages searched, 0 found.").wait_for()
    page.get_by_role("button", name="Stop").click()
    held[0].continue_()
    page.get_by_text("No message matches; 40,000 were searched.").wait_for()
    page.get_by_role("button", name="Search on").click()
    rows.get_by_text("needle").wait_for()
    page.get_by_text("1–1 of 1").wait_for()
    assert rows.count() == 1
    page.unroute_all()


@pytest.mark.slow
def test_header_without_a_word_in_json_is_shown_as_people_write_it(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    queue = some_name("typed")
    web.declare(queue)
    connection = named_connection(process.url, "typed")
    headers = {
        "bytes": b"\x00\xff",
        "price": Decimal("1.25"),
        "list": [1, {"a": BIG}],
        "when": datetime(2026, 1, 1, 12, tzinfo=UTC),
    }
    connection.channel().basic_publish("", queue, b"", BasicProperties(headers=headers))
    connection.close()
    browse(process, page, queue).first.click()
    facts = page.get_by_role("complementary").locator("dt")
    for name, shown in (
        ("bytes", "0x00ff"),
        ("price", "1.25"),
        ("list", f'[1,{{"a":{BIG}}}]'),
        ("when", "2026-01-01"),
    ):
        assert facts.filter(has_text=name).locator("+ dd").inner_text().startswith(shown)


@pytest.mark.slow
def test_keys_choose_messages_and_open_a_redrive(process: BrokerProcess, web: Web, page: Page) -> None:
    dead, _ = letters(web, 3)
    rows = browse(process, page, dead)
    rows.nth(2).wait_for()
    for key in "jjxkx":
        page.keyboard.press(key)
    page.get_by_text("2 selected").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("complementary").get_by_text("Message 2").wait_for()
    assert rows.nth(1).evaluate("(row) => row === document.activeElement")
    page.keyboard.press("r")
    page.get_by_role("dialog", name="Redrive 2 messages").get_by_role("row").nth(1).wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("Escape")
    page.get_by_text("2 selected").wait_for(state="hidden")


@pytest.mark.slow
def test_user_without_the_right_to_read_is_told_so(browser: Browser, process: BrokerProcess, web: Web) -> None:
    queue, user = some_name("secret"), some_name("seer")
    web.declare(queue)
    web.publish(queue, "a secret")
    web.do("PUT", f"/users/{user}", {"password": "a long password", "tags": "management"}, status=201)
    web.do("PUT", f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ""}, status=201)
    with console(browser, process.http, user=user, password="a long password") as page:
        visit(process, page, f"queues/%2F/{queue}/messages")
        page.get_by_role("alert").get_by_text(f"refused for user '{user}'").wait_for()
        assert page.get_by_role("table").count() == 0
        assert "a secret" not in page.content()
    web.do("DELETE", f"/users/{user}")
