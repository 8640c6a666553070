"""Shards in the console: their card, the column of virtual hosts, and the band that names one that is away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.axe import faults
from tests.support.brokers import eventually
from tests.support.console_browser import console, row, visit
from tests.support.web_node import WebNode, web_node

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebNode]:
    with web_node(tmp_path_factory.mktemp("node")) as node:
        for vhost in ("%2F", "other"):
            node.web.do("PUT", f"/queues/{vhost}/orders", {"durable": True}, 201)
        yield node


@pytest.fixture(scope="module")
def page(browser: Browser, node: WebNode) -> Iterator[Page]:
    with console(browser, node.process.http) as page:
        yield page


def test_overview_has_a_card_of_all_shards(node: WebNode, page: Page) -> None:
    visit(node.process, page, "overview")
    for shard in ("1", "2"):
        found = row(page, "Shards", str(node.pid_of(shard)))
        found.get_by_text("serves for").wait_for()
        assert found.get_by_role("cell").first.inner_text() == shard
    assert page.get_by_text("2 of 2 shards serve").count() == 1


def test_virtual_hosts_name_their_shards(node: WebNode, page: Page) -> None:
    visit(node.process, page, "vhosts")
    page.get_by_role("columnheader", name="Shard").wait_for()
    row(page, "Virtual hosts", "other").get_by_text(node.shard_of("other"), exact=True).wait_for()
    visit(node.process, page, "vhosts/other")
    page.get_by_text("Shard", exact=True).wait_for()


def test_queue_of_each_shard_has_a_page_with_its_messages(node: WebNode, page: Page) -> None:
    for vhost in ("%2F", "other"):
        body = {"properties": {}, "routing_key": "orders", "payload": f"from {vhost}", "payload_encoding": "string"}
        assert node.web.ask("POST", f"/exchanges/{vhost}/amq.default/publish", body).json["routed"]
        visit(node.process, page, f"queues/{vhost}/orders/messages")
        page.get_by_text(f"from {vhost}").first.wait_for()


def test_band_names_a_shard_that_does_not_serve(node: WebNode, page: Page) -> None:
    visit(node.process, page, "overview")
    two = node.shard_of("other")
    while not node.process.logged("PST-2082"):
        pid = node.pid_of(two)
        node.kill(two)
        eventually(
            lambda pid=pid: node.pid_of(two) != pid or node.process.logged("PST-2082"), "another process, or none"
        )
    band = page.locator("#trouble").get_by_text(f"Shard '{two}' is stopped: it died 5 times in 60 s")
    band.wait_for()
    assert "What its virtual host has is missing here." in band.inner_text()
    row(page, "Shards", "it was killed by signal 9").get_by_text("stopped for").wait_for()
    assert faults(page) == []
    visit(node.process, page, "queues")
    page.get_by_role("link", name="orders").wait_for()
    assert page.get_by_role("link", name="orders").count() == 1
