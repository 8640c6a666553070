"""`penstock connection close`."""

from __future__ import annotations

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent
from penstock.cli.common import JSON, URL, control_session, main, print_result
from penstock.cli.completion import names_of


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
