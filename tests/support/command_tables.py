"""The tables of commands by their nouns, their options and former names, as the command line has them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from penstock.cli import main
from penstock.cli.grammar import FORMER, places, sections

OWN = ("-h", "--help")
LINKS = {
    "analyze": "analyze.md",
    "bench": "inside/benchmarks.md",
    "completion": "#completion",
    "config": "settings.md#where-settings-come-from",
    "cursors": "spark.md#operation",
    "definitions": "definitions.md",
    "limits": "security.md#limits-of-users-and-virtual-hosts",
    "permissions": "security.md#permissions",
    "plan": "plan.md",
    "policies": "policies.md",
    "report": "#a-bug-report",
    "serve": "settings.md",
    "settings": "settings.md#settings-by-pattern-of-names",
    "sinks": "spark.md#delivery",
    "store": "durability.md",
    "tls": "tls.md",
    "top": "#live-pictures",
    "users": "security.md#users",
    "why": "trouble.md#what-penstock-why-says",
}
"""Pages and headings about a noun or verb."""


def tables() -> dict[str, str]:
    """Return the tables by their names."""
    makers = {
        "commands": _of_commands,
        "options of commands": _of_options,
        "former names": _of_former_names,
        "where commands act": _of_places,
    }
    return {name: "\n".join(maker()) for name, maker in makers.items()}


def _of_places() -> Iterator[str]:
    verbs: dict[str, dict[str, list[str]]] = {}
    for path, place in sorted(places().items()):
        noun, _, verb = path.partition(" ")
        verbs.setdefault(place, {}).setdefault(noun, []).append(verb)
    for place, nouns in sorted(verbs.items(), key=lambda item: -len(item[1])):
        yield f"In {place}:"
        yield ""
        yield from (f"- `{noun}`: {', '.join(found)}".removesuffix(": ") for noun, found in nouns.items())
        yield ""


def _of_commands() -> Iterator[str]:
    context = click.Context(main, info_name="penstock")
    for section, names in sections().items():
        yield f"### {section}"
        yield ""
        yield "| command | |"
        yield "| --- | --- |"
        for name in names:
            command = main.get_command(context, name)
            assert command is not None
            yield from (f"| {line} | {text} |" for line, _, text in _of_command(command, context, name))
        yield ""
        links = ", ".join(f"[{name}]({LINKS[name]})" for name in _words(names) if name in LINKS)
        if links:
            yield f"More on {links}."
            yield ""


def _words(names: tuple[str, ...]) -> Iterator[str]:
    """Yield nouns and verbs, and the verbs of nouns that have pages of their own."""
    for name in names:
        yield name
        yield from {"flow": ("analyze", "plan")}.get(name, ())


def _of_options() -> Iterator[str]:
    context = click.Context(main, info_name="penstock")
    yield "| command | options |"
    yield "| --- | --- |"
    for names in sections().values():
        for name in names:
            command = main.get_command(context, name)
            assert command is not None
            for line, options, _ in _of_command(command, context, name):
                if options:
                    yield f"| {line} | {options} |"


def _of_command(command: click.Command, parent: click.Context, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the usage, the options and the purpose of a command, or of those of a group."""
    context = click.Context(command, info_name=path, parent=parent)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _of_command(found, context, f"{path} {name}")
        return
    words = [piece for each in command.get_params(context) for piece in each.get_usage_pieces(context)]
    line = _cell(f"`{' '.join((path, *words))}`")
    text = _cell(command.get_short_help_str(300))
    yield line, _options(command, context), text


def _options(command: click.Command, context: click.Context) -> str:
    """Return the options of a command besides those of the connection, --json and --help."""
    of_lists = ("`--columns`", "`--sort`", "`--filter`", "`--limit`", "`--wide`")
    found = [
        f"`{'/'.join((max(each.opts, key=len), *each.secondary_opts))}`"
        for each in command.get_params(context)
        if isinstance(each, click.Option) and not each.hidden and each.get_help_record(context) is not None
        if not {*OWN, "--json"} & {*each.opts}
    ]
    if {*of_lists} <= {*found}:
        found = [*(each for each in found if each not in of_lists), "[of lists](../cli.md#lists)"]
    return " ".join(found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _of_former_names() -> Iterator[str]:
    yield "| former | now |"
    yield "| --- | --- |"
    by_verb: dict[str, list[tuple[str, str]]] = {}
    for former, path in FORMER.items():
        by_verb.setdefault(former.partition(" ")[0], []).append((former, path))
    for pairs in by_verb.values():
        yield f"| {', '.join(f'`{former}`' for former, _ in pairs)} | {', '.join(f'`{path}`' for _, path in pairs)} |"
