"""The documents: links lead somewhere, decisions that are named exist, and sentences are short."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.pages import purpose
from scripts.site_hooks import DOCUMENTS as DOCUMENTS_OF_SITE
from scripts.site_hooks import with_programs
from tests.repo.test_glossary import BANNED_NAMES, BANNED_WORDS
from tests.support.site_navigation import listed_pages
from tests.support.source_trees import tree_of

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = ROOT / "docs" / "decisions"
GLOSSARY = ROOT / "docs" / "inside" / "glossary.md"
OF_CONTRIBUTORS = [ROOT / "tests" / name for name in ("README.md", "attacks.md", "bounds.md", "checklists/README.md")]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *OF_CONTRIBUTORS,
    ROOT / "bench" / "README.md",
    ROOT / "bench" / "costs.md",
    ROOT / "compat" / "README.md",
    ROOT / "requirements" / "README.md",
]
SOURCES = [path for folder in ("src", "tests", "scripts", "bench") for path in sorted((ROOT / folder).rglob("*.py"))]
LONGEST_SENTENCE = 30
FENCE = re.compile(r"^```.*?^```[^\n]*$", re.DOTALL | re.MULTILINE)
PACKAGE = ROOT / "src" / "penstock"
ARCHITECTURE = (ROOT / "docs" / "inside" / "architecture.md").read_text()
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILES_OF_OTHERS = {"tests/test_rabbitmq.py", "t/integration/test_py_amqp.py", "t/integration/test_rmq.py"}
"""Files in the test suites of Dramatiq, kombu and py-amqp (docs/inside/compatibility.md)."""
NAMED = re.compile(r"\bdecisions?\s+(\d+)(?:\s+and\s+(\d+))?", re.IGNORECASE)
DECISION_LINK = re.compile(r"\[decision\s+(\d+)\]\([^)\s]*?(\d{4})-[^)\s]*\)", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])[*)\"]*\s+")
FILE_NAMED = re.compile(r"decisions/(\d{4}[\w-]*)")


NAMES_IN_LOWER_CASE = {"aiormq", "amqplib", "kombu", "pika", "uamqp", "zopfli"}
"""What a sentence may begin with besides a capital."""


def text_of(document: Path) -> str:
    """Return a document with the programs that its page of the site has."""
    return with_programs(document.read_text())


def without_code(text: str) -> str:
    """Remove the fenced blocks of a document."""
    return FENCE.sub("\n", text)


def anchor(heading: str) -> str:
    """Return the anchor that a Markdown renderer derives from a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", without_code(text_of(path)), re.MULTILINE)}


def is_dead(document: Path, link: str) -> bool:
    """Tell whether a relative link has no file, or no heading in that file."""
    if re.match(r"[a-z]+:", link):
        return False
    path, _, fragment = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    return not target.exists() or bool(fragment and fragment not in anchors(target))


def blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items, headings and table cells of a document."""
    block: list[str] = []
    for line in [*without_code(text).splitlines(), ""]:
        stripped = line.strip()
        if not stripped or stripped.startswith(("|", "#", "- ", "* ")) or re.match(r"\d+\. ", stripped):
            yield " ".join(block)
            block = []
        if stripped.startswith("|"):
            yield from stripped.strip("|").split("|")
        elif stripped.startswith("#"):
            yield stripped
        elif stripped:
            block.append(stripped)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a document; code in line and a link's text count as what they show."""
    for block in blocks(text):
        shown = LINK.sub(lambda found: found[0].partition("](")[0], re.sub(r"`[^`]*`", "CODE", block))
        yield from SENTENCE_END.split(shown)


def dead_decisions(text: str) -> list[str]:
    """Return the decisions that a text names by number or file and that do not exist."""
    there = {path.stem for path in DECISIONS.glob("[0-9]*.md")}
    numbers = {int(name[:4]) for name in there}
    named = [number for found in NAMED.finditer(text) for number in found.groups() if number]
    return [number for number in named if int(number) not in numbers] + [
        name for name in FILE_NAMED.findall(text) if name not in there
    ]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_relative_links_of_a_document_are_alive(document: Path) -> None:
    links = LINK.findall(without_code(text_of(document)))
    assert [link for link in links if is_dead(document, link)] == []


def test_documents_and_sources_name_only_decisions_that_exist() -> None:
    dead = {name_of(path): dead_decisions(text_of(path)) for path in [*DOCUMENTS, *SOURCES]}
    assert {name: found for name, found in dead.items() if found} == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_link_of_a_decision_leads_to_the_one_of_its_number(document: Path) -> None:
    links = DECISION_LINK.findall(text_of(document))
    assert [(shown, file) for shown, file in links if int(shown) != int(file)] == []


def test_changelog_repeats_no_long_sentence() -> None:
    long = Counter(each for each in sentences((ROOT / "CHANGELOG.md").read_text()) if len(each.split()) > 8)
    assert [sentence for sentence, times in long.items() if times > 1] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_lines_of_a_document_do_not_go_on_after_an_ended_sentence(document: Path) -> None:
    lines = without_code(text_of(document)).splitlines()
    after_an_end = [line.strip() for before, line in pairwise(lines) if re.search(r"[a-z`)]\.$", before)]
    begun = [line for line in after_an_end if re.match(r"[a-z]", line) and line.split()[0] not in NAMES_IN_LOWER_CASE]
    assert begun == []


def test_decisions_are_numbered_in_order() -> None:
    pages = sorted(DECISIONS.glob("[0-9]*.md"))
    titles = [page.read_text().splitlines()[0] for page in pages]
    assert [int(title.removeprefix("# ").partition(".")[0]) for title in titles] == [
        int(page.name[:4]) for page in pages
    ]
    assert len({page.name[:4] for page in pages}) == len(pages)


def methods() -> Iterator[str]:
    """Yield every method and function of the package as `Class.method` and `module.function`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in tree_of(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield from (f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))
            elif isinstance(node, ast.FunctionDef):
                yield f"{path.stem}.{node.name}"


@pytest.mark.parametrize("package", ["penstock", "penstock_simulation", "pyspark_amqp", "pyspark_penstock"])
def test_module_docstring_begins_with_the_purpose(package: str) -> None:
    said = {path: purpose(path) for path in sorted((ROOT / "src" / package).rglob("*.py"))}
    assert len(said) > 5
    assert [name_of(path) for path, sentence in said.items() if not 2 < len(sentence.split()) <= LONGEST_SENTENCE] == []
    twice = Counter(sentence for path, sentence in said.items())
    assert [sentence for sentence, times in twice.items() if times > 1] == []


def test_paths_of_a_publish_and_a_delivery_name_functions_that_exist() -> None:
    part = ARCHITECTURE.partition("## The path of one publish")[2].partition("## Consumers")[0]
    named = set(re.findall(r"`(\w+\.\w+)`", part))
    assert len(named) > 20
    assert named - set(methods()) - {"basic.publish", "basic.ack"} == set()


def test_log_ids_of_sources_and_documentation_are_equal() -> None:
    sources = "".join(path.read_text() for path in sorted(PACKAGE.rglob("*.py")))
    written = set(re.findall(r'"(?:\[[^"]*)?((?:PST-1|QUE-1|CHN-1|MST-1|VHT-1)\d{3})', sources))
    texts = (ROOT / "docs" / "inside" / "log-texts.md").read_text().partition("## Bounds of the log")[0]
    documented = set(re.findall(r"\b(?:PST|QUE|CHN|MST|VHT)-\d{4}\b", texts))
    made_of_a_prefix = {"QUE-1003", "QUE-1004", "PST-1003", "PST-1004"}
    assert written | made_of_a_prefix == documented


def test_cells_of_the_memory_bounds_have_at_most_25_words() -> None:
    pages = (ROOT / "docs" / "inside" / "memory.md", ROOT / "tests" / "bounds.md")
    rows = [line for page in pages for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [cell for row in rows for cell in LINK.sub("LINK", row).strip("|").split("|")]
    assert len(cells) > 200
    assert [cell for cell in cells if len(cell.split()) > 25] == []


def test_files_that_the_guide_for_contributors_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text() + (ROOT / "tests" / "README.md").read_text()
    named = re.findall(r"`((?:[\w]+/)+[\w]*(?:\.py)?)`", text)
    assert len(named) > 15
    assert [path for path in named if not ((ROOT / path).exists() or (PACKAGE / path).exists())] == []


def terms_of_sources() -> list[tuple[str, str, str]]:
    """Return the terms of the glossary of the sources, each with its meaning and its file."""
    return re.findall(r"^\| (.+?) \| (.+?) \| `([\w/]+\.py)` \|$", GLOSSARY.read_text(), re.MULTILINE)


def test_glossary_of_the_sources_is_alphabetical_and_names_files_that_exist() -> None:
    terms = terms_of_sources()
    assert len(terms) > 100
    assert [term for term, _, _ in terms] == sorted((term for term, _, _ in terms), key=str.lower)
    assert [path for _, _, path in terms if not (PACKAGE / path).exists()] == []


def test_glossary_of_users_has_terms_of_the_sources_with_the_same_meaning() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)[1:]
    assert len(terms) > 40
    assert [term for term, _ in terms] == sorted((term for term, _ in terms), key=str.lower)
    assert set(terms) - {(term, meaning) for term, meaning, _ in terms_of_sources()} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_sentences_of_a_document_have_at_most_30_words(document: Path) -> None:
    found = list(sentences(text_of(document)))
    assert found
    assert [sentence for sentence in found if len(sentence.split()) > LONGEST_SENTENCE] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_python_files_that_a_document_names_exist(document: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)[`:]", without_code(text_of(document))))
    assert [
        path for path in sorted(named - FILES_OF_OTHERS) if not ((ROOT / path).exists() or (PACKAGE / path).exists())
    ] == []


def test_glossary_has_every_banned_word() -> None:
    part = GLOSSARY.read_text().partition("## Banned words")[2].partition("Reviews also")[0]
    words = {word for row in re.findall(r"^\| (.+?) \|", part, re.MULTILINE) for word in row.split(", ")}
    assert words - {"word"} == BANNED_WORDS | BANNED_NAMES


def test_navigation_of_the_site_has_every_page_once() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    decisions = {name for name in pages if re.match(r"decisions/\d", name)}
    assert sorted(pages - decisions | set(DOCUMENTS_OF_SITE.values())) == sorted(listed_pages()), (
        "add it to `nav` in mkdocs.yml"
    )
