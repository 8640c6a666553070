"""Names of tests: subject, condition, result, with the subject first, so that a red line names the feature.

A name has at most 80 characters and does not begin with a pronoun, article, question word or preposition. It is unique
in its module or class, because pytest silently drops a test if a later test has the same name.
"""

import ast
import re
from collections import Counter
from pathlib import Path

from tests.support.source_trees import parsed

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests").rglob("test_*.py"))
LONGEST_NAME = 80
NO_SUBJECTS = (
    *("what", "who", "whoever", "whatever", "whose", "whom", "which", "how", "where", "when"),
    *("a", "an", "the", "it", "its", "they", "this", "that", "these", "those", "there", "one_of"),
    *("no", "not", "none", "nobody", "nothing", "only", "once", "never", "always", "even"),
    *("all", "any", "anybody", "anything", "both", "each", "either", "every", "everybody", "everything", "neither"),
    *("after", "as", "at", "before", "by", "during", "for", "from", "if", "of", "on", "to"),
    *("beyond", "our", "same", "until", "we", "while", "with", "without"),
)
"""Words that a name must not begin with. "why" is not one of them: it is also a command and an operation."""
NO_SUBJECT = re.compile(rf"test_({'|'.join(NO_SUBJECTS)})(_|$)")


def names_in(scope: ast.Module | ast.ClassDef) -> list[str]:
    """Return the names of the tests that a module or a class defines, in order."""
    functions = [node for node in scope.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node.name for node in functions if node.name.startswith("test_")]


def names_by_scope(text: str) -> list[list[str]]:
    """Return the names of tests in a source, by the module and the classes that define them."""
    module = parsed(text)
    return [names_in(scope) for scope in (module, *module.body) if isinstance(scope, ast.Module | ast.ClassDef)]


def faults(scopes: list[list[str]]) -> list[str]:
    """Return what is wrong with these names of tests, one sentence for each."""
    found = []
    for names in scopes:
        for name, times in Counter(names).items():
            if len(name) > LONGEST_NAME:
                found.append(f"{name} has {len(name)} characters, at most {LONGEST_NAME}: shorten it")
            if begun := NO_SUBJECT.match(name):
                found.append(f"{name} begins with '{begun[1]}': begin with the noun that the test is about")
            if times > 1:
                found.append(f"{name} is defined {times} times: only the last one runs")
    return found


def test_names_of_tests_begin_with_their_subject_and_are_short_and_unique() -> None:
    found, count = [], 0
    for path in FILES:
        scopes = names_by_scope(path.read_text())
        found += [f"{path.relative_to(ROOT)}: {fault}" for fault in faults(scopes)]
        count += sum(map(len, scopes))
    assert count > 6000
    assert found == []


def test_fault_of_a_name_is_described_with_its_correction() -> None:
    long = "test_queue_" + "x" * 70
    text = (
        f"def test_what_is_kept(): pass\nasync def {long}(): pass\ndef test_anything_goes(): pass\n"
        "def test_queue_is_full(): pass\nclass TestQueue:\n    def test_queue_is_full(self): pass\n"
        "    def test_queue_is_full(self): pass\n    def test_one_of(self): pass\n"
    )
    assert faults(names_by_scope(text)) == [
        "test_what_is_kept begins with 'what': begin with the noun that the test is about",
        f"{long} has 81 characters, at most 80: shorten it",
        "test_anything_goes begins with 'anything': begin with the noun that the test is about",
        "test_queue_is_full is defined 2 times: only the last one runs",
        "test_one_of begins with 'one_of': begin with the noun that the test is about",
    ]


def test_name_that_only_contains_such_a_word_is_no_fault() -> None:
    text = "def test_atomic_commit_is_whole(): pass\ndef test_notice_is_sent_to_all(): pass\ndef help_anybody(): pass\n"
    assert faults(names_by_scope(text)) == []
