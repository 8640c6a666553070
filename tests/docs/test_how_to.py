"""The guides: commands of all pages exist, programs are those of the examples, and sums are right.

tests/clients/test_how_to.py runs programs and commands.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from penstock.cli import main
from penstock_simulation.candidate import Candidate
from penstock_simulation.outcome import Outcome
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Source, Worker, Workload
from scripts.site_hooks import with_programs
from tests.support.walkthrough import steps

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs" / "how-to").glob("*.md")), ROOT / "docs" / "trouble.md"]
PLACEHOLDER = re.compile(r"\b(NAME|NUMBER|N)\b")
"""What a reader replaces in a command."""


def in_blocks(page: Path) -> list[str]:
    """Return the commands of `penstock` in the blocks of a page, without what follows them in the line."""
    text = re.sub(r"\\\n *", "", page.read_text())
    found = re.findall(r"^ *(?:\w*\$ +)?(?:\.venv/bin/)?(penstock [a-z].*)$", text, re.MULTILINE)
    return [re.split(r" \|\|? | > | &\Z| && |;| {2,}#", line)[0] for line in found]


def in_sentences(page: Path) -> list[str]:
    """Return the commands of `penstock` that the sentences of a page name."""
    found = re.findall(r"`(penstock [a-z][^`]*)`", page.read_text())
    return [each for each in found if not PLACEHOLDER.search(each)]


def parse(line: str) -> None:
    """Parse a command as the command line does, and carry nothing out. Raises click.ClickException."""
    words = shlex.split(line)[1:]
    context = click.Context(main, info_name="penstock")
    command: click.Command = main
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, words)
        assert name is not None
        assert found is not None
        command = found
    if not words:
        return  # A command that a sentence names.
    try:
        command.make_context(command.name, list(words), parent=context)
    except click.BadParameter as fault:
        if "does not exist" not in fault.message:  # a file or folder of the reader
            raise


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_sentences_of_a_guide_are_those_of_the_command_line(page: Path) -> None:
    for line in in_sentences(page):
        parse(line)


def test_commands_in_blocks_of_every_page_are_those_of_the_command_line() -> None:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", *sorted((ROOT / "examples").rglob("*.md"))]
    found = [line for page in pages for line in in_blocks(page)]
    assert len(found) > 80
    for line in found:
        parse(line)


def test_command_that_does_not_exist_is_found() -> None:
    with pytest.raises(click.ClickException):
        parse("penstock lost queues")
    with pytest.raises(click.ClickException):
        parse("penstock queues list --sideways")


def test_programs_of_guides_are_those_of_the_examples() -> None:
    quoted = [step.title for page in PAGES for step in steps(with_programs(page.read_text())) if step.kind == "python"]
    assert {"pika_orders.py", "aio_pika_orders.py", "dramatiq_orders.py"} <= set(quoted)


def test_log_ids_of_the_page_about_trouble_are_in_the_reference() -> None:
    named = set(re.findall(r"\b[A-Z]{3}-\d{4}\b", (ROOT / "docs" / "trouble.md").read_text()))
    assert len(named) > 8
    assert named - set(re.findall(r"\b[A-Z]{3}-\d{4}\b", (ROOT / "docs" / "logs.md").read_text())) == set()


def test_alerts_of_the_page_about_trouble_are_those_of_the_rules() -> None:
    named = set(re.findall(r"`(Penstock\w+)`", (ROOT / "docs" / "trouble.md").read_text()))
    rules = (ROOT / "deploy" / "prometheus" / "penstock-rules.yml").read_text()
    assert len(named) > 10
    assert named - set(re.findall(r"alert: (\w+)", rules)) == set()


def test_sums_of_the_sizing_guide_are_right() -> None:
    page = (ROOT / "docs" / "how-to" / "sizing.md").read_text()
    messages = (3_000 - 2_000) * 30
    octets = messages * (1_024 + 240)
    for number in (f"{messages:,} messages", f"{messages // 2_000} s", f"{octets:,} bytes"):
        assert number in page
    assert f"{octets / 0.8 / 1024 / 1024:.1f} MiB" in page


def burst(capacity: int) -> Outcome:
    """Simulate a tenth of the guide's example: 300 messages a second against 200, for 30 s."""
    workload = Workload((Source("steady", octets=1_024, rates=(300.0,)),), (Worker("constant", (200.0,)),), 30.0)
    return simulate(workload, Candidate(capacity_messages=capacity))


def test_formula_of_the_sizing_guide_agrees_with_the_code() -> None:
    page = (ROOT / "docs" / "how-to" / "sizing.md").read_text()
    enough, small = burst(3_750), burst(2_500)
    assert f"{enough.depth_messages:,} messages" in page
    assert f"{enough.depth:,} bytes" in page
    assert enough.depth_messages == pytest.approx((300 - 200) * 30, rel=0.01)
    assert f"for {100 * enough.blocked:.2f} % of the time, and with 2,500 for {100 * small.blocked:.0f} %" in page
