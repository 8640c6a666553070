"""The first words of docstrings: a noun or an imperative verb, never a question word."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"
QUESTION = re.compile(r"(What|Who|Whom|Whose|Where|Whether|Which|How)\b")

FILES = sorted(SOURCES.rglob("*.py"))


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """The docstrings of modules, classes, functions and attributes, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def questions(text: str) -> list[str]:
    return [f"{line}: {words[:60]}" for line, words in docstrings(text) if QUESTION.match(words)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_docstring_begins_with_a_noun_or_a_verb(path: Path) -> None:
    assert questions(path.read_text()) == []


def test_question_word_is_found_in_every_kind_of_docstring() -> None:
    text = '"""What it is."""\nx = 1\n"""Whether x."""\ndef f():\n    """How f."""\nclass C:\n    """Whatever."""\n'
    assert questions(text) == ["1: What it is.", "3: Whether x.", "5: How f."]
