"""A plugin of pytest: a line of JSON for each test as soon as it has ended, so that a run cut short tells its part."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

FILE = "COMPAT_RESULTS"
"""The environment variable that names the file to append to."""


def _reason(report: pytest.TestReport) -> str:
    """Return the last line that says why: of the exception, or of the skip."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip().splitlines()[0]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down how a test ended: after its call, or where it did not come so far or failed afterwards."""
    if report.when != "call" and report.passed:
        return
    # With the words of the outcome go those of the place: a test that cannot be set up has failed.
    line = {"test": report.nodeid.rpartition("/")[2], "outcome": report.outcome}
    if not report.passed:
        line["why"] = _reason(report)
    with Path(os.environ[FILE]).open("a") as file:
        file.write(json.dumps(line) + "\n")
