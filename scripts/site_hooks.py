"""Hooks of MkDocs: what the pages of docs/ need to be a site as well as pages in a repository.

A link to a file outside of docs/ leads to nowhere in the site, so its text stays without the link. The documents of the
repository's root are pages of the site as well, and the decisions are a section of the navigation without being listed
in mkdocs.yml. The search leaves out the part of the navigation for people who doubt or change the broker. Programs come
from the examples. Pages with diagrams load Mermaid from the site itself: the theme would
fetch it from elsewhere. scripts/pages.py writes the parts of pages that follow from the code.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    "CONTRIBUTING.md": "inside/contributing.md",
    "CHANGELOG.md": "inside/changelog.md",
    "bench/costs.md": "inside/costs.md",
    "tests/attacks.md": "inside/attacks.md",
    "tests/bounds.md": "inside/bounds.md",
    "tests/checklists/README.md": "inside/checklists.md",
}
"""Documents outside of docs/, and the pages that they become."""
INSIDE = "Inside"
"""The part of the navigation that is for people who doubt or change the broker, not for its users."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
PROGRAM = re.compile(r"^\[`([\w.]+)`\]\((?:\.\./)*(examples/[\w/.]+)\)$", re.MULTILINE)
"""A link that is a paragraph of its own: the place of a program of the examples."""
MERMAID = "vendor/mermaid.tiny.js"
"""The script that draws diagrams, as a file of the site."""
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of all decisions into the section of this name, the last one of the last part."""
    assert config.nav is not None
    pages = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    config.nav[-1][INSIDE][-1] = {"Decisions": [f"decisions/{name}" for name in ("README.md", *pages)]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside of docs/ to the pages."""
    for name, page in DOCUMENTS.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links lead to pages of the site. The search leaves out the pages that no user needs."""
    if any(section.title == INSIDE for section in page.ancestors):
        page.meta["search"] = {"exclude": True}
    source = next((name for name, made in DOCUMENTS.items() if made == page.file.src_uri), None)
    place = source or posixpath.join("docs", page.file.src_uri)
    markdown = with_programs(markdown)
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lambda found: _in_site(found, place, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def with_programs(markdown: str) -> str:
    """Return a page with the programs of the examples in place of the links to them."""
    return PROGRAM.sub(lambda found: f'```python title="{found[1]}"\n{(ROOT / found[2]).read_text()}```', markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Return a page that loads Mermaid if it has a diagram. The theme draws with it, in the colours of its palette."""
    if '<pre class="mermaid">' not in output:
        return output
    path = posixpath.relpath(MERMAID, posixpath.dirname(page.url) or ".")
    return output.replace("</head>", f'<script defer src="{path}"></script></head>', 1)


def _in_site(found: re.Match[str], place: str, page: str) -> str:
    """Return a link of a document at `place` in the repository as a link of its page in the site, or its text."""
    text, link = found.groups()
    path, mark, fragment = link.partition("#")
    if not path or re.match(r"[a-z]+:", link):
        return found[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
    in_site = DOCUMENTS.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
    if not in_site:
        return text
    return f"[{text}]({posixpath.relpath(in_site, posixpath.dirname(page) or '.')}{mark}{fragment})"
