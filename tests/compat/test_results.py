"""The table of `make test-clients`: differences, failures of ours to mend, and stale explanations."""

from __future__ import annotations

import json
from pathlib import Path

from compat.results import Outcome, differences, page, read, stale, table


def outcome(broker: str, test: str, result: str, why: str = "") -> Outcome:
    return Outcome("suite", broker, test, result, why)


OURS = [outcome("ours", "same", "passed"), outcome("ours", "worse", "failed", "no"), outcome("ours", "meant", "failed")]
THEIRS = [outcome("theirs", test, "passed") for test in ("same", "worse", "meant")]
EXPLAINED = {("suite", "meant"): "It is meant so.", ("suite", "same"): "It differed once."}


def test_failure_on_ours_alone_is_ours_to_mend_unless_explained() -> None:
    found = differences(OURS, THEIRS, EXPLAINED)
    assert [(one.test, one.is_ours_to_mend) for one in found] == [("worse", True), ("meant", False)]
    assert found[1].words() == "suite meant: failed on ours, passed on RabbitMQ: It is meant so."


def test_failure_on_both_brokers_is_no_difference() -> None:
    assert differences([outcome("ours", "t", "failed")], [outcome("theirs", "t", "failed")], {}) == []


def test_failure_without_rabbitmq_beside_is_ours_to_mend() -> None:
    found = differences(OURS, None, {})
    assert [(one.test, one.is_ours_to_mend) for one in found] == [("worse", True), ("meant", True)]


def test_explanation_without_a_difference_is_reported() -> None:
    assert stale(OURS, differences(OURS, THEIRS, EXPLAINED), EXPLAINED) == [("suite", "same")]


def test_explanation_of_a_test_that_fails_on_both_is_not_stale() -> None:
    both = outcome("ours", "meant", "failed")
    assert stale([both], differences([both], [outcome("theirs", "meant", "failed")], EXPLAINED), EXPLAINED) == []


def test_worst_outcome_of_a_test_counts(tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    said = [{"test": "t", "outcome": "passed"}, {"test": "t", "outcome": "failed", "why": "its end"}]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in said))
    assert read("suite", "ours", file) == [outcome("ours", "t", "failed", "its end")]


def test_table_counts_each_suite_on_each_broker() -> None:
    shown = table({"suite": "A suite"}, {"ours": OURS, "theirs": THEIRS}, differences(OURS, THEIRS, {})).splitlines()
    assert shown[1].split() == ["A", "suite", "1", "2", "0", "3", "0", "0", "2"]


def test_page_shows_the_numbers_of_passed_and_run_tests() -> None:
    found = {"ours": [*OURS, outcome("ours", "absent", "skipped")], "theirs": THEIRS}
    assert page({"suite": "A suite"}, found, differences(OURS, THEIRS, {})).splitlines() == [
        "| suite | ours | theirs | differ |",
        "|---|---|---|---|",
        "| A suite | 1 of 3, 1 skipped | 3 of 3 | 2 |",
    ]
