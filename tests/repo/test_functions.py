"""Functions are no longer than a page, so that each can be read at once."""

import ast
from pathlib import Path

import pytest

from tests.support.source_trees import parsed

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "bench" / "output"
"""Results of measurements, with copies of what ran."""
LONGEST = 60


@pytest.mark.slow
def test_function_is_no_longer_than_a_page() -> None:
    found = []
    for folder in ("src", "scripts", "tests", "bench", "demo", "compat"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if OUTPUT in path.parents:
                continue
            for node in ast.walk(parsed(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    lines = node.end_lineno - node.lineno + 1
                    found += [(str(path.relative_to(ROOT)), node.name, lines)] if lines > LONGEST else []
    assert found == []
