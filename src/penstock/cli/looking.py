"""Commands that explain: why, config, and one cursor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final

import click

from penstock.cli.common import asked, control_session, say, say_json
from penstock.cli.parameters import Json, Url, command, option
from penstock.cli.tables import table
from penstock.describe.conditions import cell
from penstock.operations.command_lists import asked_last, shown_seconds
from penstock.texts import counted

CONFIG_SHOW: Final = "config.show"
"""Operation that answers with the settings in effect."""
CONNECTION: Final = "Explain a connection, by its number or name in the log."
NO_LAG: Final[dict[str, Any]] = {"messages": None, "bytes": None, "oldest_s": None}


@command()
def why(
    queue: Annotated[str | None, option(names="queues")],
    connection: Annotated[str | None, option(CONNECTION, "N|NAME", names="connections")],
    channel: Annotated[str | None, option("Explain a channel, such as 2/1.", "CON/CH", names="channels")],
    link: Annotated[str | None, option("Explain a link of AMQP 1.0, such as why its sender has no credit.", "NAME")],
    user: Annotated[str | None, option("Explain all connections of a user.", "NAME", names="users")],
    as_json: Annotated[bool, option("Print the whole answer, for programs.", option="--json")],
    url: Url,
) -> None:
    """Explain blocks: the producers that QUEUE blocks, for how long and why, and the events that the queue waits for.

    With an option, explain a connection, a channel, a link or a user: the gates that block its producers, and why its
    consumers get no messages. Without any: all blocked producers, longest first, with advice. For example: penstock why
    """
    if sum(subject is not None for subject in (queue, connection, channel, link, user)) > 1:
        raise click.UsageError("give only one of QUEUE, --connection, --channel, --link and --user")
    with control_session(url) as control:
        answer = control.why(queue, connection=connection, channel=channel, link=link, user=user)
        if as_json:
            say_json(answer.raw, indent=2)
        else:
            for sentence in answer.sentences:
                say(sentence)


# Settings in effect


WOULD_HAVE: Final = "Show the settings of a broker that would start with this file here, without a request to a broker."


@command()
def config(
    file: Annotated[Path | None, option(WOULD_HAVE, "FILE", "--config")],
    changed: Annotated[bool, "Show only settings that have no default."],
    as_json: Json,
    url: Url,
) -> None:
    """Show the settings of a broker in effect, each with its source, without secrets.

    A source is FILE:LINE, an environment variable, the command line, a run-time change (`penstock queues set`), or the
    default. For example: penstock config --changed
    """
    found = asked(url, CONFIG_SHOW) if file is None else _of_file(file)
    if changed:
        for part in ("start", "broker"):
            found[part] = [row for row in found[part] if row["from"] != "default"]
    if as_json:
        say_json(found)
        return
    rows = [(row["setting"], _setting(row["value"]), row["from"]) for row in (*found["start"], *found["broker"])]
    rows += [
        (f'{row["scope"]} "{row["pattern"]}" {row["setting"]}', _setting(row["value"]), row["from"])
        for row in found["patterns"]
    ]
    table(("setting", "value", "from"), rows)


def _of_file(file: Path) -> dict[str, Any]:
    """Return the configuration of a broker that is not started. Raises ConfigError."""
    from penstock.flow.work import finish
    from penstock.operations.settings import config_steps
    from penstock.server.server import Server
    from penstock.settings.config import load, with_environment

    return finish(config_steps(Server(settings=with_environment(load(file), os.environ)).driver))


def _setting(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items()) or "none"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


# One cursor


@command("show")
def show_cursor(name: Annotated[str, option(names="cursors")], as_json: Json, url: Url) -> None:
    """Show cursor NAME: its reader, and its position and lag on each queue, with the producers that wait for it.

    For example: penstock cursors show billing
    """
    with control_session(url) as control:
        found = control.show_cursor(name)
    if as_json:
        say_json(found, indent=2)
        return
    reader, read = found["reader"], found["read"]
    say(f"cursor {name}: {_reader(reader)}; {asked_last(found) or 'no request since the start of the broker'}")
    say(f"read since the start: {counted(read['messages'], 'message')} in {counted(read['blocks'], 'block')}")
    say(_idle(found))
    if found.get("share") is not None:
        say(_share(found["share"]))
    heads = ("queue", "settled", "planned", "end", "lag", "bytes", "oldest", "blocks")
    table(heads, [_position(each) for each in found["queues"]])
    if found["more_queues"]:
        say(f"and {found['more_queues']:,} more queues")
    for each in found["queues"]:
        if each["left"]:
            say(
                f"queue {each['queue']} is left: its query no longer subscribes to it; "
                f"`penstock cursors release {name} {each['queue']}` gives it up"
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


def _share(share: dict[str, Any]) -> str:
    """Describe the share of this broker in a batch of several."""
    cap = "" if share["cap"] is None else f" of up to {share['cap']:,} messages"
    return f"last batch{cap} from {share['servers']} brokers: {counted(share['messages'], 'message')} from this one"


def _idle(found: dict[str, Any]) -> str:
    """Describe since when a cursor has no reader, and when it expires."""
    ends = found.get("expires_in_s")
    expires = "it never expires (cursor-expires is not set)"
    if found.get("idle_s") is None:
        if ends is not None:
            expires = f"it expires {ends:,.1f} s after its reader has gone (cursor-expires)"
        return f"its reader is attached; {expires}"
    if ends is not None:
        expires = f"it expires in {ends:,.1f} s (cursor-expires)"
    return f"nobody has been attached for {found['idle_s']:,.1f} s; {expires}"


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
        *(shown_seconds(lag["oldest_s"]), each["blocked"] if each["holds_back"] else 0),
    )
    return tuple(cell(value) for value in values)
