"""Topology commands: declare, bind, unbind, purge, delete, list, definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent, print_deleted
from penstock.cli.common import (
    JSON,
    URL,
    OneOf,
    control_session,
    counted,
    limits,
    main,
    pairs,
    percent,
    print_result,
    report_errors,
)
from penstock.cli.completion import names_of, names_of_target
from penstock.cli.cursors import asked_last, delete_cursor, positions_of, reader_of, seconds
from penstock.cli.lists import LIST, Columns, Shown, Value, print_list

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

ARGUMENTS = click.argument("words", metavar="[ARG=VALUE]...", nargs=-1)
DURABLE = click.option("--durable", is_flag=True, help="Make it durable; clients must declare it so too.")
AUTO_DELETE = click.option("--auto-delete", is_flag=True, help="Delete it with its last consumer or binding.")


def _call(connection: Connection, method: str, **fields: object) -> dict[str, Any]:
    """Call a method of AMQP 0-9-1; return what it answers."""
    found: dict[str, Any] = connection.run(connection.core().calling(method, fields))
    return found


@main.group()
def declare() -> None:
    """Declare a queue, an exchange or a virtual host."""


@declare.command("queue")
@click.argument("name")
@ARGUMENTS
@DURABLE
@AUTO_DELETE
@JSON
@URL
def declare_queue(name: str, words: tuple[str, ...], durable: bool, auto_delete: bool, as_json: bool, url: str) -> None:
    """Declare queue NAME, or check that it exists with the same attributes. docs/settings.md lists the arguments.

    For example: penstock declare queue orders --durable capacity-bytes=64MiB hold-deadline=10
    """
    with report_errors():
        arguments = pairs(words)
        with control_session(url) as connection:
            fields = {"queue": name, "durable": durable, "auto_delete": auto_delete, "arguments": arguments}
            found = _call(connection, "queue.declare", **fields)
        queue, messages, consumers = found["queue"], found["message_count"], found["consumer_count"]
        answer: dict[str, object] = {"queue": queue, "messages": messages, "consumers": consumers}
        print_result(
            as_json,
            answer,
            f"queue {queue} is declared; it has {counted(messages, 'message')} and {counted(consumers, 'consumer')}",
        )


@declare.command("exchange")
@click.argument("name")
@ARGUMENTS
@click.option(
    "--type", "kind", default="direct", show_default=True, help="Set the type: direct, fanout, topic or headers."
)
@DURABLE
@AUTO_DELETE
@click.option("--internal", is_flag=True, help="Accept publishes only from other exchanges.")
@JSON
@URL
def declare_exchange(
    name: str,
    words: tuple[str, ...],
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    as_json: bool,
    url: str,
) -> None:
    """Declare exchange NAME, or check that it exists with the same attributes.

    For example: penstock declare exchange logs --type topic --durable
    """
    with report_errors():
        arguments = pairs(words)
        with control_session(url) as connection:
            fields = {"exchange": name, "type": kind, "durable": durable, "auto_delete": auto_delete}
            _call(connection, "exchange.declare", **fields, internal=internal, arguments=arguments)
        print_result(as_json, {"exchange": name, "type": kind}, f"exchange {name} ({kind}) is declared")


@declare.command("vhost")
@click.argument("name")
@JSON
@URL
def declare_vhost(name: str, as_json: bool, url: str) -> None:
    """Create virtual host NAME. It is durable if the broker has a store (not with `penstock serve --memory`).

    For example: penstock declare vhost staging
    """
    with control_session(url) as control:
        created = control.declare_vhost(name)
        print_result(
            as_json,
            {"vhost": name, "created": created},
            f"vhost {name} {'is created' if created else 'exists already'}",
        )


KEY = click.option("--key", default="", help="Set the binding key; topic keys may have * and #.")
TO_EXCHANGE = click.option(
    "--exchange", "to_exchange", is_flag=True, help="Bind to an exchange TARGET, not to a queue."
)


@main.command()
@click.argument("source", shell_complete=names_of("exchanges"))
@click.argument("target", shell_complete=names_of_target)
@ARGUMENTS
@KEY
@TO_EXCHANGE
@JSON
@URL
def bind(
    source: str, target: str, words: tuple[str, ...], key: str, to_exchange: bool, as_json: bool, url: str
) -> None:
    """Bind queue TARGET to exchange SOURCE: publishes with a matching key reach the queue.

    For example: penstock bind logs orders --key 'eu.#'. A binding to a headers exchange has arguments: penstock bind
    papers orders x-match=any format=pdf
    """
    with report_errors():
        arguments = pairs(words)
        with control_session(url) as connection:
            _call_binding(connection, "bind", source, target, key, arguments, to_exchange)
        print_result(
            as_json, _binding(source, target, key, arguments, to_exchange), f"{target} is bound to {source}{_by(key)}"
        )


@main.command()
@click.argument("source", shell_complete=names_of("exchanges"))
@click.argument("target", shell_complete=names_of_target)
@ARGUMENTS
@KEY
@TO_EXCHANGE
@JSON
@URL
def unbind(
    source: str, target: str, words: tuple[str, ...], key: str, to_exchange: bool, as_json: bool, url: str
) -> None:
    """Remove a binding with the same SOURCE, TARGET, key and arguments. A missing binding is no error.

    For example: penstock unbind logs orders --key 'eu.#'
    """
    with report_errors():
        arguments = pairs(words)
        with control_session(url) as connection:
            _call_binding(connection, "unbind", source, target, key, arguments, to_exchange)
        answer = _binding(source, target, key, arguments, to_exchange)
        print_result(as_json, answer, f"{target} is not bound to {source}{_by(key)} any more")


def _call_binding(
    connection: Connection,
    act: str,
    source: str,
    target: str,
    key: str,
    arguments: dict[str, object],
    to_exchange: bool,
) -> None:
    """Bind or unbind; arguments may have any name."""
    if to_exchange:
        place = {"destination": target, "source": source}
        _call(connection, f"exchange.{act}", **place, routing_key=key, arguments=arguments)
    else:
        _call(connection, f"queue.{act}", queue=target, exchange=source, routing_key=key, arguments=arguments)


def _binding(source: str, target: str, key: str, arguments: dict[str, object], to_exchange: bool) -> dict[str, object]:
    kind = "exchange" if to_exchange else "queue"
    return {
        "source": source,
        "destination": target,
        "destination_type": kind,
        "routing_key": key,
        "arguments": arguments,
    }


def _by(key: str) -> str:
    return f" by '{key}'" if key else ""


@main.command()
@click.argument("queue", shell_complete=names_of("queues"))
@IF_EXISTS
@JSON
@URL
def purge(queue: str, if_exists: bool, as_json: bool, url: str) -> None:
    """Drop all ready messages of QUEUE; unacknowledged messages stay.

    For example: penstock purge orders
    """
    absent = maybe_absent(if_exists, as_json, {"queue": queue}, f"queue {queue} does not exist")
    with control_session(url) as connection, absent:
        count = connection.purge_queue(queue)
        print_result(
            as_json, {"queue": queue, "purged": count}, f"queue {queue} is purged of {counted(count, 'message')}"
        )


@main.group()
def delete() -> None:
    """Delete a queue, an exchange, a cursor or a virtual host. Exit code 1: it does not exist."""


@delete.command("queue")
@click.argument("name", shell_complete=names_of("queues"))
@click.option("--if-unused", is_flag=True, help="Delete it only if it has no consumers.")
@click.option("--if-empty", is_flag=True, help="Delete it only if it has no messages.")
@IF_EXISTS
@JSON
@URL
def delete_queue(name: str, if_unused: bool, if_empty: bool, if_exists: bool, as_json: bool, url: str) -> None:
    """Delete queue NAME with its messages and bindings.

    For example: penstock delete queue orders --if-empty
    """
    with control_session(url) as connection:

        def act() -> dict[str, object]:
            _call(connection, "queue.declare", queue=name, passive=True)  # queue.delete of a missing queue succeeds.
            return {"messages": connection.delete_queue(name, if_unused=if_unused, if_empty=if_empty)}

        print_deleted(as_json, "queue", name, if_exists, act)


@delete.command("exchange")
@click.argument("name", shell_complete=names_of("exchanges"))
@click.option("--if-unused", is_flag=True, help="Delete it only if nothing is bound to it.")
@IF_EXISTS
@JSON
@URL
def delete_exchange(name: str, if_unused: bool, if_exists: bool, as_json: bool, url: str) -> None:
    """Delete exchange NAME with its bindings.

    For example: penstock delete exchange logs --if-unused
    """
    with control_session(url) as connection:

        def act() -> dict[str, object]:
            _call(connection, "exchange.declare", exchange=name, passive=True)
            connection.delete_exchange(name, if_unused=if_unused)
            return {}

        print_deleted(as_json, "exchange", name, if_exists, act)


delete.add_command(delete_cursor, "cursor")


@delete.command("vhost")
@click.argument("name", shell_complete=names_of("vhosts"))
@IF_EXISTS
@JSON
@URL
def delete_vhost(name: str, if_exists: bool, as_json: bool, url: str) -> None:
    """Delete virtual host NAME with all its objects, and close its connections. --url must name another one.

    For example: penstock delete vhost staging
    """
    with control_session(url) as control:

        def act() -> dict[str, object]:
            control.delete_vhost(name)
            return {}

        print_deleted(as_json, "vhost", name, if_exists, act)


def _credit(links: list[dict[str, Any]]) -> int | None:
    """Return the credit of the links of a session that have senders; None for a channel."""
    granted = [link["credit"]["credit"] for link in links if "credit" in link]
    return sum(granted) if granted else None


def _consumer_tag(item: dict[str, Any]) -> str:
    return str(item["consumer_tag"]) + (" (browses)" if item["penstock"]["browses"] else "")


def _columns(names: str, texts: dict[str, Callable[[Any], str]] | None = None, **computed: Value) -> Columns:
    """Return columns by their names, each with its path, or the name of a function, where that is another."""
    pairs = [(name, path) for name, _, path in (word.partition("=") for word in names.split(", "))]
    paths: dict[str, Value | str] = {name: computed.get(path, path) for name, path in pairs if path}
    return Columns(tuple(name for name, _ in pairs), paths, texts or {})


COLUMNS: dict[str, Columns] = {
    "queues": _columns(
        "name, messages, bytes=penstock.depth.bytes, capacity=penstock.capacity, fill=penstock.fill_percent"
        ", messages_unacknowledged, consumers, gate=gate, blocked=penstock.gate.blocked, in/s=penstock.rates.publish"
        ", out/s=penstock.rates.deliver_get, policy, durable, arguments",
        {"capacity": limits, "fill": percent},
        gate=lambda item: "open" if item["penstock"]["gate"]["open"] else "closed",
    ),
    "exchanges": _columns("name, type, durable, auto_delete, internal, policy, arguments"),
    "bindings": _columns("source, routing_key, destination, destination_type, arguments"),
    "connections": _columns(
        "name, user, protocol, state, channels, recv_oct, send_oct, client=client_properties.product"
    ),
    "channels": _columns(
        "name, messages_unacknowledged, consumer_count, prefetch_count, confirm, held=penstock.held.messages"
        ", withheld=penstock.withheld, credit=credit",
        credit=lambda item: _credit(item["penstock"].get("links", [])),
    ),
    "consumers": _columns(
        "queue=queue.name, consumer_tag=tag, channel=channel_details.name, prefetch_count, credit=penstock.link_credit"
        ", window=penstock.adaptive_window.messages, window_bytes=penstock.window_bytes, ack_required, waits for=waits",
        tag=_consumer_tag,
        waits=lambda item: "; ".join(item["penstock"]["obstacles"]) or None,
    ),
    "cursors": _columns(
        "name, queues=positions, lag=lag.messages, bytes=lag.bytes, oldest=lag.oldest_s, blocks, reader=reader"
        ", asked last=asked",
        {"oldest": seconds},
        positions=positions_of,
        reader=reader_of,
        asked=asked_last,
    ),
    "vhosts": _columns("name, messages, messages_ready, messages_unacknowledged"),
}
"""Columns of each list: their names, with the path of the value or the name of a function where that is another."""
BY_NAME = ("queues", "exchanges", "consumers", "cursors", "vhosts")
"""Kinds that are listed in the order of names; the broker sends them in the order of creation."""


@main.command("list")
@click.argument("kind", type=OneOf(list(COLUMNS)))
@click.option("--everywhere", is_flag=True, help="List all virtual hosts, not only the one in --url.")
@LIST
@URL
def list_(kind: str, everywhere: bool, shown: Shown, url: str) -> None:
    """List the queues, exchanges, bindings, connections, channels, consumers, cursors or virtual hosts.

    The fields of --json are those of the HTTP API (docs/http.md). For example: penstock list queues --filter
    gate=closed --sort -messages --limit 20
    """
    with control_session(url) as control:
        found = list(control.list(kind, everywhere=everywhere))
    if kind in BY_NAME:
        found.sort(key=lambda item: str(item["queue"]["name"] if kind == "consumers" else item["name"]))
    columns = COLUMNS[kind]
    if everywhere and kind != "vhosts":
        columns = columns._replace(default=(*columns.default, "vhost"))
    with report_errors():
        print_list(found, columns, shown)
