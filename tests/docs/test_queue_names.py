"""Examples, the README and the tutorial have queues of their own: a reader may run them one after the other."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OWN_BROKER = EXAMPLES / "testing"
"""Tests that start a broker of their own."""
NAMED = re.compile(
    r'declare_queue\(\s*"([\w.-]+)"|\bQUEUE = "([\w.-]+)"|\bQueue\("([\w.-]+)"|queue_name="([\w.-]+)"'
    r'|option\("(?:queue|subscribe)", "([\w.-]+)"\)|"/queues/([\w.-]+)"'
    r'|penstock queues (?:declare|set) ([\w.-]+)|for queue in ([\w. -]+);|for queue in \(("[^)]+)\):'
)
"""Queues that a program or a command declares, in the forms that the examples use."""


def queues_of(path: Path) -> set[str]:
    """Return the queues that a program or the commands of a page use."""
    found = [next(filter(None, groups)) for groups in NAMED.findall(path.read_text())]
    return {name for each in found for name in re.findall(r"[\w.-]+", each)}


def users() -> dict[str, set[str]]:
    """Return the queues by the program or page; a page of examples belongs to their programs."""
    programs = [path for path in sorted(EXAMPLES.rglob("*.py")) if OWN_BROKER not in path.parents]
    pages = [ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-hour.md"]
    return {str(path.relative_to(ROOT)): queues_of(path) for path in (*programs, *pages)}


def test_queue_is_used_by_one_program_or_page() -> None:
    used = users()
    by_queue: dict[str, list[str]] = defaultdict(list)
    for user, queues in used.items():
        for queue in queues:
            by_queue[queue].append(user)
    assert {queue: names for queue, names in by_queue.items() if len(names) > 1} == {}


def test_queues_of_every_program_and_page_are_found() -> None:
    without = {user for user, queues in users().items() if not queues}
    assert without == {
        "examples/rabbitmq_to_parquet/job.py",  # an option of the command line
        "examples/visits/visits.py",  # arguments of a function; the page of the examples declares them
    }
    declared = queues_of(EXAMPLES / "README.md") | queues_of(EXAMPLES / "rabbitmq_to_parquet" / "README.md")
    assert {"clicks", "purchases", "sales", "receipts"} <= declared
