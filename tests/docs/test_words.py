"""The bound on the words of the pages for users: a page that nobody reads to its end helps nobody."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.site_navigation import pages_of_users

DOCS = Path(__file__).resolve().parents[2] / "docs"
WORDS_MOST = 68_000
"""Most words of all pages outside of the part Inside, generated references included; bridges took the last 3,000."""
WORD = re.compile(r"\S*\w\S*")
"""A word has a letter or a digit: rules and borders of tables are none."""


def words_of(text: str) -> int:
    """Return the number of words of a page, its commands and programs included."""
    return len(WORD.findall(text))


def test_borders_of_tables_and_rules_are_no_words() -> None:
    assert words_of("| a cell | `two words` |\n|---|---|\n- - -\n# 1. A heading") == 7


def test_pages_of_users_have_at_most_68_000_words() -> None:
    words = {page: words_of((DOCS / page).read_text()) for page in pages_of_users()}
    assert len(words) > 30
    longest = sorted(words, key=lambda page: -words[page])[:10]
    assert sum(words.values()) <= WORDS_MOST, {page: words[page] for page in longest}
