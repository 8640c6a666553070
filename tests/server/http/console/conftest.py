"""A broker of each module with a console that looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import chromium, console
from tests.support.http_client import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


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
