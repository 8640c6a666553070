"""The page of a queue: its reason in words, figures, chart, clients, bindings, limits, and what may be done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.console_browser import HTML, console, reached, visit
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a store: streams and queues that page need one."""
    folder = tmp_path_factory.mktemp("queue")
    with serving(folder, "--http", "127.0.0.1:0", "--data", str(folder / "data")) as process:
        yield process


GATED = {"capacity-messages": 10, "stop-messages": 3, "resume-messages": 1}


NAME = "- it's"
"""Name that a shell would read as an option and the beginning of a text."""


def path(queue: str, part: str = "") -> str:
    return f"queues/%2F/{quote(queue, safe='')}{part}"


def reason(page: Page) -> Locator:
    return page.get_by_role("region", name="Why")


def fill(process: BrokerProcess, queue: str, count: int) -> Connection:
    """Publish to a queue until its gate closes; return the connection, whose producer is blocked."""
    connection = Connection(process.url)
    channel = connection.channel()
    channel.queue_declare(queue, arguments=GATED)
    channel.confirm_select()
    for _ in range(count):
        channel.publish(b"order", routing_key=queue)
    return connection


@pytest.mark.slow
def test_reason_names_the_producer_that_waits_and_the_depth_that_opens(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    queue = some_name("orders")
    with fill(process, queue, 4):
        visit(process, page, path(queue))
        reason(page).get_by_text(re.compile(r"^con:\d+.* has waited for ")).wait_for()
        reason(page).get_by_text("The gate opens at 1 message: 3 fewer").wait_for()
        reason(page).get_by_text("No consumer is connected.").wait_for()
        line = page.get_by_role("table", name="In line").get_by_role("row")
        line.get_by_role("cell", name="1 withheld").wait_for()
        page.get_by_text("Removes the 4 ready messages. The gate opens, and con:").wait_for()
        page.get_by_role("button", name="Purge…").click()
        page.get_by_role("dialog").get_by_role("button", name="Purge 4").click()
        reason(page).get_by_text("The gate is open, and nobody waits.").wait_for()
        assert web.queue(queue)["messages"] == 0


def test_held_queue_is_released_from_its_reason(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("held")
    web.declare(queue)
    visit(process, page, path(queue))
    page.get_by_role("button", name="Block…", exact=True).click()
    page.get_by_role("dialog").get_by_label("Reason").fill("stocktaking")
    page.get_by_role("dialog").get_by_role("button", name="Block").click()
    reason(page).get_by_text(re.compile(r"Held by the operator since \d\d:\d\d: stocktaking\.")).wait_for()
    assert not web.queue(queue)["penstock"]["road"]["open"]
    reason(page).get_by_role("button", name="Release").click()
    reason(page).get_by_text("The gate is open, and nobody waits.").wait_for()
    assert web.queue(queue)["penstock"]["road"]["open"]


def test_release_of_a_virtual_host_names_all_that_go_on(process: BrokerProcess, web: Web, page: Page) -> None:
    web.do("PUT", "/vhosts/warehouse", {}, status=201)
    web.do("PUT", "/queues/warehouse/goods", {}, status=201)
    web.do("POST", "/penstock/block", {"vhost": "warehouse", "reason": "inventory"}, status=200)
    visit(process, page, "queues/warehouse/goods")
    reason(page).get_by_text("with virtual host warehouse").wait_for()
    reason(page).get_by_role("button", name="Release").click()
    dialog = page.get_by_role("dialog", name="Release virtual host warehouse")
    dialog.get_by_text("not only those of goods").wait_for()
    dialog.get_by_role("button", name="Release").click()
    reason(page).get_by_text("The gate is open, and nobody waits.").wait_for()
    web.do("DELETE", "/vhosts/warehouse")


def test_queue_that_nobody_reads_says_so_in_amber(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("left")
    web.declare(queue)
    web.publish(queue)
    visit(process, page, path(queue))
    reason(page).get_by_text("Nobody reads here. 1 message waits").wait_for()
    assert "amber" in (reason(page).get_attribute("class") or "").split()
    page.get_by_text(f"penstock consume {queue}").wait_for()


def test_command_that_reads_a_queue_quotes_its_names(process: BrokerProcess, web: Web, page: Page) -> None:
    web.do("PUT", "/vhosts/a%20b", {}, status=201)
    web.do("PUT", f"/queues/a%20b/{quote(NAME)}", {}, status=201)
    visit(process, page, f"queues/a%20b/{quote(NAME)}")
    page.get_by_text("penstock consume --vhost='a b' -- '- it'\\''s'", exact=True).wait_for()
    web.do("DELETE", "/vhosts/a%20b")


def test_queue_with_dead_letters_opens_with_its_messages(process: BrokerProcess, web: Web, page: Page) -> None:
    dead, source = some_name("dead"), some_name("source")
    web.declare(dead)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-max-length": 1}
    web.declare(source, **letters)
    for _ in range(3):
        web.publish(source)
    page.goto(f"{process.http}/#/{path(dead)}")
    parts = page.get_by_role("navigation", name="Parts of the queue")
    parts.locator("[aria-current]", has_text="Messages").wait_for()
    parts.get_by_role("link", name="State").click()
    reason(page).get_by_text("These are dead letters.").wait_for()
    reason(page).get_by_role("link", name="See the dead letters").wait_for()


@pytest.mark.slow
def test_consumer_without_credit_is_explained_by_its_prefetch(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("slow")
    with fill(process, queue, 4), Connection(process.url) as reader:
        channel = reader.channel()
        channel.qos(2)
        channel.consume(queue)
        visit(process, page, path(queue))
        row = page.get_by_role("table", name="Consumers").get_by_role("row").filter(has_text="prefetch is used up")
        row.get_by_role("cell", name="2 of 2").wait_for()
        reason(page).get_by_text("has all 2 of its prefetch unacknowledged").wait_for()


def chart(page: Page) -> Locator:
    return page.get_by_role("img", name=re.compile("^depth, rates and gate: "))


@pytest.mark.slow
def test_chart_begins_with_the_history_and_arrow_keys_read_its_points(
    process: BrokerProcess, web: Web, page: Page
) -> None:
    queue = some_name("charted")
    web.declare(queue, **GATED)
    for _ in range(3):
        web.publish(queue)
    history = f"/penstock/history/%2F/{queue}?seconds=5"
    visit(process, page, path(queue))
    reached(
        page,
        """async (path) => {
            const answer = await fetch(`/api${path}`, { headers: { authorization: `Basic ${btoa("guest:guest")}` } });
            return (await answer.json()).tiers[0].messages.length >= 2;
        }""",
        arg=history,
    )
    visit(process, page, path(queue))
    chart(page).locator("path.depth").wait_for(state="attached")
    assert [each for each in ("stop 3", "resume 1", "capacity 10") if each not in chart(page).text_content()] == []
    assert chart(page).get_attribute("aria-label").startswith("depth, rates and gate: now, depth 3")
    chart(page).focus()
    page.keyboard.press("Home")
    assert re.search(r"gate: \d\d:\d\d:\d\d, depth \d", chart(page).get_attribute("aria-label"))
    page.keyboard.press("Tab")
    assert "gate: now" in chart(page).get_attribute("aria-label")
    page.get_by_role("button", name="1 h").click()
    assert page.get_by_role("button", name="1 h").get_attribute("aria-pressed") == "true"


def figures(page: Page) -> dict[str, str]:
    found: dict[str, str] = page.locator(".figures > div").evaluate_all(
        "all => Object.fromEntries(all.map((each) => [...each.children].map((part) => part.textContent)))"
    )
    return found


@pytest.mark.parametrize(
    ("arguments", "tag", "expected"),
    [
        ({"x-queue-type": "stream"}, "stream", {"Retained": "14", "Segments": "1"}),
        ({"overflow": "page", "capacity-messages": 10}, "pages to the disk", {"Depth": "144 on the disk"}),
        ({"x-max-priority": 5}, "priorities 0 to 5", {"Depth": "14"}),
        ({"x-queue-type": "quorum"}, "quorum", {"Depth": "14"}),
        ({"capacity-messages": 100}, "durable", {"Depth": "14of 100", "Unacknowledged": "0"}),
    ],
)
def test_figures_and_tags_are_those_of_the_kind_of_queue(
    process: BrokerProcess, web: Web, page: Page, arguments: dict[str, Any], tag: str, expected: dict[str, str]
) -> None:
    queue = some_name("kind")
    web.do("PUT", f"/queues/%2F/{queue}", {"durable": True, "arguments": arguments}, status=201)
    for _ in range(14):
        web.publish(queue)
    visit(process, page, path(queue))
    page.locator(".title").get_by_text(tag, exact=True).wait_for()
    page.locator(".figures dd", has_text="14").first.wait_for()
    found = {name.split(",")[0]: text for name, text in figures(page).items()}
    assert {name: found[name] for name in expected} == expected


def test_binding_is_made_and_removed_by_its_dialogs(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("bound")
    web.declare(queue)
    visit(process, page, path(queue))
    page.get_by_role("button", name="Bind…", exact=True).click()
    dialog = page.get_by_role("dialog", name=f"Bind {queue}")
    dialog.get_by_label("Exchange").select_option("amq.topic")
    dialog.get_by_label("Key").fill(HTML)
    dialog.get_by_role("button", name="Bind", exact=True).click()
    row = page.get_by_role("table", name="Bindings").get_by_role("row").filter(has_text=HTML)
    row.get_by_role("button", name=f"Unbind… {queue} from amq.topic {HTML}").click()
    page.get_by_role("dialog").get_by_role("button", name="Unbind").click()
    row.wait_for(state="detached")
    assert [each["source"] for each in web.get(f"/queues/%2F/{queue}/bindings")] == [""]


def test_message_is_published_and_is_among_the_first_messages(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("by hand")
    web.declare(queue)
    visit(process, page, path(queue))
    page.get_by_role("button", name="Publish…").click()
    page.get_by_role("dialog").get_by_label("Body", exact=True).fill("<script>hello</script>")
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    page.get_by_text("Published.").wait_for()
    page.get_by_role("table", name="First messages").get_by_role("cell", name="22 B").wait_for()
    assert web.queue(queue)["messages_ready"] == 1


@pytest.mark.slow
def test_limits_are_set_after_a_preview_of_now_and_then(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("limited")
    web.declare(queue)
    for _ in range(9):
        web.publish(queue)
    visit(process, page, path(queue, "/limits"))
    page.get_by_role("button", name="Change limits…").click()
    dialog = page.get_by_role("dialog", name=f"Change limits of {queue}")
    assert dialog.get_by_role("button", name="Set limits").is_disabled()
    dialog.get_by_label("Capacity in messages").fill("10")
    dialog.get_by_text("Its gate closes at once: the depth is 9 messages").wait_for()
    then = dialog.get_by_role("table", name="Limits now and then").get_by_role("row").filter(has_text="Then")
    then.get_by_role("cell", name="10", exact=True).wait_for()
    then.get_by_role("img", name="9 messages, resume 4, stop 5, capacity 10").wait_for()
    assert web.queue(queue)["penstock"]["gate"]["open"]
    dialog.get_by_role("button", name="Set limits").click()
    unset = page.get_by_role("button", name="Unset… capacity-messages")
    unset.wait_for()
    assert not web.queue(queue)["penstock"]["gate"]["open"]
    unset.click()
    page.get_by_role("dialog").get_by_role("button", name="Unset").click()
    unset.wait_for(state="detached")
    assert web.queue(queue)["penstock"]["gate"]["open"]


def test_limit_without_effect_is_told_before_it_can_be_set(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("declared")
    web.declare(queue, **{"capacity-messages": 10})
    visit(process, page, path(queue, "/limits"))
    page.get_by_role("button", name="Change limits…").click()
    dialog = page.get_by_role("dialog", name=f"Change limits of {queue}")
    dialog.get_by_label("Capacity in messages").fill("50")
    dialog.get_by_text(f"capacity-messages=50 has no effect on queue {queue}").wait_for()
    assert dialog.get_by_role("button", name="Set limits").is_disabled()
    dialog.get_by_label("Set it above them, as an override").check()
    dialog.get_by_role("cell", name="50", exact=True).wait_for()
    dialog.get_by_role("button", name="Set limits").click()
    page.get_by_role("button", name="Unset… capacity-messages").wait_for()
    assert web.queue(queue)["penstock"]["capacity"]["messages"] == 50
    web.do("DELETE", "/penstock/settings", {"scope": "queue", "pattern": queue, "names": None}, status=200)


def test_bad_limit_is_refused_in_words_at_its_field(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("bad")
    web.declare(queue)
    visit(process, page, path(queue, "/limits"))
    page.get_by_role("button", name="Change limits…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Stop, %").fill("120")
    dialog.get_by_text("stop-percent must be a percentage from 0 to 100").wait_for()
    assert dialog.get_by_label("Stop, %").get_attribute("aria-invalid") == "true"
    assert dialog.get_by_role("button", name="Set limits").is_disabled()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["", "/limits"])
def test_page_of_a_deleted_queue_has_its_name_and_no_forms(
    process: BrokerProcess, web: Web, page: Page, part: str
) -> None:
    queue = some_name("gone")
    web.declare(queue)
    visit(process, page, path(queue, part))
    page.get_by_text("transient", exact=True).wait_for()
    web.do("DELETE", f"/queues/%2F/{queue}")
    page.get_by_text(f"Queue {queue} was deleted at ").wait_for()
    assert page.locator("main form, main .chart, main table").count() == 0
    page.get_by_role("button", name=f"Copy {queue}").wait_for()
    page.get_by_role("link", name="All queues").click()
    page.get_by_role("heading", name="Queues", exact=True).wait_for()


def test_deletion_says_what_it_removes_and_begins_on_cancel(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("deleted")
    web.declare(queue)
    web.publish(queue)
    visit(process, page, path(queue))
    page.get_by_text("Removes the queue with its 1 message and 1 binding.").wait_for()
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog", name=f"Delete {queue}")
    dialog.get_by_text("Removes the queue with its 1 message and 1 binding.").wait_for()
    assert dialog.get_by_role("button", name="Cancel").evaluate("each => each === document.activeElement")
    dialog.get_by_role("button", name="Delete").click()
    page.get_by_text(f"Queue {queue} was deleted at ").wait_for()
    assert web.ask("GET", f"/queues/%2F/{queue}").status == 404


def test_user_without_policymaker_gets_no_buttons_of_the_operator(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    queue, name = some_name("seen"), some_name("seer")
    web.declare(queue)
    web.do("PUT", f"/users/{name}", {"password": "a long password", "tags": "management"}, status=201)
    web.do("PUT", f"/permissions/%2F/{name}", {"configure": "", "write": "", "read": ".*"}, status=201)
    with console(browser, process.http, user=name, password="a long password") as page:
        page.goto(f"{process.http}/#/{path(queue)}")
        page.get_by_text("The gate is open, and nobody waits.").wait_for()
        assert page.get_by_role("button", name="Block…", exact=True).count() == 0
        page.goto(f"{process.http}/#/{path(queue, '/limits')}")
        page.get_by_text("Limits are changed with the tag policymaker.").wait_for()
        assert page.get_by_role("button", name="Change limits…").count() == 0
    web.do("DELETE", f"/users/{name}")


def test_focus_stays_on_a_button_over_updates(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("focused")
    web.declare(queue)
    visit(process, page, path(queue))
    button = page.get_by_role("button", name="Delete…")
    button.focus()
    web.publish(queue)
    page.get_by_text("Removes the queue with its 1 message").wait_for()
    assert button.evaluate("each => each === document.activeElement")
