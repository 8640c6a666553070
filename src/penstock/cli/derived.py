"""Commands that are derived from rows of `penstock.operations`: options, request, and what is printed of the answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.common import control_session, print_result, say, say_json
from penstock.cli.lists import LIST, Shown, chosen, print_list, shown_of
from penstock.cli.names import near_match
from penstock.cli.parameters import JSON, parameter
from penstock.cli.target import URL
from penstock.errors import PenstockError
from penstock.operations.command import Answer, Command, Field, Given, Item, Listing
from penstock.operations.commands import METHODS

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

IF_EXISTS: Final = Field("if_exists", "Accept that it does not exist: exit code 0.", bool)
NOT_FOUND: Final = 404
PAGE: Final = 1000
"""Users asked for at once."""


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
    """Return the values of the fields of a row. Raises ConfigError for words that cannot be read."""
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
    """Carry out an operation and print the outcome; with --if-exists an object that is not there is no error."""
    from penstock.client.errors import ChannelClosed, ControlError

    operation, fields = _request(row, given)
    with control_session(url) as connection:
        answer: Answer = {}
        try:
            if row.first:
                noun = row.first.partition(".")[0]
                _carry_out(connection, row.first, {noun: given[noun], "passive": True})
            answer = _carry_out(connection, operation, fields)
        except PenstockError as error:
            is_absent = isinstance(error, ChannelClosed | ControlError) and error.code == NOT_FOUND
            if row.absent is not None and given["if_exists"] and is_absent:
                print_result(as_json, row.absent.answer(given), row.absent.says.format(**given))
                return
            if not row.ends or row.ends.format(**given) not in str(error):
                raise
        _print(row, given, answer, as_json, connection)


def _carry_out(connection: Connection, operation: str, fields: Answer) -> Answer:
    if operation not in METHODS:
        return connection.request(operation, **fields)
    found: Answer = connection.run(connection.core().calling(operation, fields))
    return found


def _print(row: Command, given: Given, answer: Answer, as_json: bool, connection: Connection) -> None:
    """Print an answer; exit with 1 if it has warnings."""
    sentences = [row.says.format(**{**given, **answer})] if isinstance(row.says, str) else list(row.says(given, answer))
    warnings = answer.get("warnings", ())
    if as_json:
        shown = answer if row.answer is None else row.answer(given, answer)
        say_json(shown, indent=2 if isinstance(shown, list) else None)
    else:
        for sentence in sentences:
            say(sentence + near_match(connection, sentence), err=sentence in warnings)
    for remark in () if row.remarks is None else row.remarks(given):
        say(remark, err=True)
    if warnings:
        sys.exit(1)


# Lists


def _list(row: Listing, given: Given, shown: Shown, url: str) -> None:
    """Ask for a list and print it."""
    with control_session(url) as control:
        items = list(_items(row, given, control))
    columns = row.columns
    if given.get("everywhere") and "vhost" not in columns.default and row.path != "vhosts list":
        columns = columns._replace(default=(*columns.default, "vhost"))
    if row.rows is not None and not (row.raw and shown.as_json):
        items = row.rows(items)
    if row.as_object is not None and shown.as_json and not shown.columns:
        say_json(row.as_object(chosen(items, columns, shown)[: shown.limit]))
    else:
        print_list(items, columns, shown, row.whole)


def _items(row: Listing, given: Given, control: Connection) -> Iterator[Item]:
    """Yield the items of a list, in pages where the broker has pages."""
    operation, fields = _request(row, given)
    if operation == "list":
        yield from control.list(fields["kind"], everywhere=fields["everywhere"])
    elif operation == "user.list":
        more, fields = True, {**fields, "count": PAGE}
        while more:
            answer = control.request(operation, **fields)
            yield from answer[row.key]
            more = answer["more"]
            fields["after"] = answer[row.key][-1]["name"] if answer[row.key] else ""
    else:
        answer = control.request(operation, **fields)
        yield from answer[row.key] if row.key else [answer]
