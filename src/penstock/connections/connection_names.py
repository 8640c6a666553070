"""Finder of connections and channels: by Penstock's names, RabbitMQ's names, and names that clients give.

| name | of a connection | of a channel |
|---|---|---|
| displayed, if the client gives a name | `web-1 (con:2)` | `web-1 (con:2)/ch:1` |
| Penstock's, as in the log | `con:2(guest@10.0.0.1:40312/)` | `con:2(guest@10.0.0.1:40312/)/ch:1` |
| RabbitMQ's, as over HTTP | `10.0.0.1:40312 -> 10.0.0.9:5672` | `10.0.0.1:40312 -> 10.0.0.9:5672 (1)` |
| short | `2`, `con:2` | `2/1`, `con:2/ch:1`, `con:2/ssn:0` |
| the client's `connection_name` | `web-1`, if no other connection has it | `web-1/1`, `web-1 (1)` |
| the client's address or port | `10.0.0.1:40312`, `40312` | `40312/1` |

A client cannot take over the name of another connection: names of the broker come first, and a displayed name ends with
the number. Plain data, records and the line of a connection's opening have Penstock's name; texts have the displayed
name.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.connections.connection import Connection
from penstock.connections.peer import CONNECTION_NAME
from penstock.core.consume.session import Session
from penstock.errors import NotFound, PreconditionFailed
from penstock.texts import printable

Connections = dict[int, Connection]
"""Open connections by number."""

NAMED_MOST: Final = 10
"""Most connections that an error names."""
NUMBER_LETTERS: Final = 20
"""Digits beyond the number of any connection or channel."""
LABEL_LETTERS: Final = 60
"""Most characters of a client's name for its connection in texts."""
_OWN: Final = re.compile(r"con:(\d+)\([^\n]{0,300}?@[^()\s]{0,300}\)")
"""Penstock's name of a connection in a text."""
_LABEL: Final = re.compile(r".* \(con:(\d+)\)", re.DOTALL)


def label(connection: Connection) -> str:
    """Return the displayed name of a connection: its client's name for it with the number, or else Penstock's."""
    given = connection.peer.given_name
    return f"{printable(given[:LABEL_LETTERS])} (con:{connection.number})" if given else connection.name()


def labelled(text: str, connections: Connections) -> str:
    """Return a text in which open connections have the names that their clients gave them."""
    return text if "con:" not in text else _OWN.sub(lambda found: _label_of(found, connections), text)


def _label_of(found: re.Match[str], connections: Connections) -> str:
    number, own = found[1], found[0]
    connection = connections.get(int(number)) if len(number) < NUMBER_LETTERS else None
    return own if connection is None or connection.name() != own else label(connection)


def own_name(name: str, connections: Connections) -> str:
    """Return a name that begins with a connection's displayed name, with Penstock's name instead."""
    head, slash, tail = name.rpartition(")/")
    found = _LABEL.fullmatch(f"{head})" if slash else name)
    connection = connections.get(int(found[1])) if found is not None and len(found[1]) < NUMBER_LETTERS else None
    if connection is None or found is None or label(connection) != found[0]:
        return name
    return f"{connection.name()}/{tail}" if slash else connection.name()


def connection_named(connections: Connections, name: str, user: str = "") -> Connection:
    """Find a connection by one of its names; `user`: only connections of this user, empty for any.

    Raises NotFound (404), and PreconditionFailed (406) for a `connection_name` that several connections have.
    """
    name = own_name(name, connections)
    digits = name.removeprefix("con:")
    numbered = connections.get(int(digits)) if _is_number(digits) else None
    if numbered is not None and user in ("", numbered.user):
        return numbered
    given: list[Connection] = []
    at: list[Connection] = []
    for connection in connections.values():
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
    seen = [each for each in connections.values() if user in ("", each.user)]
    raise NotFound(f"no connection '{name}'; the first of {len(seen):,} are {_names(seen)}")


def is_given(connection: Connection, name: str) -> bool:
    """Return whether the client has given a connection this name."""
    return connection.peer.properties.get(CONNECTION_NAME) == name


def is_at(connection: Connection, name: str) -> bool:
    """Return whether a name is the address or port of a connection's client."""
    address = connection.peer.address
    return name == address or name == address.rpartition(":")[2]


def channel_named(connections: Connections, name: str, user: str = "") -> Session:
    """Find a channel, or a session of AMQP 1.0, by the name of its connection and its number.

    Raises NotFound (404), and PreconditionFailed (406) for a text that names no channel.
    """
    parts = channel_parts(name)
    if parts is None:
        raise PreconditionFailed(f"'{name}' is not a channel; write CONNECTION/CHANNEL, such as 2/1")
    connection = connection_named(connections, parts[0], user)
    channel = connection.engine.session(parts[1])
    if channel is None:
        raise NotFound(f"{label(connection)} has no channel {parts[1]}")
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
    return ", ".join(label(connection) for connection in connections[:NAMED_MOST])
