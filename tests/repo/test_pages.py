"""Tables that are made when the site is built: every page names one that is made, and each is on one page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.page_tables import PLACE, tables, with_tables

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_table_that_is_made_is_on_one_page() -> None:
    named = Counter(name for page in DOCS.rglob("*.md") for name in PLACE.findall(page.read_text()))
    assert len(named) > 20
    assert named == Counter(tables().keys())


def test_every_table_has_rows_or_transitions() -> None:
    assert [name for name, table in tables().items() if table.count("\n|") + table.count("-->") < 3] == []


def test_place_of_an_unknown_table_is_an_error() -> None:
    assert with_tables("<!-- table: errors -->\n").startswith("| error |")
    with pytest.raises(KeyError, match="no such table"):
        with_tables("<!-- table: no such table -->\n")
