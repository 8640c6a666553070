"""A broker of each module with a console that looks at it, in a browser that modules share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import chromium, console
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class SharedBrowser:
    """A browser that stays for the next module: its start takes two seconds of processor time.

    It does not stay for a module without it: where Playwright runs, no event loop can.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self._found: Browser | None = None

    def find(self) -> Browser:
        if self._found is None:
            self._found = self._running.enter_context(chromium())
        return self._found

    def end(self) -> None:
        self._running.close()
        self._found = None


SHARED = SharedBrowser()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the browser behind the last test of a module, unless the next module has it too."""
    if nextitem is None or (nextitem.path != item.path and not _uses_browser(nextitem)):
        SHARED.end()


def _uses_browser(item: pytest.Item) -> bool:
    """Return whether a test of the module of this one has the browser."""
    beside = [each for each in item.session.items if each.path == item.path]
    return any("browser" in each.fixturenames for each in beside if isinstance(each, pytest.Function))


@pytest.fixture(scope="module")
def browser() -> Browser:
    return SHARED.find()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("console"), "--http", "127.0.0.1:0") as process:
        yield process


@pytest.fixture(scope="module")
def page(browser: Browser, process: BrokerProcess) -> Iterator[Page]:
    """A console that looks at that broker."""
    with console(browser, process.http) as page:
        yield page


@pytest.fixture
def web(process: BrokerProcess) -> Web:
    """A client of that broker."""
    return Web(process.http)
