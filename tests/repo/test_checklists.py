"""The page of checklists and the tests that it names say the same."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "checklists.md").read_text()
NAMED = re.compile(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`")


def functions_in(path: Path) -> set[str]:
    found = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {node.name for node in found if node.name.startswith("test_")}


def test_every_test_that_the_page_names_is_there_and_every_test_of_a_checklist_is_on_the_page() -> None:
    files = sorted((ROOT / "tests" / "checklists").glob("test_*.py"))
    there = [name for path in files for name in sorted(functions_in(path))]
    assert len(there) == len(set(there)), "a name stands for one test"
    assert {name for path, name in NAMED.findall(PAGE) if not path} == set(there)


def test_tests_of_other_folders_that_the_page_names_are_there() -> None:
    elsewhere = [(path, name) for path, name in NAMED.findall(PAGE) if path]
    assert [f"{path}::{name}" for path, name in elsewhere if name not in functions_in(ROOT / path)] == []


def test_every_line_of_a_checklist_has_a_test_or_says_why_not() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(rows) > 100
    assert [row for row in rows if len(row) != 2 or not all(cell.strip() for cell in row)] == []


def test_every_test_of_a_checklist_says_which_line_it_is() -> None:
    silent = []
    for path in sorted((ROOT / "tests" / "checklists").glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                said = ast.get_docstring(node) or ""
                if not said.startswith(("Qpid C++, ", "Broker-J, ", "Broker-J's client, ", "Artemis, ")):
                    silent.append(node.name)
    assert silent == []
