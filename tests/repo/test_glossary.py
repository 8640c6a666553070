"""The glossary of identifiers and texts: one name for one meaning.

Other brokers' words for our states do not come into our sources, and neither do names that say nothing or that mean
several things.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_trees import nodes_of

SOURCES = Path(__file__).resolve().parents[2] / "src"

# A producer is blocked, a confirmation withheld, a socket paused, a publish held; a gate is open or closed; the
# thresholds are stop and resume. What other brokers call them is known to one package only.
FOREIGN = re.compile(
    r"throttl|\bstall(s|ed|ing)?\b|flow[ _-](on|off)\b|watermark|\b(soft|hard)[ _-]limit", re.IGNORECASE
)
RABBITMQS = re.compile(r'"rabbitmq_alarms_\w+"')
"""Names of families that other brokers' dashboards ask for."""
# Words without a meaning of their own, or with several: docs/inside/glossary.md has the terms instead.
BANNED_WORDS = frozenset(
    ("told", "untold", "said", "unsaid", "kept", "keeper", "keeping", "thing", "things", "bury", "buried", "ghost",
     "mortal", "anew", "stands", "whose")
)  # fmt: skip
BANNED_NAMES = frozenset(("let_go", "stand_by"))
ALIASES = SOURCES / "penstock" / "settings"
ALL_FILES = sorted(SOURCES.rglob("*.py"))
FILES = [path for path in ALL_FILES if ALIASES not in path.parents]


def test_source_file_speaks_our_words() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{number}: {line}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FOREIGN.search(RABBITMQS.sub("", line))
    ]
    assert found == []


def definitions(text: str) -> Iterator[str]:
    """The names of functions, classes and attributes that a source defines."""
    for node in nodes_of(text):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def is_banned(name: str) -> bool:
    words = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    return name in BANNED_NAMES or not BANNED_WORDS.isdisjoint(words)


def test_definition_has_a_name_with_one_meaning() -> None:
    found = {(str(path.relative_to(SOURCES)), name) for path in ALL_FILES for name in definitions(path.read_text())}
    assert sorted((path, name) for path, name in found if is_banned(name)) == []


def test_banned_word_is_found_in_functions_classes_and_attributes() -> None:
    text = "class KeptRows: pass\ndef let_go(): pass\nrow.is_told = 1\nasync def unfold(kept): pass\n"
    assert [name for name in definitions(text) if is_banned(name)] == ["KeptRows", "let_go", "is_told"]
