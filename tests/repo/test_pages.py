"""Parts of pages that follow from the code are current, and each table is on one page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.pages import PLACE, ROOT, decisions, filled, pages, tables

DECISIONS = ROOT / "docs" / "decisions"


WITH_PARTS = [page for page in pages() if PLACE.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_PARTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_its_parts_as_they_follow_from_the_code(page: Path) -> None:
    text = page.read_text()
    assert len(re.findall(r"^<!-- end -->$", text, re.MULTILINE)) == len(PLACE.findall(text))
    assert filled(text) == text, "`make pages` writes it"


def test_generated_table_is_on_one_page() -> None:
    named = Counter(name for page in pages() for name in PLACE.findall(page.read_text()))
    assert len(named) > 20
    others = {"modules", "client", "decisions"}
    assert named == Counter({f"table: {name}" for name in tables()} | others)


def test_generated_table_has_rows_or_transitions() -> None:
    assert [name for name, table in tables().items() if len(re.findall(r"\n[|-]|-->", table)) < 3] == []


def test_part_is_written_once_and_replaces_an_older_one() -> None:
    once = filled("before\n\n<!-- table: errors -->\n\nafter\n")
    assert once.startswith("before\n\n<!-- table: errors -->\n\n| error |")
    assert once.endswith("|\n\n<!-- end -->\n\nafter\n")
    older = re.sub(r"(?m)^\| .*\n", "", once)
    assert older != once
    assert filled(older) == filled(once) == once


def test_two_parts_of_a_page_stay_apart() -> None:
    page = filled("<!-- table: errors -->\n\nbetween\n\n<!-- table: log ids -->\n")
    assert page.count("\n\nbetween\n\n") == 1
    assert page.count("<!-- end -->") == 2
    assert filled(page) == page


def test_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="no such table"):
        filled("<!-- table: no such table -->\n")


def test_index_of_decisions_has_every_decision_once() -> None:
    listed = re.findall(r"^- \[\d+\. .*?\]\((\d{4}-[\w-]+\.md)\)", "\n".join(decisions()), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))


def test_decision_that_is_changed_is_changed_by_a_later_one() -> None:
    for page in DECISIONS.glob("[0-9]*.md"):
        status = page.read_text().splitlines()[2]
        assert re.match(
            r"\*\*Status\.\*\* (Accepted|Accepted, changed by .*|Superseded by .*)\. \*\*Subject", status
        ), page.name
        later = re.findall(r"\[(\d+)\]\((\d{4})-", status)
        assert all(int(shown) == int(file) > int(page.name[:4]) for shown, file in later), page.name
