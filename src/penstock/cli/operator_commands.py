"""Operator commands: why, status, block, unblock, set, unset, settings, show."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent
from penstock.cli.common import (
    JSON,
    URL,
    OneOf,
    control_session,
    counted,
    limits,
    main,
    percent,
    print_result,
    report_errors,
    say,
    say_json,
)
from penstock.cli.completion import names_by_scope, names_of
from penstock.cli.lists import LIST, Columns, Shown, print_list
from penstock.cli.near_names import near_match
from penstock.texts import shown_bytes, shown_time

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

CONNECTIONS_LISTED = 100
"""Most connections that `penstock status` lists; the others are counted."""


@main.command()
@click.argument("queue", required=False, shell_complete=names_of("queues"))
@click.option("--connection", metavar="N|NAME", help="Explain a connection, by its number or name in the log.")
@click.option("--channel", metavar="CON/CH", help="Explain a channel, such as 2/1.")
@click.option("--link", metavar="NAME", help="Explain a link of AMQP 1.0, such as why its sender has no credit.")
@click.option("--user", metavar="NAME", help="Explain all connections of a user.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer, for programs.")
@URL
def why(
    queue: str | None,
    connection: str | None,
    channel: str | None,
    link: str | None,
    user: str | None,
    as_json: bool,
    url: str,
) -> None:
    """Explain why nothing moves: the producers that QUEUE blocks, since when and why, and what the queue waits for.

    With an option, explain a connection, a channel, a link or a user: what blocks its producers, and why its consumers
    get no messages. Without any: everything that is blocked, longest first, with advice. For example: penstock why
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


SCOPES = OneOf(["queue", "address", "vhost", "user", "connection"])


@main.command()
@click.argument("scope", type=SCOPES)
@click.argument("name", shell_complete=names_by_scope)
@click.option("--reason", default="", help="Send this reason to blocked clients.")
@JSON
@URL
def block(scope: str, name: str, reason: str, as_json: bool, url: str) -> None:
    """Hold all publishes to a queue, address or virtual host, or of a user or connection, until `penstock unblock`.

    Consumers continue. A publish is refused at its hold deadline, as with any other gate. For example: penstock block
    queue orders --reason 'database upgrade'
    """
    with control_session(url) as control:
        answer = control.block(scope, name, reason)
        print_result(as_json, answer, f"{scope} {name} is blocked; `penstock unblock {scope} {name}` releases it")


@main.command()
@click.argument("scope", type=SCOPES)
@click.argument("name", shell_complete=names_by_scope)
@IF_EXISTS
@JSON
@URL
def unblock(scope: str, name: str, if_exists: bool, as_json: bool, url: str) -> None:
    """Release the publishes that `penstock block` holds.

    For example: penstock unblock queue orders
    """
    absent = maybe_absent(if_exists, as_json, {scope: name}, f"{scope} {name} is not blocked")
    with control_session(url) as control, absent:
        print_result(as_json, control.unblock(scope, name), f"{scope} {name} is not blocked any more")


def _disk(disk: dict[str, Any]) -> str:
    """Describe the store's disk usage and its closed gates."""
    closed = [f"{gate['name']} closed: {gate['cause']}" for gate in disk["gates"] if not gate["open"]]
    free = "" if disk["free"] is None else f", {disk['free']:,} bytes free on its disk"
    return f"store: {disk['used']:,} bytes used{free}; {'; '.join(closed) or 'its gates are open'}"


@main.command()
@JSON
@URL
def status(as_json: bool, url: str) -> None:
    """List the queues of a broker (depth, capacity, fill, gate, blocked producers) and its connections.

    For example: penstock status
    """
    with control_session(url) as control:
        answer = control.status()
    if as_json:
        say_json(answer, indent=2)
        return
    say(f"penstock {answer['version']}, vhost {answer['vhost']}, {counted(answer['connection_count'], 'connection')}")
    say(_turns(answer["turns"], answer["slowed"]))
    if answer.get("disk"):
        say(_disk(answer["disk"]))
    for each in answer["certificates"]:
        if each["warning"]:
            say(str(each["warning"]))
    for each in answer["queues"]:
        say(_queue(each))
    unlisted = answer["queue_count"] - len(answer["queues"])
    if unlisted > 0:
        say(f"and {unlisted:,} more queues; `penstock list queues` lists all")
    for each in answer["connections"][:CONNECTIONS_LISTED]:
        channels = "1 channel" if each["channels"] == 1 else f"{each['channels']:,} channels"
        state = ", blocked" if each["blocked"] else ""
        if each["held"]["messages"]:
            state += f", {each['held']['messages']:,} publishes held"
        say(f"{each['name']}: {each['product'] or 'an unnamed client'}, {channels}{state}")
    more = answer["connection_count"] - CONNECTIONS_LISTED
    if more > 0:
        say(f"and {more:,} more connections")


def _queue(each: dict[str, Any]) -> str:
    """Return a queue as one line."""
    depth, gate = each["depth"], each["gate"]
    fill = f" ({percent(each['fill_percent'])} full)" if each["fill_percent"] is not None else ""
    return (
        f"{each['queue']}: {counted(depth['messages'], 'message')}, {depth['bytes']:,} bytes, "
        f"{'of at most ' if any(each['capacity'].values()) else ''}{limits(each['capacity'])}{fill}, "
        f"gate {'open' if gate['open'] else 'closed'}, {counted(gate['blocked'], 'producer')} blocked, "
        f"{counted(each['consumers'], 'consumer')}{''.join(f', cursor {name}' for name in each['cursors'])}, "
        f"in {each['rates']['publish']:,.1f}/s, out {each['rates']['deliver_get']:,.1f}/s"
    )


def _turns(turns: dict[str, Any], slowed: list[str]) -> str:
    """Return the longest turns, and the connections slowed by their own work, as one line."""
    longest = []
    for when, key in (("lately", "recent"), ("since the start", "longest")):
        turn = turns[key]
        whose = f" ({turn['connection_work']:,} of {turn['work']:,} units of work for {turn['connection']})"
        longest.append(f"{turn['ms']:.1f} ms {when}{whose if turn['connection'] else ''}")
    by_work = f"; slowed by their own work: {', '.join(slowed)}" if slowed else ""
    return f"longest turn: {', '.join(longest)}{by_work}"


ALL_SCOPES = OneOf(["queue", "address", "vhost", "user", "connection", "producer", "broker"])


@main.command("set")
@click.argument("scope", type=ALL_SCOPES)
@click.argument("words", metavar="[PATTERN] NAME=VALUE...", nargs=-1, required=True)
@click.option("--override", is_flag=True, help="Be stronger than arguments of queues, and than all policies.")
@JSON
@URL
def set_(scope: str, words: tuple[str, ...], override: bool, as_json: bool, url: str) -> None:
    """Set flow-control settings for all names that match PATTERN, at once and until `penstock unset`.

    In a pattern * is one word and # any number of words between dots; the most specific pattern wins. The broker has no
    pattern. The exit code is 1 if a stronger source hides a setting. For example:
    penstock set queue 'orders.#' capacity-messages=10000 stop-percent=60
    """
    from penstock.errors import ConfigError

    with report_errors():
        pattern, given = ("", words) if scope == "broker" else (words[0], words[1:])
        settings: dict[str, object] = {}
        if not given:
            raise ConfigError(f"no settings for {scope} '{pattern}': give at least one NAME=VALUE after the pattern")
        for word in given:
            name, equals, value = word.partition("=")
            if not equals:
                raise ConfigError(f"'{word}' is not NAME=VALUE: give a setting such as capacity-messages=10000")
            if name in settings:
                raise ConfigError(f"setting '{name}' is given twice: give it once")
            settings[name] = value
        with control_session(url) as control:
            answer = control.set(scope, pattern, settings, override=override)
            _print_settings(answer, as_json, control)
            if answer.get("warnings"):
                sys.exit(1)


@main.command()
@click.argument("scope", type=ALL_SCOPES)
@click.argument("words", metavar="[PATTERN] [NAME...]", nargs=-1)
@IF_EXISTS
@JSON
@URL
def unset(scope: str, words: tuple[str, ...], if_exists: bool, as_json: bool, url: str) -> None:
    """Remove settings of PATTERN that `penstock set` has made: the named ones, or all.

    For example: penstock unset queue 'orders.#' stop-percent
    """
    from penstock.errors import ConfigError

    with report_errors():
        if scope != "broker" and not words:
            raise ConfigError(f"scope {scope} needs the pattern to unset: `penstock settings` lists all patterns")
        pattern, names = ("", words) if scope == "broker" else (words[0], words[1:])
        of = f"{scope} {pattern}".strip()
        absent = maybe_absent(if_exists, as_json, {"scope": scope, "pattern": pattern}, f"nothing is set for {of}")
        with control_session(url) as control, absent:
            _print_settings(control.unset(scope, pattern, names or None), as_json, control)


def _print_settings(answer: dict[str, Any], as_json: bool, control: Connection) -> None:
    if as_json:
        say_json(answer)
        return
    shown = " ".join(f"{name}={value}" for name, value in answer["settings"].items())
    say(" ".join(part for part in (answer["scope"], answer["pattern"], shown or "nothing set by command") if part))
    warnings = answer.get("warnings", ())
    for sentence in answer["sentences"]:
        say(sentence + near_match(control, sentence), err=sentence in warnings)


@main.command()
@LIST
@URL
def settings(shown: Shown, url: str) -> None:
    """List all settings by pattern, from commands and from the settings file.

    For example: penstock settings --filter scope=queue
    """
    with control_session(url) as control:
        found = control.settings()
    rows = [
        {"scope": each["scope"], "pattern": each["pattern"], "setting": f"{name}={value}", "by": by}
        for each in found
        for by in ("command", "override", "file")
        for name, value in each.get(by, {}).items()
    ]
    with report_errors():
        print_list(found if shown.as_json else rows, Columns(("scope", "pattern", "setting", "by")), shown, whole="")


@main.command()
@click.argument("scope", type=ALL_SCOPES)
@click.argument("name", default="", shell_complete=names_by_scope)
@LIST
@URL
def show(scope: str, name: str, shown: Shown, url: str) -> None:
    """Show the effective settings of a queue or another object, each with its source. The broker has no NAME.

    A value in parentheses is one that the source before it hides.

    For example: penstock show queue orders, or penstock show broker
    """
    with control_session(url) as control:
        found = control.show(scope, name)
    rows: list[dict[str, Any]] = []
    for row in found:
        rows += [row, *({**each, "setting": row["setting"], "hidden": True} for each in row.get("hides", ()))]
    columns = Columns(("setting", "value", "from"), of_items={"value": _value})
    with report_errors():
        print_list(found if shown.as_json else rows, columns, shown, whole="")


def _value(row: dict[str, Any]) -> str:
    """Return a value with its unit; one that a stronger source hides is in parentheses."""
    value, unit = row["value"], row.get("unit", "")
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit == "ms":
            text = shown_time(value)
        elif unit == "s":
            text = shown_time(round(value * 1000, 3))
        elif unit == "bytes":
            text = shown_bytes(value) if isinstance(value, int) else f"{value} bytes"
    return f"({text})" if row.get("hidden") else text


# Connections


@main.group()
def connection() -> None:
    """Close connections of clients. `penstock list connections` lists them."""


@connection.command("close")
@click.argument("name", shell_complete=names_of("connections"))
@click.option("--reason", default="", help="Send this reason to the client.")
@IF_EXISTS
@JSON
@URL
def close(name: str, reason: str, if_exists: bool, as_json: bool, url: str) -> None:
    """Close connection NAME: its number, its name in the log, its client's connection_name or port.

    Its client hears connection-forced (320) with the reason. It may connect again; `penstock block user NAME` holds
    publishes. For example: penstock connection close 2 --reason 'maintenance'
    """
    absent = maybe_absent(if_exists, as_json, {"connection": name}, f"connection {name} does not exist")
    with control_session(url) as control, absent:
        answer = control.request("connection.close", connection=name, reason=reason)
        print_result(as_json, answer, f"connection {answer['closed']} is closed")


# Sinks


@main.group()
def sink() -> None:
    """Hand over a query that publishes with the delivery dedup or transactional."""


@sink.command("assign")
@click.argument("query")
@click.argument("user")
@JSON
@URL
def assign(query: str, user: str, as_json: bool, url: str) -> None:
    """Let USER continue QUERY: the id of a stream, or its txnAppId. It belonged to the user who began it.

    Tasks of the former user take no more rows. For example: penstock sink assign nightly-bills etl2
    """
    with control_session(url) as control:
        answer = control.request("sink.assign", query=query, user=user)
        said = f"query {query} belongs to user {user} now, at {counted(answer['targets'], 'target')}"
        print_result(as_json, answer, said)
