"""Say at the end how much was tried."""

from __future__ import annotations

import pytest

from tests.core import counted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if counted.examples:
        tried = f"{counted.examples} examples, {counted.looks} comparisons with the model, {counted.stops} stops"
        terminalreporter.write_line(f"stateful tests of the core: {tried}")
