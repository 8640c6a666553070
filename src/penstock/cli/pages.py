"""Pages about the command line itself: help on the connection, the man page, and scripts of completion."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import click

import penstock
from penstock.cli.common import writing
from penstock.cli.grammar import CommandGroup, main, sections
from penstock.cli.parameters import command, option
from penstock.cli.shells import SHELLS, VARIABLE
from penstock.cli.target import DEFAULT_URL, target_options

CONNECTION: Final = """\
These options say which broker a command is for. They may be anywhere on the line, and the last one counts. The path of
a URL is the virtual host: amqp://anna@broker.example.com/orders."""
SOURCES: Final = f"""\
Without --url and --profile a command takes the URL in the variable PENSTOCK_URL, then the profile in PENSTOCK_PROFILE,
then the profile "default" of the file, and at last {DEFAULT_URL}. Both variables keep passwords from other
users of the machine, who see command lines. docs/cli.md describes the file of profiles."""
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
    for section, names in sections().items():
        lines.append(f'.SS "{section}"')
        for name in names:
            command = group.get_command(context, name)
            if command is not None:
                lines += _command(command, context, f"penstock {name}")
    lines += [".SH CONNECTION", *_prose(f"{CONNECTION}\n\n{SOURCES}")]
    lines += _terms(each.record() for each in target_options())
    for title, rows in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES), ("EXIT STATUS", EXIT)):
        lines += [f".SH {title}", *_terms(rows)]
    return "\n".join(lines) + "\n"


def _command(command: click.Command, parent: click.Context, path: str) -> Iterator[str]:
    """Return a command and its subcommands."""
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
    """Return the options of a command, and its arguments with a help text."""
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return _terms(filter(None, records))


def _terms(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return terms, each with its text below."""
    for term, text in rows:
        yield from (".TP", f"\\fB{_escaped(term)}\\fR", _escaped(text) or ".")


def _prose(text: str) -> Iterator[str]:
    """Return paragraphs; a paragraph that begins with a backspace keeps its lines, as in click."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(text))):
        if number:
            yield ".PP"
        if paragraph.startswith("\b\n"):
            yield from (".nf", *(_escaped(line, keep=True) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield _escaped(paragraph)


def _escaped(text: str, keep: bool = False) -> str:
    """Return a text escaped for man(7): backslashes, hyphens, quotes and a leading dot.

    With `keep`, spaces are unchanged; otherwise there is one between two words.
    """
    found = (text if keep else " ".join(text.split())).replace("\\", "\\e").replace("-", "\\-")
    found = found.replace("'", "\\(aq").replace("`", "\\(ga")
    found = found.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{found}" if found.startswith((".", "\\(aq")) else found


def connection_page(context: click.Context) -> str:
    """Return the help on the options that name a broker."""
    formatter = context.make_formatter()
    formatter.write_text(CONNECTION)
    with formatter.section("Options"):
        formatter.write_dl([option.record() for option in target_options()])
    formatter.write_paragraph()
    formatter.write_text(SOURCES)
    return formatter.getvalue()


@command("help")
def help_(words: Annotated[tuple[str, ...], option(metavar="[connection | COMMAND...]", required=False)]) -> None:
    """Print the help of a command, or of the options for the connection.

    For example: penstock help connection, or penstock help queues declare
    """
    context = click.get_current_context()
    root = context.find_root()
    with writing():
        if words == ("connection",):
            click.echo(connection_page(context), nl=False)
            return
        command: click.Command = root.command
        for number, word in enumerate(words):
            if not isinstance(command, click.Group):
                break
            if command.get_command(root, word) is None and isinstance(command, CommandGroup):
                raise click.UsageError(command.unknown(root, word), root)
            found = command.get_command(root, word)
            assert found is not None
            command, root = found, click.Context(found, info_name=words[number], parent=root)
        click.echo(command.get_help(root))


@command()
def man() -> None:
    """Print the man page of all commands, for man(1).

    For example: penstock man | man -l -
    """
    with writing():
        click.echo(man_page(main), nl=False)


@command()
def completion(shell: Annotated[str, option(choices=("bash", "zsh", "fish"))]) -> None:
    """Print the script that completes commands, options and names for SHELL.

    For example, in ~/.bashrc: eval "$(penstock completion bash)"; in ~/.zshrc: eval "$(penstock completion zsh)"; for
    fish: penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    with writing():
        made = SHELLS[shell](main, {}, "penstock", VARIABLE)
        click.echo(made.source_template % made.source_vars())
