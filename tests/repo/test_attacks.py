"""The page of attacks: the tests and measurements that it names exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bench import victim, victim_credit

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "tests" / "attacks.md").read_text()
NAMED = re.findall(r"`([^`]+)`", "".join(re.findall(r"\| ([^|]*) \|$", PAGE, re.MULTILINE)))


@pytest.fixture(scope="module")
def tests() -> tuple[str, str]:
    """The names of all files of tests, and the names of all tests, each between line feeds."""
    files = subprocess.run(["git", "ls-files", "tests"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    functions = [
        name
        for file in files.splitlines()
        if file.endswith(".py")
        for name in re.findall(r"def (test_\w+)", (ROOT / file).read_text())
    ]
    return f"\n{files}", "\n".join(("", *functions, ""))


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_evidence_of_an_attack_exists(tests: tuple[str, str], name: str) -> None:
    files, functions = tests
    if name == "make victim" or name in victim.EXPERIMENTS or name in victim_credit.NAMES:
        return
    if "/" in name:
        assert f"\n{name}" in files
    elif name.endswith(".py"):
        assert f"/{name}\n" in files
    else:
        assert f"\n{name}\n" in functions


def test_evidence_of_attacks_is_found() -> None:
    assert len(set(NAMED)) > 40
