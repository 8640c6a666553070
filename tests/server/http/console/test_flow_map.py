"""The flow map in a browser: its boxes and roads, its panel, and what it does while it is looked at."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.console_browser import HTML, LONG, console, reached, visit
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

WORDS = " ".join(["long name of"] * 19)
NAMES = ("plain", HTML, LONG, WORDS)
MESSAGES = 20
OUTSIDE = """() => [...document.querySelectorAll(".canvas button.box")].flatMap((box) => {
  const outer = box.getBoundingClientRect();
  return [...box.querySelectorAll("b, .state, .l2 > *, .second")].filter((text) => {
    const { left, right, top, bottom, width } = text.getBoundingClientRect();
    return width && (left < outer.left || right > outer.right + .5 || top < outer.top || bottom > outer.bottom);
  }).map((text) => text.textContent);
})"""
"""The texts that leave their boxes."""
OVERLAPPING = """() => {
  const boxes = [...document.querySelectorAll(".canvas button.box")].map((box) => box.getBoundingClientRect());
  return boxes.filter((one, at) => boxes.slice(at + 1).some((other) => one.left < other.right
    && other.left < one.right && one.top < other.bottom && other.top < one.bottom)).length;
}"""
"""The number of boxes that cover others."""
CROSSED = """() => {
  const boxes = [...document.querySelectorAll(".canvas button.box")].map((box) => box.getBoundingClientRect());
  const origin = document.querySelector("svg.roads").getBoundingClientRect();
  return [...document.querySelectorAll("svg.roads path")].filter((road) => {
    for (let part = 0; part <= 40; part += 1) {
      const at = road.getPointAtLength(road.getTotalLength() * part / 40);
      const x = at.x + origin.left, y = at.y + origin.top;
      if (boxes.some((box) => x > box.left + 1 && x < box.right - 1 && y > box.top && y < box.bottom)) return true;
    }
    return false;
  }).length;
}"""
"""The number of roads that cross boxes."""
NAMELESS = """() => [...document.querySelectorAll(".canvas button.box b")].filter((name) =>
  name.scrollWidth > name.clientWidth + 1 && name.clientWidth < name.closest(".box").clientWidth * .3).length"""
"""The number of boxes where a cut name has less than a third of the width."""
NEXT_MAP = """async () => {
  const { live } = await import("/static/live.js");
  const before = live.map.at;
  while (live.map.at === before) await new Promise((done) => setTimeout(done, 50));
}"""
COUNTED = """() => {
  window.running = new Map();
  const { setInterval: begin, clearInterval: end } = window;
  window.setInterval = (act, every) => {
    const timer = begin(act, every);
    window.running.set(timer, every);
    return timer;
  };
  window.clearInterval = (timer) => {
    window.running.delete(timer);
    end(timer);
  };
}"""
"""Count the timers that run, with their periods."""
FAST = "[...window.running.values()].filter((every) => every < 1000).length"
REACHED = f"(wanted) => {FAST} === wanted"
"""Condition: so many fast timers run."""
HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@contextmanager
def clients(process: BrokerProcess) -> Iterator[None]:
    """Clients of each name: a queue whose gate is closed, a blocked producer, and a consumer out of credit."""
    web = Web(process.http)
    with ExitStack() as stack:
        for name in NAMES:
            publishing = stack.enter_context(named_connection(process.url, name))
            stack.callback(web.do, "DELETE", f"/queues/%2F/{quote(name, safe='')}/contents")
            consuming = stack.enter_context(named_connection(process.url, name))
            channel = publishing.channel()
            limits = {"capacity-messages": MESSAGES + 10, "stop-messages": MESSAGES + 2, "resume-messages": 1}
            channel.queue_declare(name, arguments=limits)
            reader = consuming.channel()
            reader.basic_qos(prefetch_count=MESSAGES)
            reader.basic_consume(name, lambda *_: None, consumer_tag=name)
            for _ in range(MESSAGES + 5):
                channel.basic_publish("", name, b"x")
            publishing.process_data_events(0)
        yield


@pytest.fixture(scope="module")
def crowded(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with clients of all names."""
    with serving(tmp_path_factory.mktemp("crowded"), "--http", "127.0.0.1:0") as process, clients(process):
        yield process


@contextmanager
def publishing(process: BrokerProcess, exchange: str, key: str) -> Iterator[None]:
    """Publish to an exchange without a pause, one message at a time."""
    stopped = threading.Event()

    def run() -> None:
        with named_connection(process.url, "busy") as connection:
            channel = connection.channel()
            while not stopped.wait(0.02):
                channel.basic_publish(exchange, key, b"x")
                connection.process_data_events(0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def box(page: Page, noun: str, name: str) -> Locator:
    """Return the box of an object by its noun and name."""
    literal = re.sub(r"[.*+?^${}()|\[\]\\/]", r"\\\g<0>", name)
    return page.get_by_role("group", name="Flow map").get_by_role("button", name=re.compile(f"^{noun} {literal}"))


def wait_for_all(page: Page) -> None:
    page.locator(".box.queue.blocked").nth(len(NAMES) - 1).wait_for()
    page.get_by_role("group", name="Consumers and cursors").get_by_role("button").nth(len(NAMES) - 1).wait_for()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(860, "dark", marks=pytest.mark.long),
        (1100, "light"),
        pytest.param(1280, "dark", marks=pytest.mark.long),
        pytest.param(1920, "light", marks=pytest.mark.long),
    ],
)
def test_boxes_hold_their_texts_and_no_road_crosses_them(
    browser: Browser, crowded: BrokerProcess, width: int, scheme: str
) -> None:
    with console(browser, crowded.http, width, 900, scheme) as page:
        wait_for_all(page)
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(OVERLAPPING) == 0
        assert page.evaluate(CROSSED) == 0
        assert page.evaluate(NAMELESS) == 0
        assert page.locator("svg.roads .stops path").count() >= len(NAMES)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("main img, main b b").count() == 0


def test_long_names_are_whole_in_titles(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http) as page:
        wait_for_all(page)
        for group, letters in (("Producers", 100), ("Gates and queues", 255), ("Consumers and cursors", 100)):
            boxes = page.get_by_role("group", name=group).get_by_role("button").all()
            titles = [each.get_attribute("title") or "" for each in boxes]
            assert all(any(name[:letters] in title for title in titles) for name in NAMES), group


def test_panel_has_chosen_a_blocked_queue_and_escape_takes_a_choice_back(
    browser: Browser, crowded: BrokerProcess
) -> None:
    with console(browser, crowded.http) as page:
        wait_for_all(page)
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_text("waited for").wait_for()
        itself = panel.get_by_role("heading", level=2).inner_text()
        other = next(name for name in NAMES if name != itself)
        assert panel.get_by_role("button", name="Close").count() == 0
        box(page, "Queue", other).click()
        panel.get_by_role("heading", name=other, exact=True).wait_for()
        panel.get_by_role("table", name="In line").get_by_role("row").nth(1).wait_for()
        assert box(page, "Queue", other).get_attribute("aria-pressed") == "true"
        assert panel.get_by_role("link", name="Open the queue").get_attribute("href").startswith("#/queues/%2F/")
        page.keyboard.press("Escape")
        panel.get_by_role("heading", name=itself, exact=True).wait_for()
        assert page.evaluate("document.activeElement.dataset.key") == f"q / {other}"


def test_panel_leads_along_the_road_by_keyboard(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http) as page:
        wait_for_all(page)
        panel = page.get_by_role("complementary", name="Why")
        box(page, "Producer", "plain").focus()
        page.keyboard.press("Enter")
        panel.get_by_text("plain has waited for").wait_for()
        panel.get_by_role("table", name="Roads").get_by_role("button", name="(default)").press("Enter")
        panel.get_by_text("Exchange, direct").wait_for()
        panel.get_by_role("table", name="Roads").get_by_role("button", name="plain", exact=True).press("Enter")
        panel.get_by_role("heading", name="plain", exact=True).wait_for()
        box(page, "Consumer", "plain").press("Enter")
        panel.get_by_text(f"{MESSAGES} of {MESSAGES}").wait_for()


def test_focused_box_is_the_same_element_after_the_next_map(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http) as page:
        wait_for_all(page)
        box(page, "Queue", "plain").focus()
        page.evaluate("window.focused = document.activeElement")
        order = page.locator(".box").evaluate_all("all => all.map((each) => each.dataset.key)")
        page.evaluate(NEXT_MAP)
        page.evaluate(NEXT_MAP)
        assert page.evaluate("document.activeElement === window.focused && window.focused.isConnected")
        assert page.locator(".box").evaluate_all("all => all.map((each) => each.dataset.key)") == order


def test_cards_of_a_narrow_screen_follow_the_panel(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http, 360, 800, "dark") as page:
        page.locator("a.lane.blocked").nth(len(NAMES) - 1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        panel = page.get_by_role("complementary", name="Why").bounding_box()
        lane = page.locator("a.lane").first.bounding_box()
        assert panel is not None
        assert lane is not None
        assert panel["y"] + panel["height"] <= lane["y"]
        assert page.locator("main img, main b b").count() == 0


def test_streaks_have_one_timer_that_stops_while_hidden(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http) as page:
        wait_for_all(page)
        page.evaluate(COUNTED)
        for _ in range(2):
            page.goto(f"{crowded.http}/#/cursors")
            page.get_by_role("heading", name="Cursors").wait_for()
            assert page.evaluate(FAST) == 0
            page.goto(f"{crowded.http}/#/flow")
            wait_for_all(page)
            assert page.evaluate(FAST) == 1
        page.evaluate(HIDDEN, True)
        assert page.evaluate(FAST) == 0
        page.evaluate(HIDDEN, False)
        assert page.evaluate(FAST) == 1
        page.emulate_media(reduced_motion="reduce")
        reached(page, REACHED, 0)
        page.emulate_media(reduced_motion="no-preference")
        reached(page, REACHED, 1)


def test_chosen_exchange_has_the_keys_of_its_bindings(page: Page, process: BrokerProcess, web: Web) -> None:
    queue, source = some_name("keyed"), some_name("events")
    web.declare(queue)
    web.do("PUT", f"/exchanges/%2F/{source}", {"type": "topic"}, 201)
    web.do("POST", f"/bindings/%2F/e/{source}/q/{queue}", {"routing_key": "order.*"}, 201)
    visit(process, page, "flow")
    with publishing(process, source, "order.new"):
        box(page, "Exchange", source).click()
        page.locator(".keyed", has_text="order.*").wait_for()
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_role("table", name="Roads").get_by_role("cell", name="order.*").wait_for()
        page.keyboard.press("Escape")
    web.do("DELETE", f"/queues/%2F/{queue}")


def test_panel_names_the_queue_nearest_to_its_stop_if_nobody_waits(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    queue = some_name("near")
    web.declare(queue)
    with publishing(process, "", queue), console(browser, process.http) as page:
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_text(f"Nobody waits. Nearest to its stop is {queue}").wait_for()
        assert box(page, "Queue", queue).get_attribute("aria-pressed") == "true"
    web.do("DELETE", f"/queues/%2F/{queue}")


def test_held_queue_is_its_own_gate_and_is_released_from_the_panel(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    name = some_name("held")
    web.declare(name)
    web.do("POST", "/penstock/block", {"queue": name, "reason": "the warehouse moves"}, status=200)
    with console(browser, process.http) as page:
        shut = box(page, "Queue", name)
        shut.get_by_text("by the operator").wait_for()
        assert page.locator(".box.shared").count() == 0
        shut.click()
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_text("the warehouse moves").wait_for()
        panel.get_by_role("button", name="Release…").click()
        page.get_by_role("dialog").get_by_role("button", name="Release").click()
        box(page, "Queue", name).get_by_text("open").wait_for()
    web.do("DELETE", f"/queues/%2F/{name}")


def test_held_exchange_is_its_own_gate_and_is_released_from_the_panel(
    browser: Browser, process: BrokerProcess, web: Web
) -> None:
    source, queue = some_name("events"), some_name("behind")
    web.declare(queue)
    web.do("PUT", f"/exchanges/%2F/{source}", {"type": "fanout"}, 201)
    web.do("POST", f"/bindings/%2F/e/{source}/q/{queue}", {"routing_key": ""}, 201)
    web.do("POST", "/penstock/block", {"address": source, "reason": "the partner moves"}, status=200)
    with named_connection(process.url, "partner") as connection, console(browser, process.http) as page:
        connection.channel().basic_publish(source, "", b"x")
        connection.process_data_events(0)
        box(page, "Producer", "partner").get_by_text("blocked").wait_for()
        shut = box(page, "Exchange", source)
        shut.get_by_text("held").wait_for()
        shut.click()
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_text(f"The operator holds exchange {source}: the partner moves.").wait_for()
        panel.get_by_role("button", name="Release…").click()
        page.get_by_role("dialog").get_by_text("1 producer goes on in turn.").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Release").click()
        page.get_by_text("Nobody waits.").first.wait_for()
    web.do("DELETE", f"/queues/%2F/{queue}")


def test_shared_gate_stands_before_the_exchanges(browser: Browser, process: BrokerProcess, web: Web) -> None:
    queue = some_name("of-guest")
    web.declare(queue)
    web.do("POST", "/penstock/block", {"user": "guest", "reason": "too much"}, status=200)
    with named_connection(process.url, "blocked-user") as connection, console(browser, process.http) as page:
        connection.channel().basic_publish("", queue, b"x")
        connection.process_data_events(0)
        box(page, "Gate", "User guest").click()
        panel = page.get_by_role("complementary", name="Why")
        panel.get_by_text("The operator holds user guest: too much.").wait_for()
        panel.get_by_role("table", name="In line").get_by_role("button", name="blocked-user").press("Enter")
        panel.get_by_text("blocked-user has waited for").wait_for()
        assert page.evaluate(CROSSED) == 0
        web.do("POST", "/penstock/unblock", {"user": "guest"}, status=200)
    web.do("DELETE", f"/queues/%2F/{queue}")


def test_quiet_queues_are_one_line_with_a_link(browser: Browser, process: BrokerProcess, web: Web) -> None:
    name = some_name("idle")
    web.declare(name)
    with console(browser, process.http) as page:
        page.get_by_role("main").get_by_text(re.compile(r"without traffic|more queues?")).first.wait_for()
        assert box(page, "Queue", name).count() == 0
    web.do("DELETE", f"/queues/%2F/{name}")


def test_virtual_host_chooses_its_part_of_the_map(browser: Browser, process: BrokerProcess, web: Web) -> None:
    vhost, name = some_name("tenant"), some_name("held")
    web.do("PUT", f"/vhosts/{vhost}", status=201)
    web.declare(name)
    web.do("POST", "/penstock/block", {"queue": name, "reason": ""}, status=200)
    with console(browser, process.http) as page:
        box(page, "Queue", name).wait_for()
        page.get_by_role("group", name="Virtual host").get_by_role("button", name=vhost).click()
        page.get_by_role("main").get_by_text("0 queues.").first.wait_for()
        assert box(page, "Queue", name).count() == 0
    web.do("DELETE", f"/queues/%2F/{name}")
    web.do("DELETE", f"/vhosts/{vhost}")
