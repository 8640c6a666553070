"""Tests of the console wait by means that the policy of its pages permits."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_browser_tests_do_not_wait_by_evaluation_within_the_page() -> None:
    """`reached` waits for conditions; Playwright's own function works only for those that hold at once."""
    forbidden = ".wait_for_" + "function("
    assert [str(path) for path in TESTS.rglob("*.py") if forbidden in path.read_text()] == []
