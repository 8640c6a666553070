"""The tables of docs/how-to/from-qpid-and-artemis.md: names of settings, and sentences with their tests.

Names come from `settings.table`,
sentences and verdicts from the docstrings in tests/seeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.errors import PreconditionFailed
from penstock.settings.read import setting_named
from penstock.settings.table import (
    ALL_ALIASES,
    FOREIGN_BYTES,
    JAVAS_CAPACITY,
    NEGATIVE_IS_NONE,
    OPENS_BELOW,
    SCOPES,
    WHOLE_RATES,
    ZERO_IS_NONE,
)
from tests.support.generated_parts import ROOT, documented_tests, escaped, table

SEEDS = ROOT / "tests" / "seeds"
BROKERS = {"Qpid C++": "qpid", "Broker-J": "java", "Artemis": "artemis"}
"""Names of the brokers, each with its attribute of `settings.table.Setting`."""
DOCUMENTS = {
    "test_qpid_cpp.py": "Producer Flow Control, of Qpid C++ and MRG",
    "test_artemis.py": "Flow Control, of Artemis",
    "test_qpid_java.py": "Producer Flow Control, of the Qpid Java broker",
    "test_tactical_flow_control.py": "AMQP0-9 Tactical Producer Flow Control",
}
"""Titles of the documents, by the files of their tests."""
VERDICT = re.compile(r"^('.*?): ((?:yes|on purpose\b).*)$")


def scopes_of(name: str) -> list[str]:
    """Return the scopes that take a name."""
    found = []
    for scope in SCOPES:
        try:
            setting_named(scope, name)
        except PreconditionFailed:
            continue
        found.append(scope)
    return found


def special_values(name: str) -> str:
    """Return what is read by this name as it is there, and not as by our own name."""
    found = []
    if name in ZERO_IS_NONE:
        found.append("0 is none")
    if name in NEGATIVE_IS_NONE:
        found.append("-1 is none")
    if name in JAVAS_CAPACITY:
        found.append("the stop, and the resume; the capacity is a quarter above it")
    if name in FOREIGN_BYTES:
        found.append("properties and bodies count")
    if name.startswith("qpid.flow_resume") or name in OPENS_BELOW:
        found.append("opens below")
    if name.startswith("max-size-"):
        found.append("the gate closes at it")
    if name in WHOLE_RATES:
        found.append("whole numbers only")
    return "; ".join(found)


def names_of(broker: str) -> str:
    """Return the table of a broker's names."""
    cells = [
        (f"`{alias.name}`", f"`{alias.ours}`", special_values(alias.name))
        for alias in ALL_ALIASES
        if alias.broker == broker
    ]
    return table(("there", "here", "read as there"), *cells)


def sentences() -> Iterator[tuple[str, str, str, str]]:
    """Yield the file, sentence, verdict and name of each test of a document."""
    for file in DOCUMENTS:
        for name, docstring in documented_tests(SEEDS / file):
            found = VERDICT.match(docstring)
            assert found, f"{file}: {name} does not begin with a sentence and a verdict"
            yield file, found[1], found[2], name


def sentence_table(file: str) -> str:
    """Return the table of a document's sentences; tests of one sentence and verdict are one row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for of, sentence, verdict, name in sentences():
        if of == file:
            rows.setdefault((sentence, verdict), []).append(f"`{name}`")
    cells = [(escaped(sentence), verdict, ", ".join(names)) for (sentence, verdict), names in rows.items()]
    return table(("sentence", "here", "test"), *cells)


def tables() -> dict[str, str]:
    """Return all tables by their names."""
    parts = {f"names of {name}": names_of(broker) for name, broker in BROKERS.items()}
    return parts | {f"sentences of {file}": sentence_table(file) for file in DOCUMENTS}
