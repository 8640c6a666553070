"""One word for one thing: the words that other brokers use for our states do not come into our sources."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"

# A producer is blocked, a confirmation withheld, a socket paused, a publish held; a gate is open or closed; the
# thresholds are stop and resume. What other brokers call them is known to one package only.
FOREIGN = re.compile(
    r"throttl|\bstall(s|ed|ing)?\b|flow[ _-](on|off)\b|watermark|\b(soft|hard)[ _-]limit", re.IGNORECASE
)
ALIASES = SOURCES / "penstock" / "setting_names"
FILES = [path for path in sorted(SOURCES.rglob("*.py")) if ALIASES not in path.parents]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_source_file_speaks_our_words(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if FOREIGN.search(line)] == []
