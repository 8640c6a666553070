"""The page "From Qpid and Artemis": a broker takes each line that gives another broker's default."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.support.brokers import penstock_command, serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "from-qpid-and-artemis.md"


def lines_of_defaults() -> list[str]:
    """Return the commands in the last column of the table of defaults."""
    part = PAGE.read_text().partition("## Defaults that differ\n")[2].partition("\n## ")[0]
    return [found for row in part.splitlines() for found in re.findall(r"`penstock ([^`]*)`", row.rpartition(" | ")[2])]


def test_broker_takes_the_lines_that_give_theirs(tmp_path: Path) -> None:
    commands = lines_of_defaults()
    assert len(commands) > 7
    with serving(tmp_path) as broker:
        for words in map(shlex.split, commands):
            done = penstock_command(*words, "--url", broker.url)
            assert done.returncode == 0, (words, done.stderr)
