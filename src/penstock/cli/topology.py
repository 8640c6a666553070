"""Topology commands: declare, bind, unbind, purge, delete, list, definitions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent, print_deleted
from penstock.cli.common import (
    JSON,
    URL,
    OneOf,
    connected,
    control_session,
    counted,
    limits,
    main,
    pairs,
    percent,
    print_result,
    report_errors,
    say,
    say_json,
    write_private,
    writing,
)
from penstock.cli.completion import names_of, names_of_target
from penstock.cli.cursors import asked_last, delete_cursor, lag_of, positions_of, reader_of, seconds
from penstock.cli.lists import LIST, Columns, Shown, print_list
from penstock.errors import ConfigError
from penstock.setting_names.escapes import printable_json

if TYPE_CHECKING:
    from penstock.cli.conversions.conversion import Conversion

ARGUMENTS = click.argument("words", metavar="[ARG=VALUE]...", nargs=-1)
DURABLE = click.option("--durable", is_flag=True, help="Make it durable; clients must declare it so too.")
AUTO_DELETE = click.option("--auto-delete", is_flag=True, help="Delete it with its last consumer or binding.")


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
        with connected(url) as connection:
            queue, messages, consumers = connection.channel().queue_declare(
                name, durable=durable, auto_delete=auto_delete, arguments=arguments
            )
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
        with connected(url) as connection:
            connection.channel().exchange_declare(
                name, kind, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
            )
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
        with connected(url) as connection:
            channel = connection.channel()
            if to_exchange:
                channel.exchange_bind(target, source, key, arguments)
            else:
                channel.queue_bind(target, source, key, arguments)
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
        with connected(url) as connection:
            channel = connection.channel()
            if to_exchange:
                channel.exchange_unbind(target, source, key, arguments)
            else:
                channel.queue_unbind(target, source, key, arguments)
        answer = _binding(source, target, key, arguments, to_exchange)
        print_result(as_json, answer, f"{target} is not bound to {source}{_by(key)} any more")


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
    with connected(url) as connection, absent:
        count = connection.channel().queue_purge(queue)
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
    with connected(url) as connection:
        channel = connection.channel()

        def act() -> dict[str, object]:
            channel.queue_declare(name, passive=True)  # queue.delete of a missing queue succeeds.
            return {"messages": channel.queue_delete(name, if_unused=if_unused, if_empty=if_empty)}

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
    with connected(url) as connection:
        channel = connection.channel()

        def act() -> dict[str, object]:
            channel.exchange_declare(name, passive=True)
            channel.exchange_delete(name, if_unused=if_unused)
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
        found = list(control.listed(kind, everywhere))
    if kind in BY_NAME:
        found.sort(key=lambda item: str(item["queue"]["name"] if kind == "consumers" else item["name"]))
    columns = (*COLUMNS[kind], "vhost") if everywhere and kind != "vhosts" else COLUMNS[kind]
    with report_errors():
        print_list(found, Columns(columns, OWN.get(kind, {}), TEXTS.get(kind, {})), shown)


@main.group()
def definitions() -> None:
    """Export definitions to a file, or import them: virtual hosts, queues, exchanges, bindings, policies, parameters.

    The format is RabbitMQ's, in both directions. An import also reads configurations of Artemis and Qpid.
    """


HERE = click.option("--here", is_flag=True, help="Export only the virtual host in --url, not all.")


@definitions.command("export")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")
@HERE
@click.option("--for-rabbitmq", is_flag=True, help="Leave out keys of policies that RabbitMQ refuses.")
@JSON
@URL
def export(file: Path, here: bool, for_rabbitmq: bool, as_json: bool, url: str) -> None:
    """Write the definitions to FILE, or to standard output.

    FILE can only be read by its owner: hashes and URIs with passwords are in it. For example:
    penstock definitions export broker.json
    """
    with control_session(url) as control:
        found = control.export_definitions(not here, for_rabbitmq)
        text = printable_json(json.dumps(found, indent=2, ensure_ascii=False)) + "\n"
        if str(file) == "-":
            with writing():
                click.echo(text, nl=False)
            return
        write_private(file, text)
        counts = {name: len(items) for name, items in found.items() if isinstance(items, list)}
        print_result(as_json, {"file": str(file), "exported": counts}, f"{file}: {_counted(counts)}")


FROM = click.option(
    "--from",
    "source",
    type=OneOf(["artemis", "qpid-java", "qpid-config"]),
    help="Convert another broker's file.",
)
OUTPUT = click.option(
    "--output", type=click.Path(path_type=Path), help="With --from, write the definitions to this file instead."
)


@definitions.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--here", is_flag=True, help="Import entries without a virtual host into the one in --url.")
@click.option("--dry-run", is_flag=True, help="Change nothing; tell line by line what the import would do.")
@click.option("--skip", multiple=True, metavar="KIND", help="Leave out a kind, such as policies; may be given again.")
@FROM
@OUTPUT
@JSON
@URL
def import_(
    file: Path,
    here: bool,
    dry_run: bool,
    skip: tuple[str, ...],
    source: str | None,
    output: Path | None,
    as_json: bool,
    url: str,
) -> None:
    """Import the definitions in FILE (- is standard input): all, or none and an error with line and key.

    Existing queues and exchanges stay; a difference from FILE is an error. Policies and parameters are changed.
    With --dry-run the exit code is 1 if anything would be refused. With --from, FILE is the configuration of another
    broker, and what has no meaning here is told. For example: penstock definitions import broker.json
    """
    from penstock.client.errors import ControlError
    from penstock.client.policy_control import import_definitions

    with report_errors():
        found = None if source is None else _converted(source, file)
        text = _decoded(file) if found is None else found.text()
        if output is not None:
            _write_converted(output, found, as_json)
            return
        with control_session(url) as control:
            try:
                everywhere = not here and found is None  # Other brokers' files need not name a virtual host.
                answer = import_definitions(control, text, everywhere=everywhere, skip=skip, dry_run=dry_run)
            except ControlError as error:
                if found is None:
                    raise
                raise ConfigError(found.relocated(str(error))) from None
    if found is not None:
        found.complete(answer)
    if dry_run:
        _print_differences(answer, as_json)
        return
    sentence = f"{_counted(answer['made'])} created"
    if answer["changed"]:
        sentence += f"; {_counted(answer['changed'])} changed"
    if any(answer["not_imported"].values()):
        sentence += f"; {_counted(answer['not_imported'])} not imported"
    print_result(as_json, answer, sentence, *answer["notes"], *_remarks(answer))


def _octets(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read '{file}': {error.strerror}") from None


def _decoded(file: Path) -> str:
    try:
        return _octets(file).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"'{file}' is not UTF-8: {error.reason} at octet {error.start}") from None


def _converted(source: str, file: Path) -> Conversion:
    """Return the definitions of another broker's file. Raises ConfigError with file and line."""
    from penstock.cli.conversions import FORMATS

    try:
        return FORMATS[source](_octets(file))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def _write_converted(output: Path, found: Conversion | None, as_json: bool) -> None:
    """Write converted definitions to a file, or to standard output for -; then the remarks go to standard error."""
    if found is None:
        raise ConfigError("--output needs --from: it is for converted definitions")
    answer: dict[str, Any] = {"file": str(output), "converted": {name: len(of) for name, of in found.entries.items()}}
    found.complete(answer)
    if str(output) == "-":
        with writing():
            click.echo(found.text(), nl=False)
        for remark in _remarks(answer):
            say(remark, err=True)
        return
    write_private(output, found.text())
    print_result(as_json, answer, f"{output}: {_counted(answer['converted'])}", *_remarks(answer))


def _remarks(answer: dict[str, Any]) -> list[str]:
    """Return what a conversion has left out, or has made something else of, as sentences."""
    return [
        f"line {each['line']}: {each['subject']}: {'not converted: ' if each['left'] else ''}{each['reason']}"
        for each in answer.get("remarks", [])
    ]


def _print_differences(answer: dict[str, Any], as_json: bool) -> None:
    """Print what an import would do; exit with 1 if it would be refused."""
    found = answer["differences"]
    refused = sum(1 for each in found if each["change"] == "refused")
    if as_json:
        say_json(answer)
    else:
        for each in found:
            say(f"line {each['line']}: {each['subject']}: {_difference(each)}")
        for remark in _remarks(answer):
            say(remark)
        counts = {change: sum(1 for each in found if each["change"] == change) for change in ("created", "changed")}
        unchanged = sum(answer["unchanged"].values())
        said = f"{counts['created']:,} to be created, {counts['changed']:,} to be changed, {unchanged:,} unchanged"
        skipped = answer["not_imported"]
        say(said + (f"; {_counted(skipped)} not imported" if any(skipped.values()) else ""))
        if refused:
            say(f"{refused:,} refused: nothing would be imported")
    if refused:
        sys.exit(1)


def _difference(each: dict[str, Any]) -> str:
    """Return a difference of a definition as a clause."""
    said = str(each["change"])
    if "reason" in each:
        said += f": {each['reason']}"
    details = [
        f"{detail['key']} from {detail['from']} to {detail['to']}" if detail["from"] else detail["key"]
        for detail in each.get("details", [])
    ]
    if details:
        said += f": {', '.join(details)}"
    return f"{said}; {each['note']}" if "note" in each else said


def _counted(counts: dict[str, int]) -> str:
    one = {name: name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s") for name in counts}
    parts = [
        f"1 {one[name]}".replace("_", " ") if count == 1 else f"{count:,} {name}".replace("_", " ")
        for name, count in counts.items()
        if count
    ]
    return ", ".join(parts) or "nothing"
