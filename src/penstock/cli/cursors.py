"""Cursor commands: cursor create, show, move, release and delete, and the columns of `list cursors`."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent, print_deleted
from penstock.cli.common import (
    JSON,
    URL,
    cell,
    control_session,
    counted,
    main,
    report_errors,
    say,
    say_json,
    table,
)
from penstock.cli.completion import names_of
from penstock.errors import ConfigError

POSITIONS_LISTED = 3
"""Most queues of a cursor in a table of cursors."""
NO_LAG: dict[str, Any] = {"messages": None, "bytes": None, "oldest_s": None}


@main.group()
def cursor() -> None:
    """Create, show, move, release or delete a cursor, an application's read position. `list cursors` lists them."""


@cursor.command("create")
@click.argument("name")
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True, shell_complete=names_of("queues"))
@click.option(
    "--at", "places", metavar="PLACE", multiple=True, help="earliest (the default), latest or QUEUE=SEQUENCE."
)
@JSON
@URL
def create_cursor(name: str, queues: tuple[str, ...], places: tuple[str, ...], as_json: bool, url: str) -> None:
    """Create cursor NAME on each QUEUE, before its reader comes: what arrives meanwhile waits for it.

    With QUEUE=SEQUENCE everything up to that counts as read; other queues begin at the earliest message. Exit code 1:
    it exists. For example: penstock cursor create billing orders --at latest
    """
    with report_errors():
        at = _places(places) if places else "earliest"
        with control_session(url) as control:
            found = control.create_cursor(name, queues, at)
    if as_json:
        say_json({"cursor": name, "queues": found})
        return
    for queue, offset in found.items():
        say(f"cursor {name} begins after {offset:,} on queue {queue}")


@cursor.command("show")
@click.argument("name", shell_complete=names_of("cursors"))
@JSON
@URL
def show_cursor(name: str, as_json: bool, url: str) -> None:
    """Show cursor NAME: its reader, and its position and lag on each queue, with the producers that wait for it.

    For example: penstock cursor show billing
    """
    with control_session(url) as control:
        found = control.show_cursor(name)
    if as_json:
        say_json(found, indent=2)
        return
    reader, read = found["reader"], found["read"]
    say(f"cursor {name}: {_reader(reader)}; {asked_last(found) or 'no request since the start of the broker'}")
    say(f"read since the start: {counted(read['messages'], 'message')} in {counted(read['blocks'], 'block')}")
    heads = ("queue", "settled", "planned", "end", "lag", "bytes", "oldest", "blocks")
    table(heads, [_position(each) for each in found["queues"]])
    if found["more_queues"]:
        say(f"and {found['more_queues']:,} more queues")
    for each in found["queues"]:
        if each["left"]:
            say(
                f"queue {each['queue']} is left: its query no longer subscribes to it; "
                f"`penstock cursor release {name} {each['queue']}` gives it up"
            )
    for each in found["queues"]:
        if each["max_lag"] is not None:
            say(f"queue {each['queue']}: {_max_lag(each['max_lag'])}")
    for each in found.get("blocked_producers", ()):
        say(f"queue {each['queue']} blocks {each['producer']} for {each['blocked_for_s']:.1f} s")


def _reader(reader: dict[str, Any] | None) -> str:
    """Describe the reader of a cursor."""
    if reader is None:
        return "no reader since the start of the broker"
    query = f" for query {reader['query']}" if reader["query"] else ""
    return f"{'read' if reader['open'] else 'last read'} by {reader['connection']}{query}"


def _max_lag(limit: dict[str, Any]) -> str:
    """Describe the limit of lag of a queue."""
    amounts = {"messages": limit["messages"], "bytes": limit["bytes"], "s": limit["age_s"]}
    parts = [f"{value:,g} {unit}" for unit, value in amounts.items() if value is not None]
    state = "the cursor is beyond it" if limit["beyond"] else "the cursor is within it"
    return f"lag is limited to {' and '.join(parts)} ({limit['policy']}); {state}"


def _position(each: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a queue in the table of one cursor."""
    lag = each["lag"] or NO_LAG
    end = "deleted" if each["deleted"] else each["tail"]
    values = (
        *(each["queue"], each["settled"], each["planned"], end, lag["messages"], lag["bytes"]),
        *(seconds(lag["oldest_s"]), each["blocked"] if each["holds_back"] else 0),
    )
    return tuple(cell(value) for value in values)


@cursor.command("move")
@click.argument("name", shell_complete=names_of("cursors"))
@click.argument("places", metavar="PLACE...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only tell what the move would do.")
@click.option("--force", is_flag=True, help="Move it while a query reads; the query ends with an error.")
@JSON
@URL
def move_cursor(name: str, places: tuple[str, ...], dry_run: bool, force: bool, as_json: bool, url: str) -> None:
    """Move cursor NAME to PLACE: earliest, latest or QUEUE=SEQUENCE (everything up to it counts as read).

    What a move passes over is gone for this cursor. Back goes as far as another cursor still needs the messages. For
    example: penstock cursor move billing latest --dry-run, or penstock cursor move billing orders=1200
    """
    with report_errors():
        to = _places(places)
        with control_session(url) as control:
            found = control.move_cursor(name, to, dry_run=dry_run, force=force)
    if as_json:
        say_json(found)
        return
    for sentence in found["sentences"]:
        say(f"cursor {name}, {sentence}")


@cursor.command("release")
@click.argument("name", shell_complete=names_of("cursors"))
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@IF_EXISTS
@JSON
@URL
def release_cursor(name: str, queues: tuple[str, ...], if_exists: bool, as_json: bool, url: str) -> None:
    """Release each QUEUE that cursor NAME has left: its query no longer subscribes to it.

    What was not settled stays in the queue, for other cursors and consumers. For example: penstock cursor release
    billing old-orders
    """
    absent = maybe_absent(if_exists, as_json, {"cursor": name}, f"cursor {name} does not exist")
    with report_errors(), control_session(url) as control, absent:
        control.release_cursor(name, list(queues))
    if as_json:
        say_json({"released": list(queues)})
        return
    for queue in queues:
        say(f"cursor {name} no longer keeps the messages of queue {queue}")


def _places(words: tuple[str, ...]) -> str | dict[str, int]:
    """Return where to move a cursor; raises ConfigError."""
    if len(words) == 1 and words[0] in ("earliest", "latest"):
        return words[0]
    found: dict[str, int] = {}
    for word in words:
        queue, equals, number = word.rpartition("=")
        if not equals or not queue or not number.isdecimal() or len(number) > 18:
            raise ConfigError(f"'{word}' is no place: write earliest, latest or QUEUE=SEQUENCE, such as orders=1200")
        if queue in found:
            raise ConfigError(f"queue '{queue}' is given twice: give it once")
        found[queue] = int(number)
    return found


# Columns of `list cursors`


def seconds(value: float | None) -> str:
    """Return a number of seconds for people."""
    return "-" if value is None else f"{value:.1f} s"


def asked_last(item: dict[str, Any]) -> str | None:
    """Return the time since the last request of a cursor's reader; None without one."""
    return None if item["asked_s_ago"] is None else f"{item['asked_s_ago']:.1f} s ago"


def reader_of(item: dict[str, Any]) -> str | None:
    """Return the connection that reads through a cursor; None if it is gone."""
    reader = item["reader"]
    return str(reader["connection"]) if reader is not None and reader["open"] else None


def positions_of(item: dict[str, Any]) -> str:
    """Return a cursor's progress by queue: settled and last sequence number."""
    parts = [f"{each['queue']} {each['settled']:,}/{each['tail']:,}" for each in item["queues"][:POSITIONS_LISTED]]
    more = len(item["queues"]) + item["more_queues"] - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more else "")


@cursor.command("delete")
@click.argument("name", shell_complete=names_of("cursors"))
@IF_EXISTS
@JSON
@URL
def delete_cursor(name: str, if_exists: bool, as_json: bool, url: str) -> None:
    """Delete cursor NAME of a reader that is gone for good: its queues become ordinary queues again.

    Unsettled messages stay in them. For example: penstock delete cursor billing
    """
    with control_session(url) as control:

        def act() -> dict[str, object]:
            control.delete_cursor(name)
            return {}

        print_deleted(as_json, "cursor", name, if_exists, act)
