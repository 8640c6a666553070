"""Blocks: the operator's gates of queues, addresses, virtual hosts, users and connections."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, POLICYMAKER
from penstock.connections.authorization import check_tag
from penstock.connections.connection_names import connection_named
from penstock.connections.control_request import ControlRequest
from penstock.core.gates.operator import ADDRESS, CONNECTION, QUEUE, SCOPES, VHOST
from penstock.describe.table import Row
from penstock.management.node import Node
from penstock.management.operation import ALL, Choice, Operation, Route, only_one
from penstock.management.operation import VHOST as OWNER
from penstock.operations import joins


def block(node: Node, request: ControlRequest) -> Row:
    """Hold every publish to, or of, an object until `unblock`, or until its hold deadline. Raises NotFound (404)."""
    scope, vhost, name = _what(node, request, True)
    reason = request.fields.get("reason")
    gate = node.broker.gates.block(scope, vhost, name, reason if isinstance(reason, str) else "")
    return {"blocked": gate.gate.name, "reason": gate.reason}


def unblock(node: Node, request: ControlRequest) -> Row:
    """Release the held publishes in turn; the object itself may have been deleted.

    Raises NotFound (404) for an object that the operator has not blocked.
    """
    scope, vhost, name = _what(node, request, False)
    gate = node.broker.gates.unblock(scope, vhost, name)
    return {"unblocked": gate.gate.name}


def _what(node: Node, request: ControlRequest, there: bool) -> tuple[str, str, str]:
    """Return scope, virtual host and name of a request's object; with `there` the object must exist."""
    scope = only_one(SCOPES, [scope for scope in SCOPES if scope in request.fields])
    name = request.text(scope)
    _check_scope(request, scope, name)
    if scope == QUEUE:
        if there or name in request.vhost.queues:
            request.vhost.queue(name, request.connection)
        return scope, request.vhost.name, name
    if scope == ADDRESS:
        if there:
            request.vhost.exchange(name)
        return scope, request.vhost.name, name
    if scope == VHOST:
        return scope, node.vhost(name).name, name
    if scope == CONNECTION:
        return scope, "", str(connection_named(node.connections, name).number)
    if there:
        node.check_user(name)
    return scope, "", name


def _check_scope(request: ControlRequest, scope: str, name: str) -> None:
    """Check that a policymaker may enter the virtual host; all other scopes require an administrator."""
    rules = request.access.rules
    if scope in (QUEUE, ADDRESS) or (scope == VHOST and rules.enters(name)):
        return
    check_tag(request.access, ADMINISTRATOR, f"an operator's command on {scope} '{name}'")


BY_SCOPE: Final[Choice] = Choice((OWNER, ALL), lambda fields: OWNER if QUEUE in fields or ADDRESS in fields else ALL)
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("block", block, (*SCOPES, "reason"), tag=POLICYMAKER, asks=BY_SCOPE, join=joins.FIRST, routes=(
        Route("POST /penstock/block", "Close the operator's gate of a queue, address, virtual host, user or "
              "connection, as `penstock block`.", queried=True),
    )),
    Operation("unblock", unblock, SCOPES, tag=POLICYMAKER, asks=BY_SCOPE, join=joins.FIRST,
              routes=(Route("POST /penstock/unblock", "Open it.", queried=True),)),
)  # fmt: skip
