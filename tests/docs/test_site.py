"""The documentation as a site: built strictly, with links that lead somewhere, and nothing fetched from elsewhere.

The short run has links and navigation of the documents themselves: tests/repo/test_documents.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from scripts.site_hooks import DOCUMENTS
from tests.support.console_browser import chromium
from tests.support.site_navigation import pages_of_users

ROOT = Path(__file__).resolve().parents[2]
PLACE = re.compile(r'\b(?:href|src)="([^"]*)"')
FETCHED = re.compile(r'<(?:script|img|iframe|link|source)\b[^>]*\b(?:href|src)="((?:https?:)?//[^"]*)"')
ID = re.compile(r'\bid="?([^"\s>]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, where a warning is an error; its folder."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, str]:
    """The pages of the site by their paths."""
    return {path: path.read_text() for path in sorted(site.rglob("*.html"))}


def is_dead(target: Path, fragment: str, ids: dict[Path, set[str]]) -> bool:
    if not target.exists():
        return True
    return bool(fragment) and not fragment.startswith("__") and fragment not in ids.get(target, set())


def dead(pages: dict[Path, str]) -> Iterator[tuple[str, str]]:
    """Yield the pages and those of their links that lead to no file, or to no place in it."""
    ids = {path: {unescape(found) for found in ID.findall(text)} for path, text in pages.items()}
    for page, text in pages.items():
        for link in sorted({unescape(found) for found in PLACE.findall(text)}):
            path, _, fragment = unquote(link).partition("#")
            if not re.match(r"[a-z]+:", link) and page.name != "404.html":
                target = (page.parent / path).resolve() if path and path != "." else page
                if is_dead(target / "index.html" if target.is_dir() else target, fragment, ids):
                    yield page.name, link


@pytest.mark.long
def test_site_has_a_page_for_every_document(site: Path) -> None:
    documents = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    expected = {path.with_suffix(".html") for path in documents if path.name != "README.md"}
    assert expected - made == set()
    assert {Path(page).with_suffix(".html") for page in DOCUMENTS.values()} | {Path("decisions/index.html")} <= made


@pytest.mark.long
def test_search_has_the_pages_of_users_and_none_of_those_inside(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert found == {str(Path(page).with_suffix(".html")) for page in pages_of_users()}


@pytest.mark.long
def test_site_has_no_dead_link(pages: dict[Path, str]) -> None:
    assert len(pages) > 100
    assert list(dead(pages)) == []


@pytest.mark.long
def test_site_fetches_nothing_from_elsewhere(site: Path, pages: dict[Path, str]) -> None:
    assert {found for text in pages.values() for found in FETCHED.findall(text)} == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\(\"?(?:https?:)?//[^)]*|@import[^;]*", styles) == []


@pytest.mark.long
def test_diagrams_are_drawn_with_a_script_of_the_site(site: Path, pages: dict[Path, str]) -> None:
    drawn = {path: text.count('<pre class="mermaid">') for path, text in pages.items() if 'class="mermaid"' in text}
    written = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md")).count("\n```mermaid\n")
    assert sum(drawn.values()) == written > 10
    assert {path for path, text in pages.items() if "mermaid.tiny.js" in text} == drawn.keys()
    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for path, count in drawn.items():
            page.goto(path.as_uri())
            pictures = page.locator("div.mermaid")
            pictures.nth(count - 1).wait_for()
            assert pictures.count() == count
            assert all(height > 100 for height in pictures.evaluate_all("all => all.map(one => one.clientHeight)"))
        assert [url for url in asked if not url.startswith(site.as_uri())] == []


@pytest.mark.long
def test_table_that_is_made_of_the_code_is_a_table(pages: dict[Path, str]) -> None:
    (amqp10,) = [text for path, text in pages.items() if path.match("inside/amqp10.html")]
    assert "<th>from AMQP 1.0</th>" in amqp10


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="there"></h1>')
    links = (
        '<a href="b.html#there"><a href="b.html#gone"><a href="gone.html"><a href="#gone"><a href="https://a.example">'
    )
    pages = {tmp_path / "a.html": links, tmp_path / "b.html": (tmp_path / "b.html").read_text()}
    (tmp_path / "a.html").write_text(links)
    assert [link for _, link in dead(pages)] == ["#gone", "b.html#gone", "gone.html"]
