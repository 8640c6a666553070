"""`info`: one object on one screen, composed of its row, the sentences of `why`, its settings, and who is attached."""

from __future__ import annotations

from itertools import islice
from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.access.rules import DEFAULT_EXCHANGE
from penstock.connections.connection_names import connection_named, labelled
from penstock.connections.control_request import ControlRequest
from penstock.core.consume.rotation import browsers_of, consumers_of
from penstock.core.routing.exchange import EXCHANGE, QUEUE, Binding
from penstock.describe.queue import QUEUE as QUEUE_TABLE
from penstock.describe.session import CONNECTION, consumer_row
from penstock.describe.table import Reading, Row, reading
from penstock.describe.vhost import BINDING, user_row
from penstock.describe.vhost import EXCHANGE as EXCHANGE_TABLE
from penstock.errors import NotFound
from penstock.management import why
from penstock.management.node import Node
from penstock.management.operation import ALL, VHOST, Choice, Operation, Route, looking, only_one
from penstock.management.redaction import answer_why, redact
from penstock.operations import joins
from penstock.operations.settings import show

SUBJECTS: Final[tuple[str, ...]] = ("queue", "exchange", "connection", "user")
SHOWN: Final = 10
"""Consumers, senders and bindings in an answer; the others are counted."""
INFO_WORK: Final = 50
"""Units of work of a request."""


def info(node: Node, request: ControlRequest) -> Row:
    """Answer info {queue}, {exchange}, {connection} or {user}. Raises NotFound (404)."""
    subject = only_one(SUBJECTS, [each for each in SUBJECTS if request.fields.get(each) is not None])
    name = request.text(subject)
    node.broker.work.done += INFO_WORK
    if subject == "queue":
        found = _queue(node, request, name)
    elif subject == "exchange":
        found = _exchange(node, request, name)
    elif subject == "connection":
        found = _connection(node, request, name)
    else:
        found = _user(node, request, name)
    found["sentences"] = [labelled(str(each), node.connections) for each in _sentences(found)]
    return redact({"kind": subject, "name": name, **found}, node, request.access)


def _sentences(found: Row) -> list[object]:
    sentences = found.get("sentences", [])
    assert isinstance(sentences, list)
    return sentences


def _queue(node: Node, request: ControlRequest, name: str) -> Row:
    vhost = request.vhost
    queue = vhost.queue(name, request.connection)
    explained = answer_why(request.part({"queue": name}), node)
    bindings, count = vhost.bindings.first_to(QUEUE, name, SHOWN)
    senders, attached = vhost.senders.first_at((QUEUE, name), SHOWN)
    consumers = [*consumers_of(queue, SHOWN), *browsers_of(queue)][:SHOWN]
    return {
        "vhost": vhost.name,
        "row": QUEUE_TABLE.row(queue, reading(node)),
        "sentences": explained["sentences"],
        "settings": show(node, request.part({"queue": name}))["settings"],
        "consumers": [consumer_row(consumer, node.broker.now) for consumer in consumers],
        "more_consumers": max(len(queue.consumers) - SHOWN, 0),
        "senders": [sender.name for sender in senders],
        "more_senders": attached - len(senders),
        "blocked": explained["blocked"],
        "bindings": _bindings(bindings),
        "more_bindings": count - len(bindings),
    }


def _bindings(bindings: list[Binding]) -> list[Row]:
    at = Reading(0.0)
    return [BINDING.row(binding, at) for binding in bindings]


def _exchange(node: Node, request: ControlRequest, name: str) -> Row:
    vhost = request.vhost
    exchange = vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
    senders, attached = vhost.senders.first_at((EXCHANGE, exchange.name), SHOWN)
    sources, count = vhost.bindings.first_to(EXCHANGE, exchange.name, SHOWN)
    leading = list(islice(exchange.bindings.values(), SHOWN))
    return {
        "vhost": vhost.name,
        "row": EXCHANGE_TABLE.row(exchange, reading(node)),
        "alternate": exchange.alternate,
        "sentences": why.of_address(exchange.gates, node.broker),
        "settings": show(node, request.part({"address": exchange.name}))["settings"],
        "bindings": _bindings(leading),
        "more_bindings": len(exchange.bindings) - len(leading),
        "sources": _bindings(sources),
        "more_sources": count - len(sources),
        "senders": [sender.name for sender in senders],
        "more_senders": attached - len(senders),
    }


def _connection(node: Node, request: ControlRequest, name: str) -> Row:
    owner = "" if request.access.rules.has_tag(MONITORING) else request.access.user
    connection = connection_named(node.connections, name, owner)
    explained = answer_why(request.part({"connection": name}), node)
    return {
        "row": CONNECTION.row(connection, reading(node)),
        "user": connection.user,
        "sentences": explained["sentences"],
        "settings": show(node, request.part({"connection": name}))["settings"],
        "channels": explained["channels"],
        "more_channels": explained["more_channels"],
    }


def _user(node: Node, request: ControlRequest, name: str) -> Row:
    """Return a user; its permissions are for itself and administrators.

    A user that a token or a back end knows has no account here. Raises NotFound (404), AccessRefused (403).
    """
    access = request.access
    settings = show(node, request.part({"user": name}))["settings"]
    try:
        explained = answer_why(request.part({"user": name}), node)
    except NotFound:
        explained = {"connections": [], "more_connections": 0, "sentences": []}
    account = node.broker.access.find(name)
    sees_account = access.user == name or access.rules.has_tag(ADMINISTRATOR)
    return {
        "user": name,
        "account": user_row(account) if account is not None and sees_account else None,
        "sentences": explained["sentences"],
        "settings": settings,
        "connections": explained["connections"],
        "more_connections": explained["more_connections"],
    }


OF_VHOST: Final[tuple[str, ...]] = ("queue", "exchange")
BY_SUBJECT: Final[Choice] = Choice(
    (VHOST, ALL), lambda fields: VHOST if any(fields.get(each) is not None for each in OF_VHOST) else ALL
)
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("info", info, SUBJECTS, tag=MANAGEMENT, asks=BY_SUBJECT, join=joins.WHY, routes=(
        Route("GET /penstock/info", "Show a queue, exchange, connection or user with its state, its settings and who "
              "is attached, as `penstock queues info --json`.", query=SUBJECTS, queried=True),
    )),
)  # fmt: skip
