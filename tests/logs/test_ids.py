"""Log ids: every record has one from the table, and the tables of docs/logs.md have them all."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from penstock.logs import ids
from penstock.logs.ids import CATALOGUE, INFO, LEVEL_NAMES, WARNING, level_named, level_of
from tests.support import log_id_table

ROOT = Path(__file__).resolve().parents[2]
ID = re.compile(r"\b(?:QUE|CHN|MST|VHT|BRK|CON|PST)-\d{4}\b")
NAMES = {each.name for each in CATALOGUE}


@cache
def sources() -> dict[str, str]:
    return {str(path): path.read_text() for path in (ROOT / "src" / "penstock").rglob("*.py")}


def test_log_ids_of_the_sources_are_in_the_table_once() -> None:
    assert len(NAMES) == len(CATALOGUE)
    used = {found for name, text in sources().items() if not name.endswith("logs/ids.py") for found in ID.findall(text)}
    assert used - NAMES == set()
    assert all(each.level in LEVEL_NAMES and each.meaning and each.action for each in CATALOGUE)


def test_log_id_constants_are_used_and_in_the_table() -> None:
    constants = {name: value for name, value in vars(ids).items() if isinstance(value, str) and ID.fullmatch(value)}
    assert set(constants.values()) <= NAMES
    text = "".join(text for name, text in sources().items() if not name.endswith("logs/ids.py"))
    assert [name for name in constants if not re.search(rf"\b{name}\b", text)] == []


def test_records_are_only_written_with_an_id() -> None:
    found = []
    for name, text in sources().items():
        if name.endswith(("logs/logger.py", "server/logs.py", "log_feed.py", "log_queue.py")):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr == "getLogger":
                found.append(name)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LogLine":
                if "'id'" not in ast.unparse(node.args[1]) and not isinstance(node.args[1], ast.Name):
                    found.append(f"{name} line {node.lineno}")
    others = ("http/connections.py", "server/otlp_collector.py")  # They set the loggers of libraries.
    client = "client/calls.py"  # The log of a program that uses the client.
    assert [each for each in found if not each.endswith((*others, client))] == []


def test_level_of_an_unknown_id_is_info() -> None:
    assert (level_of("PST-1015"), level_of("PST-9999"), level_of("")) == (WARNING, INFO, INFO)
    assert [level_named(name) for name in LEVEL_NAMES.values()] == list(LEVEL_NAMES)
    with pytest.raises(ValueError, match="'loud' is no level of the log; known are debug, info, warning, error"):
        level_named("loud")


def test_tables_of_the_log_have_every_id() -> None:
    assert set(re.findall(r"^\| (\w{3}-\d{4}) \|", log_id_table.tables()["log ids"], re.MULTILINE)) == NAMES
