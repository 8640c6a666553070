"""The page of checklists has the lines of their tests, and the tests that it names elsewhere exist."""

from __future__ import annotations

import re

from tests.support import checklist_tables
from tests.support.generated_parts import ROOT, documented_tests

ELSEWHERE = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_checklist_files_and_tests_are_on_the_page_once() -> None:
    files = [name for names in checklist_tables.FILES.values() for name in names]
    assert sorted(files) == sorted(path.name for path in checklist_tables.CHECKLISTS.glob("test_*.py"))
    tests = [name for broker in checklist_tables.FILES for _, _, name in checklist_tables.lines_of(broker)]
    assert len(tests) > 80
    assert len(tests) == len(set(tests)), "a name stands for one test"


def test_tests_of_other_folders_that_the_page_names_exist() -> None:
    named = ELSEWHERE.findall("".join(checklist_tables.tables().values()))
    assert len(named) > 8
    missing = [name for path, name in named if name not in dict(documented_tests(ROOT / path))]
    assert missing == []
