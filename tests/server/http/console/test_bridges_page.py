"""The pages of bridges: the list, one bridge with what holds it, and what is done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.support.brokers import BrokerProcess, eventually, some_name
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Page

PASSWORD = "geheim-17"


def state_of(web: Web, name: str, component: str = "shovel") -> Any:
    return web.get(f"/penstock/bridges/%2F/{name}?component={component}")["state"]


def shovel_between(web: Web, source: str, target: str) -> str:
    """Declare two queues of the broker and a shovel from one to the other; return its name."""
    name = some_name("shovel")
    web.declare(source)
    web.declare(target, **{"capacity-messages": 1, "hold-deadline": 3600})
    value = {"src-uri": "amqp://", "src-queue": source, "dest-uri": "amqp://", "dest-queue": target}
    web.ask("PUT", f"/parameters/shovel/%2F/{name}", {"value": value})
    return name


def test_held_bridge_says_why_and_is_paused_resumed_and_deleted(process: BrokerProcess, web: Web, page: Page) -> None:
    source, target = some_name("source"), some_name("target")
    name = shovel_between(web, source, target)
    for _ in range(3):
        web.publish(source)
    page.goto(f"{process.http}/#/bridges")
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, exact=True).wait_for()
    why = page.get_by_role("region", name="Why")
    why.get_by_text("This bridge is held").wait_for()
    assert f"queue {target}" in why.inner_text().lower()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    why.get_by_text("This bridge is paused.").wait_for()
    assert state_of(web, name) == "paused"
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Restart").wait_for()
    eventually(lambda: state_of(web, name) == "held", "the bridge is held again")
    page.get_by_role("button", name="Delete bridge…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("heading", name="Bridges", exact=True).wait_for()
    assert page.get_by_role("link", name=name, exact=True).count() == 0


def test_password_of_a_definition_is_not_shown(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("secret")
    value = {"src-uri": f"amqp://u:{PASSWORD}@127.0.0.1:1", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "q"}
    web.ask("PUT", f"/parameters/shovel/%2F/{name}", {"value": value})
    page.goto(f"{process.http}/#/bridges/%2F/{quote(name)}/shovel")
    page.get_by_text("amqp://…@127.0.0.1:1").first.wait_for()
    assert PASSWORD not in page.content()
    web.ask("DELETE", f"/parameters/shovel/%2F/{name}")


def test_bridge_that_is_not_there_has_a_name_and_the_way_back(process: BrokerProcess, page: Page) -> None:
    page.goto(f"{process.http}/#/bridges/%2F/absent/shovel")
    page.get_by_text("Bridge absent is not there any more.").wait_for()
    page.get_by_role("link", name="All bridges").click()
    page.get_by_role("heading", name="Bridges", exact=True).wait_for()
