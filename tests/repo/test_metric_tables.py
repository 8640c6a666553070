"""docs/inside/metrics.md says which families of RabbitMQ are missing."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.metric_tables import all_families

PAGE = Path(__file__).resolve().parents[2] / "docs" / "inside" / "metrics.md"
RABBITMQ = Path(__file__).resolve().parents[1] / "support" / "rabbitmq_families.txt"


def test_rabbitmq_metric_families_are_ours_or_listed_as_missing() -> None:
    theirs = {line for line in RABBITMQ.read_text().splitlines() if line and not line.startswith("#")}
    rows = PAGE.read_text().partition("## What RabbitMQ has and we do not\n")[2].partition("\n\nWhat has the same")[0]
    missing = {name for row in rows.splitlines() if "|" in row for name in re.findall(r"`([\w*]+)`", row.split("|")[1])}
    ours = all_families() | {"process_start_time_seconds"}
    listed = {name for name in theirs if any(fnmatchcase(name, pattern) for pattern in missing)}
    assert len(theirs) > 100
    assert theirs - ours - listed == set()
    assert listed & ours == set()
