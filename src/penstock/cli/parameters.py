"""Parameters of commands: from the fields of a row, or from the annotations of a function."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from penstock.cli.common import NAMED_LISTS, TIME_S, OneOf, Word, add_names, options_of
from penstock.cli.offered_words import words_of
from penstock.cli.target import URL
from penstock.errors import PenstockError
from penstock.operations.command import Field
from penstock.settings.kind import INTEGER, REAL, Number

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(kind: str) -> Complete:
    """Return a completion by the names of a kind: "queues", "exchanges", "users", "policies" and so on."""
    return lambda context, _, incomplete: _items(context, kind, incomplete)


def names_by_scope(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of the scope in the preceding argument: `penstock limits set user NAME`."""
    kind = NAMED_LISTS.get(str(context.params.get("scope")))
    return [] if kind is None else _items(context, kind, incomplete)


def names_of_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return queues, or exchanges with --exchange: the target of a binding."""
    return _items(context, "exchanges" if context.params.get("to_exchange") else "queues", incomplete)


def _items(context: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    """Return words or names with this beginning; no names if the broker does not answer within TIME_S."""
    words = words_of(kind, incomplete)
    if words is not None:
        return [CompletionItem(word) for word in words]
    url = context.params.get("url")
    if not isinstance(url, str):
        return []
    try:
        with context.scope(cleanup=False):
            where = options_of(url, connect_timeout=TIME_S, timeout=TIME_S)
    except PenstockError:
        return []
    found: list[str] = []
    asking = threading.Thread(target=add_names, args=(where, kind, incomplete, found), daemon=True)
    try:
        asking.start()
    except RuntimeError:  # The machine has no thread left.
        return []
    asking.join(TIME_S)
    return [CompletionItem(name) for name in sorted(set(found))]


PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(path_type=Path, allow_dash=True)
"""File that may be - for standard input or output."""


def option(help: str = "", metavar: str = "", option: str = "", name: str = "", **more: Any) -> Field:
    """Return the annotation of an option, or of an argument without help; see `Field`."""
    return Field(name, help, metavar=metavar, option=option, **more)


JSON: Final = Field("as_json", "Print the answer as JSON.", bool, option="--json")
Json = Annotated[bool, JSON]
Url = Annotated[str, URL]


def command(name: str | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Return the decorator that turns a function into a command.

    A parameter is `Annotated` with its help, with `option(...)`, or with a decorator that adds options. A parameter
    without help is an argument. The type determines whether the parameter is a flag, may be omitted, or takes several
    words.
    """

    def made(function: Callable[..., None]) -> click.Command:
        hints = get_type_hints(function, include_extras=True)
        decorated = function
        for each in reversed(inspect.getfullargspec(function).args):
            decorated = _decorator(each, hints[each])(decorated)
        return click.command(name)(decorated)

    return made


def _decorator(name: str, hint: Any) -> Callable[..., Any]:
    """Return the decorator that adds the parameter of an annotation."""
    hint, meta = (hint.__origin__, hint.__metadata__[0]) if get_origin(hint) is Annotated else (hint, option())
    if callable(meta):
        return meta  # type: ignore[no-any-return]
    field = option(meta) if isinstance(meta, str) else meta
    many = get_origin(hint) is tuple
    kinds = get_args(hint) or (hint,)
    return parameter(
        field._replace(
            name=name,
            kind=kinds[0] if field.kind is str else field.kind,
            many=many,
            required=field.required and NoneType not in kinds,
        )
    )


def parameter(field: Field) -> Callable[..., Any]:
    """Return the decorator that adds an argument or option."""
    name = field.name.replace("-", "_")
    settings: dict[str, Any] = {"type": _type_of(field), "metavar": field.metavar or None}
    if field.names:
        own = {"target": names_of_target, "scope": names_by_scope}
        settings["shell_complete"] = own.get(field.names) or names_of(field.names)
    if not field.help:
        settings |= {"nargs": -1 if field.many else 1, "required": field.required and field.default is None}
        return click.argument(name, **settings, **({} if field.default is None else {"default": field.default}))
    spelling = field.option.split() or [f"--{name.replace('_', '-')}"]
    if field.kind is bool:
        settings = {"is_flag": True, "default": bool(field.default), "show_default": "/" in field.option}
    elif field.default is ...:
        settings["required"] = True
    else:
        settings |= {"default": field.default, "show_default": field.default not in (None, ""), "multiple": field.many}
    return click.option(*spelling, name, help=field.help, hidden=field.hidden, **settings)


def _type_of(field: Field) -> Any:
    """Return click's type of a field: words of a kind are read by the kind."""
    if field.choices:
        return OneOf(field.choices)
    kind = {int: INTEGER, float: REAL, Path: PATH}.get(field.kind, field.kind)
    return Word(kind) if isinstance(kind, Number) else kind
