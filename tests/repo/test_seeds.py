"""The page "From Qpid and Artemis" has the sentences of the documents as their tests have them, and every name."""

from __future__ import annotations

import re

from tests.support import seed_tables


def test_documents_have_their_tests() -> None:
    assert {path.name for path in seed_tables.SEEDS.glob("test_*.py")} == seed_tables.DOCUMENTS.keys()
    assert len(list(seed_tables.sentences())) > 90


def test_difference_on_purpose_names_its_decision() -> None:
    purposes = [verdict for _, _, verdict, _ in seed_tables.sentences() if "on purpose" in verdict.lower()]
    assert len(purposes) > 5
    assert [verdict for verdict in purposes if not re.search(r"\(decision \d+\)", verdict)] == []
