"""Parameters of commands that the annotations of a function say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

from penstock.cli.parameters import command, option
from penstock.settings.kind import whole


@command("probe")
def probe(
    name: str,
    words: Annotated[tuple[str, ...], option(metavar="[WORD]...", required=False)],
    loud: Annotated[bool, "Be loud."],
    count: Annotated[int, option("Stop after COUNT.", option="-n --count", kind=whole(1), default=7)],
    limit: Annotated[int | None, "Show at most so many."],
    headers: Annotated[tuple[str, ...], option("Add a header.", "NAME=VALUE", "--header")],
    target: Annotated[Path, option("Write into DIR.", "DIR", "--to", default=...)],
) -> None:
    click.echo(repr((name, words, loud, count, limit, headers, target)))


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("a --to x", ("a", (), False, 7, None, (), Path("x"))),
        (
            "a b c --loud -n 2 --limit 3 --header p=1 --header q=2 --to x",
            ("a", ("b", "c"), True, 2, 3, ("p=1", "q=2"), Path("x")),
        ),
    ],
)
def test_parameters_have_the_types_of_their_annotations(line: str, values: tuple[object, ...]) -> None:
    done = CliRunner().invoke(probe, line.split())
    assert (done.output, done.exit_code) == (f"{values!r}\n", 0)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--to x", "Missing argument 'NAME'"),
        ("a", "Missing option '--to'"),
        ("a --to x -n 0", "--count must be a whole number from 1, not '0'"),
        ("a --to x --limit many", "--limit must be a whole number, not 'many'"),
    ],
)
def test_parameters_refuse_values_that_their_annotations_exclude(line: str, problem: str) -> None:
    done = CliRunner().invoke(probe, line.split())
    assert done.exit_code == 2
    assert problem in done.output


def test_parameters_are_in_the_help_in_the_order_of_the_function() -> None:
    said = CliRunner().invoke(probe, ["--help"]).output
    lines = ("probe [OPTIONS] NAME [WORD]...", "--loud", "-n, --count", "--limit", "--header NAME=VALUE", "--to DIR")
    places = [said.index(line) for line in lines]
    assert places == sorted(places)
    assert "[default: 7; x>=1]" in said
