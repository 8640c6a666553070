"""The table of commands and that of operations agree, and sentences say what was done."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.operations.command import Command
from penstock.operations.command_lists import LISTINGS
from penstock.operations.commands import COMMANDS, METHODS, NOUNS
from penstock.operations.table import CONTROL

ROWS = {row.path: row for row in COMMANDS}
BY_HAND = {
    "alarm.list": "sentences with an exit code, and changes as they come",
    "status": "several tables",
    "health": "a table with an exit code",
    "why": "sentences about one of several subjects",
    "top": "a live picture",
    "watch": "events without an end, for the client",
    "config.show": "settings, or those of a file without a broker",
    "cursor.show": "a picture of several lines",
    "messages.browse": "pages of messages, as a table or lines",
    "user.declare": "the command hashes a password",
    "user.password": "the command hashes a password",
    "definitions.export": "pages, to a file",
    "definitions.import": "a file, of other brokers too",
    "queue.redrive-preview": "queues redrive --dry-run",
    "cluster.status": "a table with sentences",
    "cluster.restart": "the restart closes the connection that asks for it",
    "topic-permission.set": "permissions set --topic",
    "topic-permission.clear": "permissions delete --topic",
}
"""Operations with commands that are written by hand, with the reason."""
FOR_PROGRAMS = {
    *("cursor.plan", "cursor.range", "cursor.settle", "cursor.find", "cursor.queues", "lease.open", "lease.narrow"),
    *("query.progress", "publish.block", "producer.begin", "publish.withdraw"),
    *("sink.begin", "sink.commit", "sink.abort", "sink.waiting", "federation.look"),
}
"""Operations of clients' own work."""


def test_operation_has_a_command_or_a_reason() -> None:
    asked = {row.asks for row in COMMANDS} | {row.asks for row in LISTINGS}
    assert CONTROL.keys() - asked - BY_HAND.keys() == FOR_PROGRAMS
    assert asked - CONTROL.keys() <= METHODS
    assert not asked & BY_HAND.keys()


def test_field_of_a_command_is_one_of_its_operation() -> None:
    for row in COMMANDS:
        if row.request is None and row.asks not in METHODS:
            names = {field.name for field in row.fields} | row.fixed.keys()
            assert names <= {*CONTROL[row.asks].known_fields}, row.path
    for each in LISTINGS:
        if each.request is None and each.asks != "user.list":
            names = {field.name for field in each.fields} | each.fixed.keys()
            assert names <= {*CONTROL[each.asks].fields}, each.path


def test_command_is_in_a_group_that_there_is() -> None:
    for path in (*ROWS, *(row.path for row in LISTINGS)):
        noun, _, verb = path.partition(" ")
        assert noun in NOUNS or noun == "tls" or not verb, path
    assert len(ROWS) == len(COMMANDS)


def said(row: Command, given: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    assert not isinstance(row.says, str)
    return [*row.says(given, answer)]


def test_binding_of_an_exchange_is_made_by_exchange_bind() -> None:
    row = ROWS["bindings declare"]
    given = {"source": "logs", "target": "orders", "key": "a", "arguments": {}, "to_exchange": False}
    assert row.request(given) == (
        "queue.bind", {"queue": "orders", "exchange": "logs", "routing_key": "a", "arguments": {}}
    )  # fmt: skip
    assert row.request({**given, "to_exchange": True})[0] == "exchange.bind"
    assert said(row, given, {}) == ["orders is bound to logs by 'a'"]


def test_missing_permission_is_an_error_unless_permitted() -> None:
    row = ROWS["permissions delete"]
    given, answer = {"user": "ada", "if_exists": False}, {"vhost": "/", "cleared": False}
    with pytest.raises(ConfigError, match="nothing was changed"):
        said(row, given, answer)
    assert said(row, {**given, "if_exists": True}, answer) == ["user ada has no permission in vhost /"]


@pytest.mark.parametrize(("verb", "participle"), [("move", "moved"), ("copy", "copied"), ("redrive", "redriven")])
def test_result_of_a_transfer_quotes_every_name(verb: str, participle: str) -> None:
    target = "the queues in which they died" if verb == "redrive" else "queue 'dead'"
    why = [{"reason": "they can never fit into queue 'dead' with its capacity of 1 message", "messages": 2}]
    answer = {"queue": "work", "target": target, participle: 1, "unmatched": 0, "why": why}
    first, second = said(ROWS[f"queues {verb}"], {"detach": False}, answer)
    origin = "back into" if verb == "redrive" else "from queue 'work' to"
    assert first == f"1 message {participle} {origin} {target}"
    assert second.startswith("2 messages left in queue 'work': they can never fit into queue 'dead'")
