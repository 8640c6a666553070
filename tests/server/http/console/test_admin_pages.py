"""Users, virtual hosts, policies and settings in the console: lists, pages, and dialogs that choose and preview."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.console_browser import HTML, answer, console, row, visit
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORD = "a long password"


def test_user_is_made_with_tags_that_are_chosen_and_a_permission(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("made")
    visit(process, page, "users")
    page.get_by_role("button", name="New user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("monitoring also sees").check()
    answer(page, "Create user", Name=name, Password=PASSWORD)
    page.get_by_role("heading", name=name, exact=True, level=1).wait_for()
    row(page, "Permissions", "/", ".*").wait_for()
    assert web.get(f"/users/{name}")["tags"] == ["monitoring"]
    assert web.get(f"/permissions/%2F/{name}")["configure"] == ".*"
    page.get_by_role("button", name="Change tags…").click()
    dialog.get_by_label("policymaker also sets").check()
    answer(page, "Change tags")
    page.locator(".title .tag", has_text="policymaker").wait_for()
    assert sorted(web.get(f"/users/{name}")["tags"]) == ["monitoring", "policymaker"]
    web.do("DELETE", f"/users/{name}")


def test_user_is_deleted_after_its_connections_are_counted(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("deleted")
    web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": ""}, status=201)
    web.do("PUT", f"/permissions/%2F/{name}", {"configure": "", "write": "", "read": ""}, status=201)
    with Connection(f"amqp://{name}:{quote(PASSWORD)}@127.0.0.1:{process.port}/"):
        visit(process, page, f"users/{name}")
        page.get_by_role("button", name="Delete user…").click()
        page.get_by_role("dialog").get_by_text("1 open connection is closed").wait_for()
        answer(page, "Delete")
    page.get_by_role("heading", name="Users", exact=True).wait_for()
    web.do("GET", f"/users/{name}", status=404)
    page.goto(f"{process.http}/#/users/{name}")
    page.get_by_text("is not there any more. Its connections were closed.").wait_for()


def test_list_of_users_shows_which_have_a_password(process: BrokerProcess, web: Web, page: Page) -> None:
    without = some_name("without")
    web.do("PUT", f"/users/{without}", {"password_hash": "", "tags": ""}, status=201)
    visit(process, page, "users")
    row(page, "Users", without, "none").first.wait_for()
    row(page, "Users", "guest", "administrator", "set").wait_for()
    web.do("DELETE", f"/users/{without}")


def test_held_user_is_released_on_its_page(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("loud")
    web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": ""}, status=201)
    visit(process, page, f"users/{name}")
    page.get_by_role("button", name="Hold…").click()
    answer(page, "Hold", Reason="too loud")
    page.get_by_role("region", name="Why").get_by_text("Reason: too loud").wait_for()
    page.get_by_role("button", name="Release").click()
    page.get_by_role("region", name="Why").wait_for(state="detached")
    web.do("DELETE", f"/users/{name}")


@pytest.mark.parametrize("kind", ["plain", HTML])
def test_virtual_host_is_made_held_released_and_deleted(
    process: BrokerProcess, web: Web, page: Page, kind: str
) -> None:
    name = f"{kind} {some_name('host')}"
    at = quote(name, safe="")
    visit(process, page, "vhosts")
    page.get_by_role("button", name="New virtual host").click()
    answer(page, "Create virtual host", Name=name, Description="of a test")
    page.get_by_role("heading", name=name, exact=True, level=1).wait_for()
    page.get_by_text("of a test").wait_for()
    assert page.locator("main img").count() == 0
    web.do("PUT", f"/queues/{at}/q", {}, status=201)
    page.get_by_role("button", name="Hold…").click()
    answer(page, "Hold", Reason="moves house")
    page.get_by_role("region", name="Why").get_by_text("Reason: moves house").wait_for()
    page.goto(f"{process.http}/#/vhosts")
    row(page, "Virtual hosts", "1").filter(has_text=name).locator("td.st .red").wait_for()
    page.goto(f"{process.http}/#/vhosts/{at}")
    page.get_by_role("button", name="Release").click()
    page.get_by_role("region", name="Why").wait_for(state="detached")
    page.get_by_role("button", name="Delete virtual host…").click()
    page.get_by_role("dialog").get_by_text("1 queue with 0 messages and").wait_for()
    answer(page, "Delete")
    page.get_by_role("heading", name="Virtual hosts", exact=True).wait_for()
    web.do("GET", f"/vhosts/{at}", status=404)


def test_protected_virtual_host_offers_no_deletion(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("kept")
    web.do("PUT", f"/vhosts/{name}", {}, status=201)
    visit(process, page, f"vhosts/{name}")
    page.get_by_role("button", name="Protect…").click()
    answer(page, "Protect")
    page.get_by_role("button", name="End protection…").wait_for()
    assert page.get_by_role("button", name="Delete virtual host…").count() == 0
    assert web.get(f"/vhosts/{name}")["protected_from_deletion"]
    page.get_by_role("button", name="End protection…").click()
    answer(page, "End protection")
    page.get_by_role("button", name="Delete virtual host…").wait_for()
    web.do("DELETE", f"/vhosts/{name}")


def test_policy_is_made_of_keys_that_are_chosen(process: BrokerProcess, web: Web, page: Page) -> None:
    name = some_name("policy")
    visit(process, page, "policies")
    page.get_by_role("button", name="New policy").click()
    dialog = page.get_by_role("dialog")
    for key, value in (("max-length", "100"), ("ha-mode", "all")):
        dialog.get_by_label("Find a key").fill(key)
        dialog.get_by_role("button", name=re.compile(f"^{key}(?!-)")).click()
        dialog.get_by_label(f"Value of {key}", exact=True).fill(value)
    dialog.get_by_text('{"max-length":100,"ha-mode":"all"}').wait_for()
    dialog.locator(".chosen").get_by_text("no effect here").wait_for()
    answer(page, "Set policy", Name=name, Pattern="^never")
    shown = row(page, "Policies", "^never").filter(has_text=name)
    shown.get_by_text("no effect here").wait_for()
    assert web.get(f"/policies/%2F/{name}")["definition"] == {"max-length": 100, "ha-mode": "all"}
    shown.get_by_role("button", name=f"Edit… policy {name}").click()
    dialog.get_by_role("button", name="Remove ha-mode").click()
    dialog.get_by_label("Value of max-length").fill("7")
    answer(page, "Save")
    dialog.wait_for(state="detached")
    shown.get_by_text("no effect here").wait_for(state="detached")
    assert web.get(f"/policies/%2F/{name}")["definition"] == {"max-length": 7}
    shown.get_by_role("button", name=f"Clear… policy {name}").click()
    answer(page, "Clear")
    shown.wait_for(state="detached")
    assert web.get("/policies/%2F") == []


def test_policy_keys_are_those_of_what_it_applies_to(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "policies")
    page.get_by_role("button", name="New policy").click()
    dialog = page.get_by_role("dialog")
    keys = dialog.get_by_role("group", name="Keys")
    keys.get_by_role("button", name=re.compile("^capacity-bytes")).wait_for()
    assert keys.get_by_role("button", name=re.compile("^alternate-exchange")).count() == 0
    dialog.get_by_label("Applies to").select_option("exchanges")
    keys.get_by_role("button", name=re.compile("^alternate-exchange")).wait_for()
    shown = {each.split()[0] for each in keys.get_by_role("button").all_inner_texts()}
    assert shown == {"alternate-exchange", *(f"federation-upstream{part}" for part in ("", "-set", "-pattern"))}


def test_refused_policy_marks_the_value(process: BrokerProcess, web: Web, page: Page) -> None:
    visit(process, page, "policies")
    page.get_by_role("button", name="New policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Find a key").fill("message-ttl")
    dialog.get_by_role("button", name=re.compile("^message-ttl")).click()
    answer(page, "Set policy", Name="refused")
    dialog.get_by_role("alert").get_by_text("message-ttl").wait_for()
    assert dialog.get_by_label("Value of message-ttl").get_attribute("aria-invalid") == "true"
    assert web.get("/policies/%2F") == []


def test_setting_is_set_after_a_preview_and_unset(process: BrokerProcess, web: Web, page: Page) -> None:
    queue = some_name("limited")
    web.declare(queue)
    for _ in range(9):
        web.publish(queue)
    visit(process, page, "settings")
    page.get_by_role("button", name="Set…", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Pattern").fill(queue)
    dialog.get_by_role("option", name="/", exact=True).wait_for(state="attached")
    dialog.get_by_label("In", exact=True).select_option("/")
    dialog.get_by_label("Setting").select_option("capacity-messages")
    dialog.get_by_label("Value").fill("10")
    dialog.get_by_text("its gate closes at once: the depth is 9 messages").wait_for()
    assert web.queue(queue)["penstock"]["gate"]["open"]
    answer(page, "Set")
    dialog.wait_for(state="detached")
    assert not web.queue(queue)["penstock"]["gate"]["open"]
    page.get_by_role("button", name=re.compile("^Set [0-9]")).click()
    row(page, "Settings of patterns", queue, "capacity-messages", "10").wait_for()
    page.get_by_role("button", name=f"Unset… capacity-messages of queue {queue}").click()
    answer(page, "Unset")
    row(page, "Settings of patterns", queue).wait_for(state="detached")
    assert web.queue(queue)["penstock"]["gate"]["open"]


def test_settings_have_their_value_now_their_values_and_units(process: BrokerProcess, page: Page) -> None:
    visit(process, page, "settings")
    page.get_by_role("button", name=re.compile("^All")).click()
    for setting, value in (("capacity-bytes", "100 MiB"), ("hold-deadline", "25 s"), ("consumer-timeout", "30 min")):
        shown = page.locator("main").get_by_role("row").filter(has=page.get_by_text(setting, exact=True))
        shown.get_by_role("cell", name=value, exact=True).wait_for()
    page.get_by_role("button", name=re.compile("^At the start")).click()
    row(page, "Settings at the start", "log-level", "info", "reload").wait_for()
    row(page, "Settings at the start", "frame-max", "128 KiB", "restart").wait_for()
    page.get_by_label("Filter by name").fill("log-level")
    assert page.get_by_role("table", name="Settings at the start").get_by_role("row").count() == 2


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("users", "It needs the tag administrator; an administrator gives it."),
        ("vhosts", "To make and to delete virtual hosts needs the tag administrator."),
        ("policies", "To set policies needs the tag policymaker."),
        ("settings", "To change settings needs the tag policymaker."),
        ("limits", "To set limits needs the tag administrator."),
    ],
)
def test_page_without_the_tag_says_which_it_needs(
    browser: Browser, process: BrokerProcess, web: Web, key: str, said: str
) -> None:
    name = some_name("seer")
    web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": "management"}, status=201)
    with console(browser, process.http, user=name, password=PASSWORD) as page:
        page.goto(f"{process.http}/#/{key}")
        page.get_by_text(said).wait_for()
        assert page.locator("main button.main, main button.danger").count() == 0
        assert page.locator(".notice").count() == 0
    web.do("DELETE", f"/users/{name}")
