"""Operations of readers and writers of many messages: cursors, leases, sinks, blocks and lanes of publishers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.access.permission import MANAGEMENT, POLICYMAKER
from penstock.connections.control_request import PUBLISH_BLOCK, ControlRequest
from penstock.describe.list_kinds import CURSORS, LEASES, SINKS
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management import control_api
from penstock.management.node import Node
from penstock.management.operation import ASKS, VHOST, Answer, Operation, Route, Run
from penstock.management.redaction import redact
from penstock.operations.lists import listing
from penstock.ranges.service import RangeService

_HOLDER: Final[tuple[str, ...]] = ("cursor", "token")
_LEASE: Final[tuple[str, ...]] = ("lease", "token")
_BATCH: Final[tuple[str, ...]] = ("query", "batch", "run", "write", "exchange", "routing_key", "delivery", "spread")
_READ: Final[tuple[str, ...]] = ("read queue",)
_PUBLISH: Final[tuple[str, ...]] = ("write exchange", "write topic")


Asked = Callable[[RangeService], Callable[[ControlRequest], Answer | Steps[Answer]]]
"""Function that returns what carries out an operation of the ranges."""


def _run(asked: Asked) -> Run:
    return lambda node, request: asked(node.control.ranges)(request)


def _work(name: str, asked: Asked, fields: tuple[str, ...], permissions: tuple[str, ...] = ()) -> Operation:
    """Return an operation of clients' own work, which is not audited."""
    return Operation(name, _run(asked), fields, tag="", permissions=permissions, how=ASKS, audited=False, asks=VHOST)


def _change(
    name: str,
    asked: Asked,
    fields: tuple[str, ...],
    permissions: tuple[str, ...] = (),
    routes: tuple[Route, ...] = (),
    tag: str = "",
) -> Operation:
    """Return an operation that an operator may ask for, too."""
    return Operation(name, _run(asked), fields, tag=tag, permissions=permissions, routes=routes, asks=VHOST)


def _route(where: str, purpose: str, needed: tuple[str, ...] = (), silent: bool = False) -> Route:
    """Return a route of one cursor."""
    return Route(where, purpose, tag=MANAGEMENT, needed=needed, read=_by_path, silent=silent)


def _by_path(fields: Row) -> Row:
    return {**fields, "cursor": fields["name"]}


def _by_number(fields: Row) -> Row:
    """Return the fields of a request whose path has the number of a lease. Raises PreconditionFailed (406)."""
    number = str(fields["number"])
    if not number.isdecimal() or len(number) > LEASE_DIGITS:
        raise PreconditionFailed(f"'{number:.40}' is no number of a lease")
    return {"vhost": fields["vhost"], "lease": int(number)}


def _shown(node: Node, request: ControlRequest) -> Row:
    return redact(node.control.ranges.requests.show(request), node, request.access)


def _never(request: ControlRequest) -> Row:
    raise AssertionError("the body of a block is no object")


LEASE_DIGITS: Final = 18
"""Digits beyond any number of a lease."""
CURSOR: Final = "/penstock/cursors/{vhost}/{name}"


def _of_readers() -> tuple[Operation, ...]:
    """Return the operations of readers."""
    return (
        _work("cursor.attach", lambda ranges: ranges.requests.attach, (
            *_HOLDER, "queues", "starting", "partial", "holder", "create", "dry_run", "part", "release",
            "identity", "takeover", "planned",
        ), _READ),
        _work("cursor.plan", lambda ranges: ranges.plans.plan, (
            *_HOLDER, "settle", "start", "upto", "only", "rows", "bytes", "least", "wait_ms", "left_out", "changes",
            "identity", "query", "servers", "cap", "before",
        ), _READ),
        _work("cursor.range", lambda ranges: ranges.reads.range,
              (*_HOLDER, "lease", "queue", "lo", "hi", "ranges", "rows", "bytes", "columns", "query"), _READ),
        _work("cursor.settle", lambda ranges: ranges.requests.settle, (*_HOLDER, "end"), _READ),
        Operation("cursor.show", _shown, ("cursor",), tag="", permissions=_READ, how=ASKS, audited=False,
                  routes=(_route(f"GET {CURSOR}", "Show a cursor."),)),
        _change("cursor.move", lambda ranges: ranges.requests.move, ("cursor", "queues", "to", "dry_run", "force"),
                _READ, (
            _route(f"POST {CURSOR}/move", "Move a cursor as `cursor.move` does: `to`, and `queues`, `dry_run` and "
                   "`force` if they are given.", needed=("to",)),
        )),
        _change("cursor.delete", lambda ranges: ranges.requests.delete, ("cursor",), _READ, (
            _route(f"DELETE {CURSOR}", "Delete a cursor; its reader gets an error at its next request.", silent=True),
        )),
        _change("cursor.release", lambda ranges: ranges.requests.release, ("cursor", "queues"), _READ),
        _work("cursor.find", lambda ranges: ranges.times, ("queues", "timestamp"), _READ),
        _work("cursor.queues", lambda ranges: ranges.requests.queues, (), ("read queue, for each that is told",)),
        _work("lease.open", lambda ranges: ranges.cursors.leases.open,
              ("cursor", "queues", "partial", "timeout_ms", "left_out", "borders", "planned", "query", *_LEASE), _READ),
        _work("lease.narrow", lambda ranges: ranges.cursors.leases.narrow, (*_LEASE, "borders", "more"), _READ),
        _change("lease.close", lambda ranges: ranges.cursors.leases.close, ("lease", "token"), _READ, (
            Route("DELETE /penstock/leases/{vhost}/{number}", "End a lease; its reader opens another one for what is "
                  "left of its range, if that is still there.", tag=MANAGEMENT, read=_by_number, silent=True),
        )),
        _work("query.progress", lambda ranges: ranges.requests.progress, ("query", "batch", "rows", "batch_ms"),
              ("read queue, for each cursor that is told",)),
    )  # fmt: skip


def _of_writers() -> tuple[Operation, ...]:
    """Return the operations of writers."""
    return (
        # The fields of a block are in its header: `penstock.ranges.incoming_block`.
        _work(PUBLISH_BLOCK, lambda ranges: _never, (), _PUBLISH),
        _work("producer.begin", lambda ranges: control_api.begin,
              ("channel", "producer", "lane", "epoch", "window", "named")),
        _work("publish.withdraw", lambda ranges: control_api.withdraw, ("channel", "number")),
        _work("sink.begin", lambda ranges: ranges.batches.begin, (
            *_BATCH, "partition", "attempt", "sequences", "known",
        ), _PUBLISH),
        # The wait of a commit stops its own connection only.
        _work("sink.commit", lambda ranges: ranges.batches.commit, (*_BATCH, "partitions", "wait_ms"), _PUBLISH),
        _work("sink.abort", lambda ranges: ranges.batches.abort, _BATCH, _PUBLISH),
        _change("sink.assign", lambda ranges: ranges.batches.assign, ("query", "user"), tag=POLICYMAKER),
        _change("sink.end", lambda ranges: ranges.batches.drop, ("query",), (), (
            Route("DELETE /penstock/sinks/{vhost}/{query}", "End a query that publishes: drop what it has staged, and "
                  "forget its marks.", tag=POLICYMAKER, silent=True),
        ), POLICYMAKER),
        _work("sink.waiting", lambda ranges: ranges.waiting,
              ("application", "task", "cores", "queue", "connection"), ("read queue, or write exchange",)),
    )  # fmt: skip


OPERATIONS: Final[tuple[Operation, ...]] = (
    *_of_readers(),
    *_of_writers(),
    *(
        listing(kind, f"GET /penstock/{kind.name} /penstock/{kind.name}/{{vhost}}",
                f"List {kind.name}, all or of a virtual host.")
        for kind in (CURSORS, LEASES, SINKS)
    ),
)  # fmt: skip
