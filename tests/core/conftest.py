"""A virtual host for tests of the core; and say at the end how much was tried."""

from __future__ import annotations

import pytest

from penstock.core.vhost import VirtualHost
from tests.support import example_counts
from tests.support.topology import a_vhost


@pytest.fixture
def vhost() -> VirtualHost:
    return a_vhost()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if example_counts.examples:
        examples, looks, stops = example_counts.examples, example_counts.looks, example_counts.stops
        tried = f"{examples} examples, {looks} comparisons with the model, {stops} stops"
        terminalreporter.write_line(f"stateful tests of the core: {tried}")
