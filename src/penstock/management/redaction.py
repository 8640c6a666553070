"""Redaction of other users' names in explanations, for users without the tag monitoring."""

from __future__ import annotations

import re
from typing import Final

from penstock.access.permission import MONITORING
from penstock.access.rules import ConnectionAccess
from penstock.connections.connection_names import NUMBER_LETTERS
from penstock.connections.control_request import ControlRequest
from penstock.errors import NotFound
from penstock.management import why
from penstock.management.node import Node

_NUMBERED: Final = re.compile(r"con:(\d+)\(")
_NAMED: Final = re.compile(r"(con:\d+|http)\((.*?)@[^()\s]*\)")
"""A connection's name: con:2(guest@127.0.0.1:40312/), or that of a publish over HTTP."""
_LARGEST: Final = re.compile(rf"^(the largest of [\d,]+ queues{why.OF_ALL_VHOSTS} that count in [^:]*):.*", re.DOTALL)
_OF_CURSORS: Final = re.compile(r"^(con:\d+/.*? it publishes the results of) .*?, whose messages leave ", re.DOTALL)
"""Sentences about queues of all virtual hosts, and about cursors of another user's query."""


def answer_why(request: ControlRequest, node: Node) -> dict[str, object]:
    """Answer a request for one of `why.SUBJECTS`, without the names of other users' connections if needed.

    A user without the tag monitoring may request queues of its virtual host, and its own connections, channels and
    links. Raises NotFound for all other objects, whether they exist or not.
    """
    access = request.access
    if access.rules.has_tag(MONITORING):
        return why.answer(request, node)
    subject = why.subject_of(request)
    name = request.text(subject)
    if subject == "queue":
        return redact(why.answer(request, node), node, access)
    try:
        answer = why.answer(request, node)
    except NotFound:
        answer = {}
    if _user_of(answer, node) != access.user:
        raise NotFound(f"no {subject} '{name}' of user '{access.user}'; others need the tag {MONITORING}")
    return redact(answer, node, access)


def redact(answer: dict[str, object], node: Node, access: ConnectionAccess) -> dict[str, object]:
    """Return an answer as a user may see it: of other users' connections only the number is shown."""
    if access.rules.has_tag(MONITORING):
        return answer
    redacted = _without_names(answer, node, access.user)
    assert isinstance(redacted, dict)
    return redacted


def _user_of(row: dict[str, object], node: Node) -> str | None:
    """Return the user in the row of a connection, channel, link or user; None without a user."""
    if "user" in row:
        return str(row["user"])
    for name in ("link", "channel", "name", "producer"):
        match = _NUMBERED.match(str(row.get(name, "")))
        if match is not None:
            connection = node.connections.get(int(match[1]))
            return None if connection is None else connection.user
    return None


def _without_names(value: object, node: Node, user: str) -> object:
    if isinstance(value, str):
        text = _cut(value, node, user) if "(" in value else value
        text = _LARGEST.sub(rf"\1 are told to those with the tag {MONITORING}", text)
        return _OF_CURSORS.sub(r"\1 cursors, whose messages leave ", text)
    if isinstance(value, list):
        return [_without_names(each, node, user) for each in value]
    if isinstance(value, dict):
        return {key: _without_names(each, node, user) for key, each in value.items()}
    return value


def _cut(text: str, node: Node, user: str) -> str:
    for number in set(_NUMBERED.findall(text)):
        connection = node.connections.get(int(number)) if len(number) < NUMBER_LETTERS else None
        if connection is not None and connection.user != user:
            text = text.replace(connection.name(), f"con:{number}")
    pieces = [""]
    end = 0
    for match in _NAMED.finditer(text):
        pieces.append(text[end : match.start()])
        pieces.append(match[0] if match[2] == user else match[1])
        end = match.end()
    return "".join(pieces) + text[end:]
