"""`penstock sink assign`."""

from __future__ import annotations

import click

from penstock.cli.common import JSON, URL, control_session, counted, main, print_result


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
