"""The flow map as drawn: texts stay within their boxes, for long names and any screen width."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import HTML, LONG, console
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORDS = " ".join(["long name of"] * 19)
NAMES = ("plain", HTML, LONG, WORDS)
MESSAGES = 20
OUTSIDE = """() => [...document.querySelectorAll("svg.map g.node")].flatMap((node) => {
  const box = node.querySelector(".box").getBBox();
  return [...node.querySelectorAll("text")].filter((text) => {
    const { x, y, width, height } = text.getBBox();
    return x < box.x || x + width > box.x + box.width || y < box.y || y + height > box.y + box.height;
  }).map((text) => text.textContent);
})"""
"""The texts that leave their boxes."""
OVERLAPPING = """() => {
  const boxes = [...document.querySelectorAll("svg.map g.node .box")].map((box) => box.getBBox());
  return boxes.filter((one, at) => boxes.slice(at + 1).some((other) => one.x < other.x + other.width
    && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height)).length;
}"""
"""The number of boxes that cover others."""
WRAPPED = """async ([text, kind, width, most]) => (await import("/static/words.js")).wrap(text, kind, width, most)"""


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


def wait_for_all(page: Page) -> None:
    page.locator("svg .producer.blocked").nth(len(NAMES) - 1).wait_for()
    readers = page.locator("svg g[data-key^='r ']").filter(has=page.locator("text.bad"))
    readers.nth(len(NAMES) - 1).wait_for()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(820, "dark", marks=pytest.mark.long),
        pytest.param(1100, "light", marks=pytest.mark.long),
        pytest.param(1240, "dark", marks=pytest.mark.long),
        (1920, "light"),
    ],
)
def test_texts_stay_in_their_boxes(browser: Browser, crowded: BrokerProcess, width: int, scheme: str) -> None:
    with console(browser, crowded.http, width, 900, scheme) as page:
        wait_for_all(page)
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(OVERLAPPING) == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("main img, main b").count() == 0


def test_obstacle_is_whole_and_a_long_name_is_whole_in_its_title(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http) as page:
        wait_for_all(page)
        consumers = page.locator("svg g[data-key^='r ']")
        found = {each.locator("title").text_content(): each.locator("text.bad").all_text_contents()
                 for each in consumers.all()}  # fmt: skip
        assert len(found) == len(NAMES)
        for title, lines in found.items():
            said = " ".join(lines)
            assert said == f"out of credit: {MESSAGES} unacknowledged of a prefetch of {MESSAGES}"
            assert title.endswith(f": {said}")
        for name in NAMES:
            assert any(name in (title or "") for title in found)
        producers = page.locator("svg .producer title").all_text_contents()
        assert all(any(name[:100] in title for title in producers) for name in NAMES)


def test_cards_of_a_narrow_screen_show_the_same(browser: Browser, crowded: BrokerProcess) -> None:
    with console(browser, crowded.http, 360, 800, "dark") as page:
        page.locator(".lane").nth(len(NAMES) - 1).wait_for()
        page.get_by_text("out of credit").nth(len(NAMES) - 1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("main img, main b").count() == 0


@pytest.mark.parametrize(
    "text", [*NAMES, "", "   ", "a", "ö" * 2000, "x " * 500, "👩‍👩‍👧" * 40, "two words", "con:1 " + "y" * 90]
)
@pytest.mark.parametrize(("kind", "most"), [("", 1), ("quiet", 2), ("bad", 3)])
def test_wrapped_lines_begin_the_text_and_are_few(page: Page, text: str, kind: str, most: int) -> None:
    lines: list[str] = page.evaluate(WRAPPED, [text, kind, 190, most])
    plain = " ".join(text.split())
    assert len(lines) <= most
    said = "".join(lines).replace(" ", "")
    if said.endswith("…"):
        assert plain.replace(" ", "").startswith(said[:-1])
        assert len(lines) == most
    else:
        assert plain.replace(" ", "") == said


def test_words_are_cut_only_if_longer_than_a_line(page: Page) -> None:
    def wrapped(text: str, most: int) -> list[Any]:
        found: list[Any] = page.evaluate(WRAPPED, [text, "", 190, most])
        return found

    text = "queue of orders from shops in Ghent"
    one, two = wrapped(text, 2)
    assert f"{one} {two}" == text
    (cut,) = wrapped(text, 1)
    assert cut.endswith("…")
    assert text[len(cut) - 1] == " "
    assert text.startswith(cut[:-1])
    assert wrapped("con:1 " + "y" * 90, 2)[0].startswith("con:1 yyyy")
