"""The tables of docs/metrics.md say which families there are."""

from __future__ import annotations

from tests.support.metric_tables import PAGE, with_tables


def test_tables_of_metrics_are_those_of_the_code() -> None:
    again = "make them again: PYTHONPATH=src python -m tests.support.metric_tables"
    assert PAGE.read_text() == with_tables(PAGE.read_text()), again
