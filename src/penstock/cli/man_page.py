"""Man page penstock(1), made from the commands themselves, so that it has all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import click

import penstock
from penstock.cli.common import OTHERS, SECTIONS, Commands, main, report_errors, writing

ENVIRONMENT: Final = (
    ("PENSTOCK_URL", "URL of the broker, which other users of the machine do not see."),
    ("PENSTOCK_PROFILE", "Name of a profile."),
    ("PENSTOCK_PROFILES", "File of the profiles, instead of the one below FILES."),
    ("NO_COLOR", "Print no colours, if it is not empty."),
)
FILES: Final = (("~/.config/penstock/profiles.toml", "Profiles: brokers by name. XDG_CONFIG_HOME counts."),)
EXIT: Final = (
    ("0", "Success."),
    ("1", "Refused, with one sentence on standard error."),
    ("2", "The command line is invalid."),
    ("130", "Interrupted by Ctrl-C."),
)


def man_page(group: click.Group) -> str:
    """Return the page in the language of man(7)."""
    context = click.Context(group, info_name="penstock", **group.context_settings)
    lines = [
        f'.TH PENSTOCK 1 "" "penstock {penstock.__version__}" "Penstock"',
        ".SH NAME",
        "penstock \\- run and operate a message broker that cannot be overrun",
        ".SH SYNOPSIS",
        ".B penstock",
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]...",
        ".SH DESCRIPTION",
        *_prose(group.help or ""),
        ".SH OPTIONS",
        *_options(group, context),
        ".SH COMMANDS",
    ]
    names = group.list_commands(context)
    placed = {name for section in SECTIONS.values() for name in section}
    for section, its in {**SECTIONS, OTHERS: [name for name in names if name not in placed]}.items():
        there = [name for name in its if name in names]
        if there:
            lines.append(f'.SS "{section}"')
            for name in there:
                command = group.get_command(context, name)
                if command is not None:
                    lines += _command(command, context, f"penstock {name}")
    for title, rows in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES), ("EXIT STATUS", EXIT)):
        lines.append(f".SH {title}")
        for term, text in rows:
            lines += [".TP", f"\\fB{_escaped(term)}\\fR", _escaped(text)]
    return "\n".join(lines) + "\n"


def _command(command: click.Command, parent: click.Context, path: str) -> Iterator[str]:
    """Return a command, and all below it."""
    if command.hidden:
        return
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    words = " ".join(command.collect_usage_pieces(context))
    yield ".PP"
    yield f"\\fB{_escaped(path)}\\fR {_escaped(words)}".rstrip()
    yield ".RS 4"
    yield from _prose(command.help or "")
    yield from _options(command, context)
    yield ".RE"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _command(found, context, f"{path} {name}")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Return the options of a command, and the arguments that have a help of their own."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield ".TP"
            yield f"\\fB{_escaped(record[0])}\\fR"
            yield _escaped(record[1]) or "."


def _prose(text: str) -> Iterator[str]:
    """Return paragraphs."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield _escaped(" ".join(paragraph.replace("\b", "").split()))


def _escaped(text: str) -> str:
    """Return a text that man(7) takes as it is: backslashes, hyphens, quotes and a dot at its begin."""
    found = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    found = found.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{found}" if found.startswith((".", "\\(aq")) else found


@main.command()
def man() -> None:
    """Print the man page of all commands, for man(1).

    For example: penstock man | man -l -
    """
    with report_errors(), writing():
        assert isinstance(main, Commands)
        click.echo(man_page(main), nl=False)
