"""Commands derived from rows of `penstock.operations`: options, request, and the printed answer.

Lists are for people and programs: all have the same options for columns, order, filters and number of rows.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import click

from penstock.cli import common
from penstock.cli.common import control_session, near_match, print_result, say, say_json
from penstock.cli.job_progress import shown_progress
from penstock.cli.parameters import JSON, parameter
from penstock.cli.tables import COLUMN_COLOURS, WIDE_HINT, table
from penstock.cli.target import URL
from penstock.describe.conditions import Condition, cell, condition_of, holds, key_of
from penstock.errors import ConfigError, PenstockError
from penstock.operations.command import Answer, Columns, Command, Field, Given, Item, Listing
from penstock.operations.command_jobs import DETACH
from penstock.operations.commands import METHODS
from penstock.settings.kind import COUNT
from penstock.texts import printable

SUGGESTED: Final = 5
"""Most near names in an error about a column."""
_MISSING: Final = object()
OPTIONAL: Final = ("message_stats", "policy", "operator_policy", "owner_pid_details", "backing_queue_status")
"""Fields that the broker omits if they are empty."""


class Shown(NamedTuple):
    """Options of a list."""

    columns: tuple[str, ...]
    sort: tuple[str, ...]
    filters: tuple[Condition, ...]
    limit: int | None
    as_json: bool
    wide: bool = False


LIST: Final = (
    Field("columns", "Show these columns; a field of --json is one too: penstock.tail.", metavar="A,B"),
    Field("sort", "Sort by these columns, descending with a minus: --sort -messages.", metavar="A,-B"),
    Field("filters",
          "Show rows with messages>9, gate=closed, name~^eu (an expression), or != >= <= !~; all of several.",
          option="--filter", metavar="TEST", many=True),
    Field("limit", "Show at most N rows.", COUNT, metavar="N"),
    Field("wide", "Show all columns on a terminal, with whole cells, also where lines are wider than it.", bool),
    Field("as_json", "Print one JSON object per line.", bool, option="--json"),
)  # fmt: skip
"""Options of all lists."""


def shown_of(given: Mapping[str, Any]) -> Shown:
    """Return the values of the options of a list. Raises UsageError."""
    filters = tuple(map(_condition, given["filters"]))
    columns, order = _words(given["columns"]), _words(given["sort"])
    return Shown(columns, order, filters, given["limit"], given["as_json"], given["wide"])


def _words(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def _condition(text: str) -> Condition:
    """Return the condition of a text. Raises UsageError."""
    try:
        condition = condition_of(text)
    except ConfigError as error:
        raise click.UsageError(f"--filter {error}") from None
    if condition.operator in ("~", "!~"):
        try:
            re.compile(condition.value)
        except re.error as error:
            raise click.UsageError(f"--filter '{text}': the expression is invalid: {error}") from None
    return condition


LIST_OF_BROKER: Final = "list"
"""Operation whose rows the broker sorts and chooses."""
NO_COLUMN: Final = "no column "
"""Beginning of the broker's error for an unknown column."""


def print_list(
    items: Iterable[Item], columns: Columns, shown: Shown, whole: str | None = None, all_of_them: int | None = None
) -> None:
    """Print a list with its options. Raises UsageError for an unknown column.

    JSON is one object per line; with `whole` it is one list, in an object under that name unless it is empty.
    `all_of_them` is the number of rows that the broker has, if these are the first of them.
    """
    rows = chosen(items, columns, shown)
    total = len(rows) if all_of_them is None else all_of_them
    rows = rows[: shown.limit]
    if shown.as_json:
        objects = [{name: value_of(item, name, columns) for name in shown.columns} or item for item in rows]
        if whole is not None:
            say_json({whole: objects} if whole else objects)
            return
        for each in objects:
            say_json(each)
        return
    heads = shown.columns or columns.default
    lines = [tuple(text_of(item, name, columns) for name in heads) for item in rows]
    table(heads, lines, COLUMN_COLOURS, WIDE_HINT, shown.wide)
    if total > len(rows):
        say(f"{len(rows):,} of {total:,} are shown", err=True)


def chosen(items: Iterable[Item], columns: Columns, shown: Shown) -> list[Item]:
    """Return the items that meet all filters, in order. Raises UsageError for an unknown column."""
    rows = list(items)
    _check_columns(rows, columns, shown)
    for condition in shown.filters:
        rows = [item for item in rows if _holds(condition, item, columns)]
    for name in reversed(shown.sort):
        _sort(rows, columns, name.removeprefix("-"), name.startswith("-"))
    return rows


def value_of(item: Item, column: str, columns: Columns) -> object:
    """Return the value of a column, computed or a field of the item by its path; None if the item lacks it."""
    computed = columns.computed.get(column, column)
    if not isinstance(computed, str):
        return computed(item)
    found = _field(item, computed)
    return None if found is _MISSING else found


def _field(item: Item, path: str) -> object:
    """Return a field by its name or its path; `_MISSING` if there is none."""
    if path in item:
        return item[path]
    found: object = item
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return _MISSING
        found = found[part]
    return found


def text_of(item: Item, column: str, columns: Columns) -> str:
    """Return the text of a column."""
    if column in columns.of_items:
        return columns.of_items[column](item)
    value = value_of(item, column, columns)
    text = columns.texts.get(column)
    return cell(value) if text is None else text(value)


def _check_columns(rows: list[Item], columns: Columns, shown: Shown) -> None:
    """Check that the columns named in options exist, as far as the rows show them. Raises UsageError.

    A field of the broker's answer is a column, and versions of brokers differ. So the columns of an empty list are
    unknown.
    """
    named = {*shown.columns, *(name.removeprefix("-") for name in shown.sort), *(each.column for each in shown.filters)}
    known = {*columns.default, *columns.computed}
    for name in sorted(named - known):
        if not rows or any(_field(item, name) is not _MISSING for item in rows) or name.split(".")[0] in OPTIONAL:
            continue
        import difflib

        names = sorted({*known, *rows[0], *(f"penstock.{each}" for each in _own_fields(rows[0]))})
        near = difflib.get_close_matches(name, names, SUGGESTED)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise click.UsageError(printable(f"no column '{name}'; {hint}Known are {', '.join(names)}"))


def _own_fields(item: Item) -> Sequence[str]:
    own = item.get("penstock")
    return list(own) if isinstance(own, dict) else []


def _holds(condition: Condition, item: Item, columns: Columns) -> bool:
    """Return whether an item meets a condition; numbers are compared as numbers, other values as text."""
    value, wanted = value_of(item, condition.column, columns), condition.value
    if condition.operator in ("=", "!=") and wanted == text_of(item, condition.column, columns):
        return condition.operator == "="
    return holds(condition, value, lambda text: re.search(wanted, text) is not None)


def _sort(rows: list[Item], columns: Columns, name: str, descending: bool) -> None:
    """Sort rows by a column, stable, as the broker does."""
    order = columns.orders.get(name, name)
    rows.sort(key=lambda item: key_of(value_of(item, order, columns)), reverse=descending)


IF_EXISTS: Final = Field("if_exists", "Accept that it does not exist: exit code 0.", bool)
NOT_FOUND: Final = 404


def derived(row: Command | Listing) -> click.Command:
    """Return the command of a row."""

    def carried_out(url: str, **given: Any) -> None:
        if isinstance(row, Listing):
            _list(row, _values(row, given), shown_of(given), url)
        else:
            _ask(row, _values(row, given), given["as_json"], url)

    more = LIST if isinstance(row, Listing) else (JSON,) if row.absent is None else (IF_EXISTS, JSON)
    function = URL(carried_out)
    for field in reversed((*row.fields, *more)):
        function = parameter(field)(function)
    return click.command(row.path.rpartition(" ")[2], help=row.help)(function)


def _values(row: Command | Listing, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of a row. Raises ConfigError for invalid words."""
    found: dict[str, Any] = dict(row.fixed)
    for field in row.fields:
        value = given[field.name.replace("-", "_")]
        found[field.name] = value if field.read is None else field.read(tuple(value))
    if "if_exists" in given:
        found["if_exists"] = given["if_exists"]
    return found


def _request(row: Command | Listing, given: Given) -> tuple[str, Answer]:
    if row.request is not None:
        return row.request(given)
    return row.asks, {name: value for name, value in given.items() if name != "if_exists"}


# Commands


def _ask(row: Command, given: Given, as_json: bool, url: str) -> None:
    """Carry out an operation and print the outcome; with --if-exists a missing object is no error."""
    from penstock.client.errors import ChannelClosed, ControlError

    operation, fields = _request(row, given)
    name = f"{operation}-{secrets.token_hex(4)}" if DETACH in row.fields else ""
    watched = shown_progress(url, name) if name else contextlib.nullcontext()
    named = {"name": name} if name else {}
    with control_session(url, **named) as connection, watched:
        answer: Answer = {}
        try:
            if row.first:
                noun = row.first.partition(".")[0]
                common.ask(connection, row.first, {noun: given[noun], "passive": True}, True)
            answer = common.ask(connection, operation, fields, operation in METHODS)
            if row.then is not None:
                with contextlib.suppress(PenstockError):
                    answer = {**common.ask(connection, *row.then(given), False), **answer}
        except PenstockError as error:
            is_absent = isinstance(error, ChannelClosed | ControlError) and error.code == NOT_FOUND
            if row.absent is not None and given["if_exists"] and is_absent:
                print_result(as_json, row.absent.answer(given), row.absent.says.format(**given))
                return
            if not row.ends or row.ends.format(**given) not in str(error):
                raise
        _print(row, given, answer, as_json, partial(near_match, connection))


def _print(row: Command, given: Given, answer: Answer, as_json: bool, near: Callable[[str], str]) -> None:
    """Print an answer; exit with 1 if it has warnings."""
    sentences = [row.says.format(**{**given, **answer})] if isinstance(row.says, str) else list(row.says(given, answer))
    warnings = answer.get("warnings", ())
    if as_json:
        shown = answer if row.answer is None else row.answer(given, answer)
        say_json(shown, indent=2 if isinstance(shown, list) else None)
    else:
        for sentence in sentences:
            say(sentence + near(sentence), err=sentence in warnings)
    for remark in () if row.remarks is None else row.remarks(given):
        say(remark, err=True)
    if warnings:
        sys.exit(1)


# Lists


PAGE_MOST: Final = 500
"""Most rows of a page of the broker."""


class Share(NamedTuple):
    """Options of a list that the broker carries out, and those that are left for its rows."""

    asked: Answer
    left: Shown


def share_of(columns: Columns, shown: Shown) -> Share:
    """Return the parts of the options of a list: the broker knows the fields, but no column that is computed here."""
    computed = {name for name, path in columns.computed.items() if not isinstance(path, str)}
    own = {*computed, *columns.of_items}
    said = {*own, *columns.texts}
    filters = [each for each in shown.filters if each.column in (said if each.operator in ("=", "!=") else own)]
    asked: Answer = {
        "filters": [
            f"{_path(columns, each.column)}{each.operator}{each.value}" for each in shown.filters if each not in filters
        ]
    }
    by_broker = own.isdisjoint(name.removeprefix("-") for name in shown.sort)
    if by_broker and shown.sort:
        asked["sort"] = [f"{'-' * name.startswith('-')}{_order(columns, name)}" for name in shown.sort]
    left = shown._replace(filters=tuple(filters), sort=() if by_broker else shown.sort)
    if not left.filters and not left.sort and shown.limit is not None and 0 < shown.limit <= PAGE_MOST:
        asked |= {"page": 1, "page_size": shown.limit}
    return Share({name: value for name, value in asked.items() if value}, left)


def _order(columns: Columns, name: str) -> str:
    """Return the path of the field by which a column is sorted, perhaps descending."""
    column = name.removeprefix("-")
    return columns.orders.get(column) or _path(columns, column)


def _path(columns: Columns, name: str) -> str:
    """Return the path of the field of a column."""
    path = columns.computed.get(name, name)
    assert isinstance(path, str)
    return path


def _list(row: Listing, given: Given, shown: Shown, url: str) -> None:
    """Ask for a list and print it."""
    from penstock.client.errors import ControlError

    operation, fields = _request(row, given)
    columns, total = row.columns, None
    if operation == LIST_OF_BROKER:
        asked, shown = share_of(columns, shown)
        fields = {**fields, **asked}
    with control_session(url) as control:
        try:
            if "page" in fields:
                answer = common.ask(control, operation, fields, False)
                items, total = answer["items"], answer["filtered_count"]
            else:
                items = list(common.listed(control, operation, fields, row.key))
        except ControlError as error:
            if error.text.startswith(NO_COLUMN):
                raise click.UsageError(printable(error.text)) from None
            raise
    if given.get("everywhere") and "vhost" not in columns.default and row.path != "vhosts list":
        columns = columns._replace(default=(*columns.default, "vhost"))
    if row.rows is not None and not (row.raw and shown.as_json):
        items = row.rows(items)
    if row.as_object is not None and shown.as_json and not shown.columns:
        say_json(row.as_object(chosen(items, columns, shown)[: shown.limit]))
    else:
        print_list(items, columns, shown, row.whole, total)
