"""Looks of federation's links at their queue or exchange: whether consumers wait, and the bindings.

A link asks as a user of the broker, again and again; so an answer costs little where nothing has changed.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import READ
from penstock.access.rules import EXCHANGE
from penstock.connections.authorization import check_read_queue
from penstock.connections.control_request import ControlRequest
from penstock.core.routing.exchange import Exchange
from penstock.describe.table import Row, plain
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.federation_links import waiting_room
from penstock.management.node import Node
from penstock.management.operation import ASKS, VHOST, Operation, only_one

LOOK: Final = "federation.look"
ROOM_MOST: Final = 1_000
"""Most messages for which a queue is said to have waiting consumers."""
BINDINGS_MOST: Final = 10_000
"""Most bindings of a federated exchange with different keys or arguments."""
BINDING_WORK: Final = 3


def look(node: Node, request: ControlRequest) -> Row | Steps[Row]:
    """Return how many messages the waiting consumers of an empty queue may have; or the bindings of an exchange.

    The bindings are left out if they are as `seen`. Raises NotFound (404), AccessRefused (403), and PreconditionFailed
    (406) for an exchange with more than `BINDINGS_MOST` bindings.
    """
    if only_one(("queue", "exchange"), [name for name in ("queue", "exchange") if name in request.fields]) == "queue":
        return _look_at_queue(node, request)
    name = request.text("exchange")
    request.access.check(READ, EXCHANGE, name)
    exchange = request.vhost.source(name)
    version = f"{int(request.vhost.era)}.{int(exchange.version)}"
    return {"version": version} if request.fields.get("seen") == version else _bindings_steps(node, exchange, version)


def _look_at_queue(node: Node, request: ControlRequest) -> Row:
    name = request.text("queue")
    check_read_queue(request.access, name)
    return {"room": waiting_room(request.vhost.queue(name, request.connection), ROOM_MOST, node.broker.now)}


def _bindings_steps(node: Node, exchange: Exchange, version: str) -> Steps[Row]:
    """Return the bindings of an exchange: each key with its arguments once, whatever its destinations."""
    found: dict[str, list[object]] = {}
    for binding in list(exchange.bindings.values()):
        if node.broker.work.spend(BINDING_WORK):
            yield
        arguments = plain(binding.arguments)
        found.setdefault(f"{arguments}\0{binding.key}", [binding.key, arguments])
        if len(found) > BINDINGS_MOST:
            raise PreconditionFailed(
                f"exchange '{exchange.name}' in vhost '{exchange.vhost}' has more than {BINDINGS_MOST:,} bindings, the "
                "most that a link of federation repeats at its upstream"
            )
    return {"version": version, "bindings": list(found.values())}


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(LOOK, look, ("queue", "exchange", "seen"), tag="", permissions=("read queue", "read exchange"), how=ASKS,
              audited=False, asks=VHOST),
)  # fmt: skip
