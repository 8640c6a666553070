"""Hooks of MkDocs: what the pages of docs/ need to be a site as well as pages in a repository.

A link to a file outside of docs/ leads to nowhere in the site, so its text stays without the link. The documents of the
repository's root are pages of the site as well, and the decisions are a section of the navigation without being listed
in mkdocs.yml. Tables that follow from the code are made here, as are the list of modules and the calls of the client,
of their docstrings. Programs come from the examples. Pages with diagrams load Mermaid from the site itself:
the theme would fetch it from elsewhere.
"""

from __future__ import annotations

import ast
import copy
import importlib
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents of the root, and the pages that they become."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
PROGRAM = re.compile(r"^\[`([\w.]+)`\]\((?:\.\./)*(examples/[\w/.]+)\)$", re.MULTILINE)
"""A link that is a paragraph of its own: the place of a program of the examples."""
DECISIONS = "<!-- decisions -->"
"""The place of the list of decisions in its page."""
TABLE = re.compile(r"^<!-- table: .+ -->$", re.MULTILINE)
"""The place of a table that is made of the code."""
MERMAID = "vendor/mermaid.tiny.js"
"""The script that draws diagrams, as a file of the site."""
MODULES = "<!-- modules -->"
"""The place of the list of modules in its page."""
CLIENT = "<!-- client -->"
"""The place of the classes of the client in their page."""
CLIENT_CLASSES = (
    *(("aio", "Connection"), ("aio", "Publisher"), ("aio", "Receiver"), ("aio", "Transaction")),
    *(("aio", "Events"), ("engine/terms", "Event"), ("engine/messages", "Message")),
    *(("engine/receiver", "Delivery"), ("engine/outcomes", "Receipt"), ("engine/window", "SendResult")),
    *(("engine/outcomes", "Blocked"), ("answers", "Why"), ("answers", "WhyGate"), ("answers", "WhyProducer")),
)
"""Modules and names of the classes that users of the client have in their hands."""
OF_SHELLS = {
    "forked",
    "run",
    "core",
    "connection",
    "entering",
    "leaving",
    "subject",
    "look",
    "after",
    "connected",
    "received",
    "congested",
    "lost",
    "begin",
    "answer",
    "forget",
}
"""Methods of a connection that its parts call, not its users."""
TYPE_VARIABLE = re.compile(r"(?<=[a-z])T$")
"""Last letter of the name of a type that is another one in each shell."""
DOCSTRING = re.compile(r'\s*r?"""(.*?)"""', re.DOTALL)
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of all decisions into the section of this name; it is the last one."""
    assert config.nav is not None
    pages = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    config.nav[-1] = {"Decisions": [f"decisions/{name}" for name in ("README.md", *pages)]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root to the pages."""
    for name, page in DOCUMENTS.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links lead to pages of the site."""
    source = next((name for name, made in DOCUMENTS.items() if made == page.file.src_uri), None)
    place = source or posixpath.join("docs", page.file.src_uri)
    markdown = with_programs(with_tables(markdown))
    markdown = markdown.replace(MODULES, "\n".join(module_list())) if MODULES in markdown else markdown
    markdown = markdown.replace(DECISIONS, "\n".join(decisions())) if DECISIONS in markdown else markdown
    markdown = markdown.replace(CLIENT, "\n".join(client_classes())) if CLIENT in markdown else markdown
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lambda found: _in_site(found, place, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def with_tables(markdown: str) -> str:
    """Return a page with the tables that follow from the code of this tree, whatever is installed.

    The source package has no tests, which the makers of the tables are among: its pages say where the tables are.
    """
    if not (ROOT / "tests").exists():
        return TABLE.sub("*This table is made in the repository, from the code and its tests.*", markdown)
    for folder in (str(ROOT), str(ROOT / "src")):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    made: str = importlib.import_module("tests.support.page_tables").with_tables(markdown)
    return made


def with_programs(markdown: str) -> str:
    """Return a page with the programs of the examples in place of the links to them."""
    return PROGRAM.sub(lambda found: f'```python title="{found[1]}"\n{(ROOT / found[2]).read_text()}```', markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Return a page that loads Mermaid if it has a diagram. The theme draws with it, in the colours of its palette."""
    if '<pre class="mermaid">' not in output:
        return output
    path = posixpath.relpath(MERMAID, posixpath.dirname(page.url) or ".")
    return output.replace("</head>", f'<script defer src="{path}"></script></head>', 1)


def module_list() -> Iterator[str]:
    """Yield the lines of the list of modules: a section a package, a row a module."""
    for package in sorted((ROOT / "src").rglob("__init__.py")):
        yield from ("", f"## `{package.parent.relative_to(ROOT / 'src')}`", "", purpose(package), "")
        modules = [path for path in sorted(package.parent.glob("*.py")) if path != package]
        if modules:
            yield from ("| module | |", "|---|---|")
            yield from (f"| `{path.name}` | {purpose(path).replace('|', chr(92) + '|')} |" for path in modules)


def decisions() -> Iterator[str]:
    """Yield the lines of the list of decisions: their titles as links to their pages."""
    for page in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        yield f"- [{page.read_text().splitlines()[0].removeprefix('# ')}]({page.name})"


def client_classes() -> Iterator[str]:
    """Yield the lines of the classes of the client: a section each, with the calls that have a docstring."""
    folder = ROOT / "src" / "penstock" / "client"
    shared = [
        *ast.parse((folder / "operations.py").read_text()).body,
        *ast.parse((folder / "handles.py").read_text()).body,
    ]
    functions = {node.name: node for node in shared if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in shared if isinstance(node, ast.ClassDef)}
    for module, name in CLIENT_CLASSES:
        body = ast.parse((folder / f"{module}.py").read_text()).body
        found = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
        yield from ("", f"## {name}", "", ast.get_docstring(found) or "", "")
        for part in _with_bases(found, classes):
            for node in part.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in OF_SHELLS:
                    yield from _call(node.name, node)
                elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
                    yield from _call(ast.unparse(node.targets[0]), functions[ast.unparse(node.value.args[0])])


def _with_bases(found: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """Yield a class and those that it has calls from."""
    yield found
    for base in found.bases:
        name = ast.unparse(base).partition("[")[0]
        if name in classes:
            yield from _with_bases(classes[name], classes)


def _call(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the lines of one call; none if it has no docstring or is not public."""
    text = ast.get_docstring(node)
    if name.startswith("_") or text is None:
        return
    given = copy.deepcopy(node.args)
    del (given.posonlyargs or given.args)[0]
    shown = node.returns
    if isinstance(shown, ast.Subscript) and ast.unparse(shown.value) == "Steps":
        shown = shown.slice
    text_of = "" if shown is None else ast.unparse(shown).replace("Pages[", "Iterator[")
    result = f" -> {TYPE_VARIABLE.sub('', text_of)}" if text_of else ""
    yield from (f"### {name}", "", "```python", f"{name}({ast.unparse(given)}){result}", "```", "", text, "")


def purpose(module: Path) -> str:
    """Return the first sentence of a module's docstring; empty if it has none."""
    found = DOCSTRING.match(module.read_text())
    first = found[1].partition("\n\n")[0] if found else ""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(first.split()))[0]


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
