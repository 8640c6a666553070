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
from penstock.cli.cursors import asked_last, delete_cursor, lag_of, positions_of, reader_of, seconds
from penstock.cli.lists import LIST, Columns, Shown, print_list

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


COLUMNS: dict[str, tuple[str, ...]] = {
    "queues": (
        *("name", "messages", "bytes", "capacity", "fill", "messages_unacknowledged", "consumers", "gate", "blocked"),
        *("in/s", "out/s", "policy", "durable", "arguments"),
    ),
    "exchanges": ("name", "type", "durable", "auto_delete", "internal", "policy", "arguments"),
    "bindings": ("source", "routing_key", "destination", "destination_type", "arguments"),
    "connections": ("name", "user", "protocol", "state", "channels", "recv_oct", "send_oct", "client"),
    "channels": (
        "name",
        "messages_unacknowledged",
        "consumer_count",
        "prefetch_count",
        "confirm",
        "held",
        "withheld",
        "credit",
    ),
    "consumers": (
        *("queue", "consumer_tag", "channel", "prefetch_count", "credit", "window", "window_bytes", "ack_required"),
        "waits for",
    ),
    "cursors": ("name", "queues", "lag", "bytes", "oldest", "blocks", "reader", "asked last"),
    "vhosts": ("name", "messages", "messages_ready", "messages_unacknowledged"),
}
OWN: dict[str, dict[str, Callable[[dict[str, Any]], object]]] = {
    "queues": {
        "bytes": lambda item: item["penstock"]["depth"]["bytes"],
        "capacity": lambda item: item["penstock"]["capacity"],
        "fill": lambda item: item["penstock"]["fill_percent"],
        "gate": lambda item: "open" if item["penstock"]["gate"]["open"] else "closed",
        "blocked": lambda item: item["penstock"]["gate"]["blocked"],
        "in/s": lambda item: item["penstock"]["rates"]["publish"],
        "out/s": lambda item: item["penstock"]["rates"]["deliver_get"],
    },
    "exchanges": {"policy": lambda item: item.get("policy")},
    "connections": {"client": lambda item: item["client_properties"].get("product")},
    "channels": {
        "held": lambda item: item["penstock"]["held"]["messages"],
        "withheld": lambda item: item["penstock"]["withheld"],
        "credit": lambda item: _credit(item["penstock"].get("links", [])),
    },
    "consumers": {
        "queue": lambda item: item["queue"]["name"],
        "consumer_tag": lambda item: item["consumer_tag"] + (" (browses)" if item["penstock"]["browses"] else ""),
        "channel": lambda item: item["channel_details"]["name"],
        "credit": lambda item: item["penstock"]["link_credit"],
        "window": lambda item: (item["penstock"]["adaptive_window"] or {}).get("messages"),
        "window_bytes": lambda item: item["penstock"].get("window_bytes"),
        "waits for": lambda item: "; ".join(item["penstock"]["obstacles"]) or None,
    },
    "cursors": {
        "queues": positions_of,
        "lag": lambda item: lag_of(item)["messages"],
        "bytes": lambda item: lag_of(item)["bytes"],
        "oldest": lambda item: lag_of(item)["oldest_s"],
        "reader": reader_of,
        "asked last": asked_last,
    },
}
"""Columns that are computed from other fields."""
TEXTS: dict[str, dict[str, Callable[[Any], str]]] = {
    "queues": {"capacity": limits, "fill": percent},
    "cursors": {"oldest": seconds},
}
"""Texts of values that are not shown as they are."""


def _credit(links: list[dict[str, Any]]) -> int | None:
    """Return the credit of the links of a session that have senders; None for a channel."""
    granted = [link["credit"]["credit"] for link in links if "credit" in link]
    return sum(granted) if granted else None


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
    columns = (*COLUMNS[kind], "vhost") if everywhere and kind != "vhosts" else COLUMNS[kind]
    with report_errors():
        print_list(found, Columns(columns, OWN.get(kind, {}), TEXTS.get(kind, {})), shown)
