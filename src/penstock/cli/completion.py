"""Shell completion: its scripts, and names of queues and others from the broker within a short time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from penstock.cli.common import main, report_errors, writing
from penstock.cli.target import options_of
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.blocking import Connection
    from penstock.client.options import Options

TIME_S: Final = 1.0
"""Seconds that all questions to the broker may take; then there are no names."""
NAMES_MOST: Final = 200
"""Most names that are offered."""
VARIABLE: Final = "_PENSTOCK_COMPLETE"
SCOPED: Final = {
    "queue": "queues",
    "address": "exchanges",
    "vhost": "vhosts",
    "user": "users",
    "connection": "connections",
}
"""Kinds of lists by the scope of `block`, `set` and `show`."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(kind: str) -> Complete:
    """Return a completion by the names of a kind: "queues", "exchanges", "users", "policies" and so on."""
    return lambda context, _, incomplete: _items(context, kind, incomplete)


def names_by_scope(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names that fit the scope, which is the argument before: `penstock block queue NAME`."""
    kind = SCOPED.get(str(context.params.get("scope")))
    return [] if kind is None else _items(context, kind, incomplete)


def names_of_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return queues, or exchanges with --exchange: the target of a binding."""
    return _items(context, "exchanges" if context.params.get("to_exchange") else "queues", incomplete)


def _items(context: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    """Return names that begin so; none if the broker cannot be asked within TIME_S."""
    url = context.params.get("url")
    if not isinstance(url, str):
        return []
    try:
        with context.scope(cleanup=False):
            where = options_of(url, connect_timeout=TIME_S, timeout=TIME_S)
    except PenstockError:
        return []
    found: list[str] = []
    asking = threading.Thread(target=_ask, args=(where, kind, incomplete, found), daemon=True)
    asking.start()
    asking.join(TIME_S)
    return [CompletionItem(name) for name in sorted(set(found))]


def _ask(where: Options, kind: str, begin: str, found: list[str]) -> None:
    """Add names to `found`; in a thread, which is left alone after TIME_S."""
    from penstock.client.blocking import Connection

    try:
        with Connection(where) as connection:
            found += _fitting((str(each.get("name") or "") for each in _listed(connection, kind, begin)), begin)
    except (PenstockError, OSError):
        return


def _listed(connection: Connection, kind: str, begin: str) -> list[dict[str, Any]]:
    """Return one page of a list."""
    if kind == "queues":
        answer, key = connection.request("top", prefix=begin, count=NAMES_MOST), "items"
    elif kind == "users":
        answer, key = connection.request("user.list", count=NAMES_MOST), "users"
    elif kind == "policies":
        answer, key = connection.request("policy.list", everywhere=False), "policies"
    else:
        answer, key = connection.request("list", kind=kind), "items"
    listed: list[dict[str, Any]] = answer.get(key) or answer.get("items") or []
    return listed


def _fitting(names: Iterable[str], begin: str) -> list[str]:
    """Return names that a shell can take: no line feeds and other unprintable characters."""
    return [name for name in names if name and name.startswith(begin) and name.isprintable()][:NAMES_MOST]


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and names for SHELL.

    For example, in ~/.bashrc: eval "$(penstock completion bash)"; in ~/.zshrc: eval "$(penstock completion zsh)"; for
    fish: penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    with report_errors(), writing():
        kind = get_completion_class(shell)
        assert kind is not None
        made = kind(main, {}, "penstock", VARIABLE)
        click.echo(made.source_template % made.source_vars())
