"""Rules of the design on every page of the console, with a lively broker: widths, edges, contrast, words, axe-core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support import axe
from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import console
from tests.support.http_client import Web
from tests.support.lively_broker import LONG_NAME, lively

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RULES = Path(__file__).resolve().parents[3] / "support" / "page_rules.js"
WIDTHS = (320, 390, 600, 860, 1024, 1280, 1440)
ALIKE = ("width", "edges", "cuts")
"""Rules that are checked at every width; the others at the first and the last."""
PAGES = {
    "flow": "thumbnails",
    "overview": "Messages",
    "queues": "thumbnails",
    "queues/%2F/thumbnails": "Depth",
    f"queues/%2F/{LONG_NAME}": "Depth",
    "queues/%2F/held.by.operator": "warehouse",
    "queues/%2F/orders.dead/messages": "order.new",
    "queues/%2F/log/messages": "log",
    "queues/%2F/thumbnails/limits": "capacity",
    "queues/%2F/absent": "absent",
    "exchanges": "events",
    "exchanges/%2F/events": "order.*",
    "connections": "uploader",
    "channels": "uploader",
    "consumers": "thumbnails",
    "cursors": "reader of unread",
    f"cursors/%2F/{quote('reader of unread')}": "unread",
    "users": "ann",
    "users/ann": "monitoring",
    "vhosts": "tenants",
    "vhosts/tenants": "tenants",
    "limits": "ann",
    "policies": "short-lived",
    "bridges": "from-old-site",
    "bridges/%2F/from-old-site/shovel": "This bridge is away",
    "bridges/%2F/to-tenants/bridge": "This bridge is paused",
    "settings": "hold-deadline",
    "definitions": "Export",
    "nowhere": "There is no such page",
}
"""Pages, and a text of each when it is loaded."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("scene")
    options = ("--http", "127.0.0.1:0", "--data", str(folder / "data"))
    with serving(folder, *options) as broker, lively(broker, Web(broker.http)):
        yield broker


@pytest.fixture(scope="module", params=["light", "dark"])
def lively_page(request: pytest.FixtureRequest, browser: Browser, scene: BrokerProcess) -> Iterator[Page]:
    with console(browser, scene.http, scheme=request.param) as page:
        page.add_init_script(path=RULES)
        page.reload()
        page.get_by_role("navigation", name="Pages").wait_for()
        yield page


def loaded(page: Page, key: str) -> None:
    """Wait until a page shows what it is about."""
    page.get_by_role("main").get_by_text(PAGES[key]).filter(visible=True).first.wait_for()
    page.locator("main .skeleton").first.wait_for(state="detached")


@pytest.mark.parametrize("key", PAGES)
def test_page_keeps_the_rules_of_the_design_at_every_width(lively_page: Page, scene: BrokerProcess, key: str) -> None:
    page = lively_page
    page.set_viewport_size({"width": WIDTHS[-1], "height": 900})
    page.goto(f"{scene.http}/#/{key}")
    loaded(page, key)
    faults: list[str] = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        rules = (*ALIKE, "contrast", "words") if width in (WIDTHS[1], WIDTHS[-1]) else ALIKE
        for rule in rules:
            faults += [f"{width} px: {fault}" for fault in page.evaluate(f"pageRules.{rule}()")]
    assert faults == []


@pytest.mark.parametrize("key", PAGES)
def test_page_has_no_fault_that_axe_finds(lively_page: Page, scene: BrokerProcess, key: str) -> None:
    page = lively_page
    faults: list[str] = []
    page.goto(f"{scene.http}/#/{key}")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        loaded(page, key)
        faults += [f"{width} px: {fault}" for fault in axe.faults(page)]
    assert faults == []
