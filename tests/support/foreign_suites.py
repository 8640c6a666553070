"""Suites of others that no package registry has: what they say, compared with the failures that are expected."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

BY_CHANCE = "now and then: "
"""Beginning of the reason of a test that fails or not, as the order of independent answers will have it."""


class Told(NamedTuple):
    """The tests of a suite, by what became of them; each failure with the first line of its reason."""

    passed: set[str]
    failed: dict[str, str]
    skipped: set[str]

    def words(self) -> str:
        """Return the counts for the report of clients."""
        passed, failed, skipped = len(self.passed), len(self.failed), len(self.skipped)
        return f"{passed} of its tests passed, {failed} failed as expected, {skipped} skipped"


def source_of(variable: str, what: str) -> str:
    """Return what a variable names; skips the test with one sentence if it is not set."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{what}: not run, {variable} is not set")
    return found


def read_expected(path: Path) -> dict[str, str]:
    """Return the expected failures with their reasons: a line each, `test | reason`; `#` begins a comment."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            test, _, reason = line.partition(" | ")
            assert reason, f"{path.name}: {test} has no reason"
            assert test not in found, f"{path.name}: {test} is listed twice"
            found[test] = reason
    return found


def read_junit(reports: list[Path], name_of: Callable[[str, str], str]) -> Told:
    """Read JUnit's reports; `name_of` makes a name of class and test. The worst that is said of a test counts."""
    told = Told(set(), {}, set())
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = name_of(str(case.get("classname")), str(case.get("name")))
            bad = case.find("failure")
            if bad is None:
                bad = case.find("error")
            if bad is not None:
                told.failed[name] = (bad.get("message") or bad.text or "").strip().partition("\n")[0][:300]
            elif case.find("skipped") is not None:
                told.skipped.add(name)
            else:
                told.passed.add(name)
    told.passed.difference_update(told.failed)
    return told


def compare(told: Told, expected: dict[str, str]) -> None:
    """Fail for a failure that is not expected, and for an expected one that is none, unless it is one by chance."""
    new = [f"{test}: {reason}" for test, reason in sorted(told.failed.items()) if test not in expected]
    assert not new, "not among the expected failures:\n" + "\n".join(new)
    stale = [
        f"{test} | {reason}"
        for test, reason in expected.items()
        if test not in told.failed and not reason.startswith(BY_CHANCE)
    ]
    assert not stale, "expected to fail, and did not:\n" + "\n".join(stale)
