"""The README works in the order in which it is read: each command of its block is run, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.brokers import BrokerProcess
from tests.support.walkthrough import Walkthrough, steps

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
LONGEST = 500
"""Words of the page, its commands included, without the targets of its links."""


def test_readme_works_command_by_command(own_broker: BrokerProcess, tmp_path: Path) -> None:
    (block,) = steps(README)
    assert README.count("\n```\n") == 1, "every block is run"
    assert 4 <= len(list(block.commands())) <= 6
    reader = Walkthrough(own_broker, tmp_path)
    try:
        reader.take(block)
        reader.end()
    finally:
        reader.kill()


def test_readme_is_short() -> None:
    assert len(re.sub(r"\]\([^)]*\)", "]", README).split()) <= LONGEST


def test_readme_promises_no_package_before_there_is_a_release() -> None:
    released = re.findall(r"^## v?(\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released or "pip install" not in README


def test_targets_of_make_that_the_readme_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"setup", "demo", "test"} <= named <= targets
