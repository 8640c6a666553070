"""The README works in the order in which it is read: its program and commands are run, and print what it shows."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from penstock.cli.common import wrapped
from penstock.testing import plugin
from tests.support.brokers import BrokerProcess
from tests.support.walkthrough import Step, Walkthrough, steps

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
LONGEST = 640
"""Words of the page, its commands included, without the targets of its links."""
COLUMNS = 80
JOB = re.compile(r"^\[\d+\] \d+\n", re.MULTILINE)
"""Line by which a shell names what goes on in the background."""
CLONE = ["python3 -m venv .venv && . .venv/bin/activate", "PENSTOCK_PURE=1 pip install ."]
"""Commands that whoever runs the tests has run in another way: scripts/prepare.py."""
PROMISE = "There is no release yet; with the first one `pip install penstock` will take a"


def unwrapped(step: Step) -> Step:
    """Return a block with the lines that a pipe gets, without those of the shell itself."""
    if step.kind == "python":
        return step
    return Step(step.kind, "", re.sub(r"\n {2}(?=\S)", " ", JOB.sub("", step.text)))


def test_readme_works_command_by_command(own_broker: BrokerProcess, tmp_path: Path) -> None:
    installation, *story = steps(README)
    assert README.count("\n```\n") == 1 + len(story), "every block is run"
    assert [command for command, _ in installation.commands()] == CLONE
    assert [step.kind for step in story] == ["python", "console", "console"]
    reader = Walkthrough(own_broker, tmp_path)
    try:
        for step in story:
            reader.take(unwrapped(step))
        reader.end()
    finally:
        reader.kill()


def test_program_of_the_readme_has_ten_lines() -> None:
    (program,) = [step.text for step in steps(README) if step.kind == "python"]
    assert len([line for line in program.splitlines() if line]) == 10


def test_session_of_the_readme_is_printed_as_by_a_terminal_of_80_columns() -> None:
    sessions = [step for step in steps(README) if step.title.startswith("Terminal")]
    assert len(sessions) == 2
    for session in sessions:
        lines = JOB.sub("", session.text).splitlines()
        whole = unwrapped(session).text.splitlines()
        assert "\n".join(wrapped(line, COLUMNS) for line in whole).splitlines() == lines
        assert len(session.text.splitlines()) < 24


def test_readme_is_short() -> None:
    assert len(re.sub(r"\]\([^)]*\)", "]", README).split()) <= LONGEST


def test_readme_promises_a_package_only_for_the_first_release() -> None:
    released = re.findall(r"^## v?\d[\w.]*(?! \(unreleased\))$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    said = " ".join(README.split())
    assert released or said.count("pip install penstock") == said.count(PROMISE) == 1


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_page_that_installs_penstock_says_how_before_the_first_release(page: Path) -> None:
    text = page.read_text()
    if page.name != "install.md" and re.search(r"""pip install\s+["']?penstock\b""", text):
        assert "install.md#before-the-first-release" in text


def test_figures_of_the_readme_are_within_a_tenth_of_the_recorded_ones() -> None:
    said = re.search(
        r"([\d.]+) million messages a second, RabbitMQ 3\.10 ([\d,]+); interpreted, ([\d,]+)", " ".join(README.split())
    )
    assert said is not None
    ours, peer, interpreted = float(said[1]) * 1e6, *(float(said[each].replace(",", "")) for each in (2, 3))
    rows = json.loads((ROOT / "bench" / "recorded.json").read_text())["rows"]
    (best,) = [row["best"] for row in rows if (row["protocol"], row["scenario"]["key"]) == ("amqp091", "core")]
    rates = [best[form]["rate"] for form in ("compiled", "rabbitmq", "interpreted")]
    assert rates == pytest.approx([ours, peer, interpreted], rel=0.1)


def test_fixture_that_the_readme_names_exists() -> None:
    (named,) = re.findall(r"`def test_\w+\((\w+)\):`", README)
    assert hasattr(plugin, named)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "penstock.testing.plugin" in project["project"]["entry-points"]["pytest11"].values()


def test_targets_of_make_that_the_readme_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"demo", "test"} <= named <= targets
