"""A browser for tests of the console: Debian's Chromium, without a download, and all that it complains about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

HTML = "<img src=x onerror=alert(1)><b>bold</b>"
"""Name that looks like markup."""
LONG = "ö" * 127 + "x"
"""Longest name: 255 octets of UTF-8."""
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the system's Chromium with an empty profile; skip the test where there is none."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()


@contextmanager
def console(
    browser: Browser,
    url: str,
    width: int = 1280,
    height: int = 860,
    scheme: str = "light",
    user: str = "guest",
    password: str = "guest",
) -> Iterator[Page]:
    """Open the console as a user in a new tab. At the end nothing may have been complained about.

    Failed loads are no complaint: a broker that goes away fails them. A new window takes a second of processor time, so
    all tabs are in one window. A tab has its own session storage, with the login; a stored theme is deleted.
    """
    window = browser.contexts[0] if browser.contexts else browser.new_context()
    if not window.pages:
        window.new_page()  # The window ends with its last tab.
    page = window.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if _is_complaint(said.type, said.text) else None)
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    try:
        page.goto(url)
        if page.evaluate("localStorage.length"):
            page.evaluate("localStorage.clear()")
            page.reload()
        page.get_by_label("User").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("navigation", name="Pages").wait_for()
        yield page
    finally:
        page.close()  # A browser has six connections to a host, and each tab keeps one.
    assert complaints == []


def reached(page: Page, condition: str, arg: object = None) -> None:
    """Wait until a function of the page, given as JavaScript, returns true.

    The page's policy forbids the evaluation of text within the page, by which Playwright's `wait_for_function` looks
    again; so that function works only if the condition holds at once.
    """
    waiting = f"""async (arg) => {{
        const condition = {condition};
        while (!(await condition(arg))) await new Promise((done) => setTimeout(done, 20));
    }}"""
    page.evaluate(waiting, arg)


def visit(process: BrokerProcess, page: Page, key: str) -> None:
    """Open a page anew."""
    page.goto(f"{process.http}/#/{key}")
    page.reload()


def row(page: Page, table: str, *cells: str) -> Locator:
    """Return the row of a table that has these cells."""
    found = page.get_by_role("table", name=table, exact=True).get_by_role("row")
    for cell in cells:
        found = found.filter(has=page.get_by_role("cell", name=cell, exact=True))
    return found


def answer(page: Page, button: str, **values: str) -> None:
    """Fill in controls of the open dialog by their labels, with spaces as underscores, and press its button."""
    dialog = page.get_by_role("dialog")
    for label, value in values.items():
        control = dialog.get_by_label(label.replace("_", " "), exact=True)
        if control.evaluate("control => control.tagName") == "SELECT":
            control.select_option(value)
        elif value in ("on", "off"):
            control.set_checked(value == "on")
        else:
            control.fill(value)
    dialog.get_by_role("button", name=button, exact=True).click()


def _is_complaint(kind: str, text: str) -> bool:
    return kind in ("error", "warning") and not text.startswith("Failed to load resource")
