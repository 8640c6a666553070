"""Write the parts of pages that follow from the code: tables, the list of modules, the client's calls, the decisions.

Such a part is between `<!-- NAME -->` and `<!-- end -->`. `make pages` writes all of them, and
tests/repo/test_pages.py compares them with the code.
"""

from __future__ import annotations

import ast
import copy
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(
    r"^<!-- (table: [^>\n]+|modules|client|decisions) -->$(?:(?:\n(?!<!-- ).*)*\n<!-- end -->$)?", re.MULTILINE
)
"""The place of a part, with what it has now."""
STATUS = re.compile(r"^\*\*Status\.\*\* (.+)\. \*\*Subject\.\*\* (.+)\.$", re.MULTILINE)
"""The line of a decision below its title."""
SUBJECTS = (
    *(
        "Flow control",
        "Credit",
        "Queues and messages",
        "Settings and policies",
        "Storage",
        "Fairness of work and memory",
    ),
    *("Protocols", "Access and TLS", "Spark", "The client", "Management", "Cluster", "Migration"),
    "Sources, builds and tests",
)
"""Subjects of decisions, in the order of their index."""
CLIENT_CALLS = ("topology", "requests", "control_operations", "cursors", "pages", "operations", "handles")
"""Modules of the client with the functions of its calls."""
CLIENT_CLASSES = (
    *(("aio", "Connection"), ("aio", "Publisher"), ("aio", "Receiver"), ("aio", "Transaction")),
    *(("aio", "Events"), ("engine/events", "Event"), ("engine/messages", "Message")),
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


def pages() -> list[Path]:
    """Return the pages that may have such parts."""
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "checklists" / "README.md"]


def filled(page: str) -> str:
    """Return a page with all its parts as they follow from the code. Raises KeyError for one that nothing makes."""
    return PLACE.sub(lambda found: f"<!-- {found[1]} -->\n\n{part(found[1])}\n\n<!-- end -->", page)


def part(name: str) -> str:
    """Return a part by its name. Raises KeyError."""
    if name.startswith("table: "):
        made: str = tables()[name.removeprefix("table: ")]
        return made
    return "\n".join({"modules": module_list, "client": client_classes, "decisions": decisions}[name]()).strip()


@cache
def tables() -> dict[str, str]:
    """Return the tables by their names; their makers are among the tests."""
    for folder in (str(ROOT), str(ROOT / "src")):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    found: dict[str, str] = importlib.import_module("tests.support.page_tables").tables()
    return found


def decisions() -> Iterator[str]:
    """Yield the lines of the index of decisions by subject. Raises ValueError for a page without status and subject."""
    by_subject: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
    for page in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        text = page.read_text()
        found = STATUS.search(text)
        if found is None or found[2] not in by_subject:
            raise ValueError(
                f"{page.name} has no line `**Status.** Accepted. **Subject.** SUBJECT.` below its title; "
                f"subjects are {', '.join(SUBJECTS)}"
            )
        status = found[1][:1].lower() + found[1][1:]
        remark = "" if status == "accepted" else f": {status.removeprefix('accepted, ')}"
        by_subject[found[2]].append(f"- [{text.splitlines()[0].removeprefix('# ')}]({page.name}){remark}")
    for subject, lines in by_subject.items():
        yield from ("", f"## {subject}", "", *lines)


def module_list() -> Iterator[str]:
    """Yield the lines of the list of modules: a section a package, a row a module."""
    for package in sorted((ROOT / "src").rglob("__init__.py")):
        yield from ("", f"## `{package.parent.relative_to(ROOT / 'src')}`", "", purpose(package), "")
        modules = [path for path in sorted(package.parent.glob("*.py")) if path != package]
        if modules:
            yield from ("| module | |", "|---|---|")
            yield from (f"| `{path.name}` | {purpose(path).replace('|', chr(92) + '|')} |" for path in modules)


def client_classes() -> Iterator[str]:
    """Yield the lines of the classes of the client: a section each, with the calls that have a docstring."""
    folder = ROOT / "src" / "penstock" / "client"
    shared = [node for name in CLIENT_CALLS for node in ast.parse((folder / f"{name}.py").read_text()).body]
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
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if each is not None:
            each.annotation = None  # As in Python's own reference: the text says what each of them is.
    yield from (f"### {name}", "", f"`{name}({ast.unparse(given)}){result}`", "", _short(text), "")


def _short(text: str) -> str:
    """Return the first paragraph of a docstring, and the sentences about errors; `help()` has the rest."""
    first, *others = (" ".join(part.split()) for part in text.split("\n\n"))
    sentences = [each for part in others for each in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", part)]
    return " ".join([first, *(each for each in sentences if each.startswith("Raises"))])


def purpose(module: Path) -> str:
    """Return the first sentence of a module's docstring; empty if it has none."""
    found = DOCSTRING.match(module.read_text())
    first = found[1].partition("\n\n")[0] if found else ""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(first.split()))[0]


def main() -> None:
    """Write all pages, and name those that have changed."""
    for page in pages():
        text = page.read_text()
        if (made := filled(text)) != text:
            page.write_text(made)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
