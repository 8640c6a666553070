"""Settings of patterns, listed and changed by command."""

from __future__ import annotations

from tests.support.control_requests import MANY, answers, request, turns_until_answered, with_patterns


def test_settings_of_all_patterns_are_told_whole() -> None:
    driver = with_patterns()
    turns_until_answered(driver, request("settings.list"))
    (answer,) = answers(driver)
    assert [entry["pattern"] for entry in answer["settings"]] == sorted(f"p{number}.#" for number in range(MANY))
