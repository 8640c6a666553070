"""A broker of each module with a console that looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import chromium, console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Page]]:
    """A broker with a console that looks at it."""
    folder = tmp_path_factory.mktemp("console")
    with serving(folder, "--http", "127.0.0.1:0") as process, console(browser, process.http) as page:
        yield process, page
