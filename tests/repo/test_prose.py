"""The first words of docstrings: a noun or an imperative verb, never a question word."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_trees import nodes_of

SOURCES = Path(__file__).resolve().parents[2] / "src"
QUESTION = re.compile(r"(What|Who|Whom|Whose|Where|Whether|Which|How)\b")

FILES = sorted(SOURCES.rglob("*.py"))


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """The docstrings of modules, classes, functions and attributes, with their lines."""
    for node in nodes_of(text):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def questions(text: str) -> list[str]:
    return [f"{line}: {words[:60]}" for line, words in docstrings(text) if QUESTION.match(words)]


def test_docstring_begins_with_a_noun_or_a_verb() -> None:
    found = {str(path.relative_to(SOURCES)): questions(path.read_text()) for path in FILES}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_question_word_is_found_in_every_kind_of_docstring() -> None:
    text = '"""What it is."""\nx = 1\n"""Whether x."""\ndef f():\n    """How f."""\nclass C:\n    """Whatever."""\n'
    assert questions(text) == ["1: What it is.", "3: Whether x.", "5: How f."]
