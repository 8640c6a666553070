"""The tables of docs/metrics.md say which families there are."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.metric_tables import PAGE, all_families, with_tables

RABBITMQ = Path(__file__).resolve().parents[1] / "support" / "rabbitmq_families.txt"


def test_tables_of_metrics_are_those_of_the_code() -> None:
    again = "make them again: PYTHONPATH=src python -m tests.support.metric_tables"
    assert PAGE.read_text() == with_tables(PAGE.read_text()), again


def test_every_family_of_rabbitmq_is_ours_or_is_listed_as_missing() -> None:
    theirs = {line for line in RABBITMQ.read_text().splitlines() if line and not line.startswith("#")}
    rows = PAGE.read_text().partition("## What RabbitMQ has and we do not\n")[2].partition("\n\nWhat has the same")[0]
    missing = {name for row in rows.splitlines() if "|" in row for name in re.findall(r"`([\w*]+)`", row.split("|")[1])}
    ours = all_families() | {"process_start_time_seconds"}
    listed = {name for name in theirs if any(fnmatchcase(name, pattern) for pattern in missing)}
    assert len(theirs) > 100
    assert theirs - ours - listed == set()
    assert listed & ours == set()
