"""Names by which requests find connections and channels: Penstock's, RabbitMQ's, and those that clients give.

| name | of a connection | of a channel |
|---|---|---|
| Penstock's, as in the log | `con:2(guest@10.0.0.1:40312/)` | `con:2(guest@10.0.0.1:40312/)/ch:1` |
| RabbitMQ's, as over HTTP | `10.0.0.1:40312 -> 10.0.0.9:5672` | `10.0.0.1:40312 -> 10.0.0.9:5672 (1)` |
| short | `2`, `con:2` | `2/1`, `con:2/ch:1`, `con:2/ssn:0` |
| the client's `connection_name` | `web-1`, if no other connection has it | `web-1/1`, `web-1 (1)` |
| the client's address or port | `10.0.0.1:40312`, `40312` | `40312/1` |

A client cannot take over the name of another connection: names of the broker come first.
"""

from __future__ import annotations

from typing import Final

from penstock.core.consume.session import Session
from penstock.errors import NotFound, PreconditionFailed
from penstock.management.node import Node
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.peer import CONNECTION_NAME

NAMED_MOST: Final = 10
"""Most connections that an error names."""
NUMBER_LETTERS: Final = 20
"""Digits beyond any number of a connection or channel."""


def connection_named(node: Node, name: str, user: str = "") -> Connection:
    """Find a connection by one of its names; `user`: one of this user, empty for any.

    Raises NotFound (404), and PreconditionFailed (406) for a `connection_name` that several connections have.
    """
    digits = name.removeprefix("con:")
    numbered = node.connections.get(int(digits)) if _is_number(digits) else None
    if numbered is not None and user in ("", numbered.user):
        return numbered
    given: list[Connection] = []
    at: list[Connection] = []
    for connection in node.connections.values():
        if user not in ("", connection.user):
            continue
        if name in (connection.name(), connection.peer.ends()):
            return connection
        if is_given(connection, name):
            given.append(connection)
        elif is_at(connection, name):
            at.append(connection)
    if len(given) > 1:
        raise PreconditionFailed(
            f"{len(given):,} connections have the connection_name '{name}'; name one by its number: {_names(given)}"
        )
    if given or at:
        return (given or at)[0]
    seen = [each for each in node.connections.values() if user in ("", each.user)]
    raise NotFound(f"no connection '{name}'; the first of {len(seen):,} are {_names(seen)}")


def is_given(connection: Connection, name: str) -> bool:
    """Return whether the client has given a connection this name."""
    return connection.peer.properties.get(CONNECTION_NAME) == name


def is_at(connection: Connection, name: str) -> bool:
    """Return whether a name is the address or port of a connection's client."""
    address = connection.peer.address
    return name == address or name == address.rpartition(":")[2]


def channel_named(node: Node, name: str, user: str = "") -> Session:
    """Find a channel, or a session of AMQP 1.0, by the name of its connection and its number.

    Raises NotFound (404), and PreconditionFailed (406) for a text that names no channel.
    """
    parts = channel_parts(name)
    if parts is None:
        raise PreconditionFailed(f"'{name}' is not a channel; write CONNECTION/CHANNEL, such as 2/1")
    connection = connection_named(node, parts[0], user)
    channel = connection.engine.session(parts[1])
    if channel is None:
        raise NotFound(f"{connection.name()} has no channel {parts[1]}")
    return channel


def channel_parts(name: str) -> tuple[str, int] | None:
    """Return the connection's name and the number in the name of a channel; None if it has no number."""
    of, opened, number = name.rpartition(" (")
    if opened and number.endswith(")"):
        number = number[:-1]
    else:
        of, _, number = name.rpartition("/")
        number = number.removeprefix("ch:").removeprefix("ssn:")
    return (of, int(number)) if of and _is_number(number) else None


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < NUMBER_LETTERS


def _names(connections: list[Connection]) -> str:
    return ", ".join(connection.name() for connection in connections[:NAMED_MOST])
