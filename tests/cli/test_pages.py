"""The man page has every command, option and variable, and man takes it without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest

from penstock.cli import main
from penstock.cli.pages import man_page
from penstock.cli.target import TargetOption
from tests.support.brokers import PATIENCE, penstock_command


def commands(group: click.Group, path: str = "penstock") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def plain(page: str) -> str:
    """Return the page without its escapes."""
    for escape, letter in (("\\-", "-"), ("\\(aq", "'"), ("\\(ga", "`"), ("\\(ha", "^"), ("\\(ti", "~"), ("\\&", "")):
        page = page.replace(escape, letter)
    return re.sub(r"\\f[BIR]", "", page).replace("\\e", "\\")


def test_page_has_every_command_with_every_option_and_its_help() -> None:
    page = plain(man_page(main))
    parts = dict(re.findall(r"^\.PP\n(penstock [a-z -]+?)(?= [\[A-Z{(]|$)(.*?)(?=^\.PP\npenstock |^\.S[SH] |\Z)", page,
                            re.DOTALL | re.MULTILINE))  # fmt: skip
    for path, command in commands(main):
        assert path in parts, path
        assert " ".join((command.help or "").partition("\n\n")[0].split())[:60] in " ".join(parts[path].split())
        for parameter in command.params:
            hidden = isinstance(parameter, TargetOption) or (isinstance(parameter, click.Option) and parameter.hidden)
            if isinstance(parameter, click.Option) and not hidden:
                assert max(parameter.opts, key=len) in parts[path], (path, parameter.opts)
    for word in ("PENSTOCK_URL", "PENSTOCK_PROFILE", "NO_COLOR", "EXIT STATUS", "profiles.toml", "--cacert"):
        assert word in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_takes_the_page_without_a_warning() -> None:
    page = penstock_command("man").stdout
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=100n"], input=page, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "penstock queues list" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
