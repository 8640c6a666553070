"""Operations of readers and writers of many messages: cursors, leases, sinks, blocks and lanes of publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.tags import MANAGEMENT, POLICYMAKER
from penstock.describe.table import Row
from penstock.management import cursor_admin, producer_api, query_progress
from penstock.management.control_request import PUBLISH_BLOCK, ControlRequest
from penstock.management.operation import ASKS, Operation, Route, Run
from penstock.management.time_lookup import TimeLookup

if TYPE_CHECKING:
    from penstock.management.node import Node

_HOLDER: Final = ("cursor", "token")
_BATCH: Final = ("query", "batch", "run", "write", "exchange", "routing_key", "delivery")
_READ: Final = ("read queue",)
_PUBLISH: Final = ("write exchange", "write topic")


def _work(
    name: str, run: Run, fields: tuple[str, ...], permissions: tuple[str, ...] = (), routes: tuple[Route, ...] = ()
) -> Operation:
    """Return an operation of clients' own work, which is not audited."""
    return Operation(name, run, fields, tag="", permissions=permissions, how=ASKS, audited=False, routes=routes)


def _route(where: str, purpose: str, needed: tuple[str, ...] = (), silent: bool = False) -> Route:
    """Return a route of one cursor."""
    return Route(where, purpose, tag=MANAGEMENT, needed=needed, read=_by_path, silent=silent)


def _by_path(fields: Row) -> Row:
    return {**fields, "cursor": fields["name"]}


def _range(node: Node, request: ControlRequest) -> None:
    node.control.cursors.range(request)


def _never(node: Node, request: ControlRequest) -> Row:
    raise AssertionError("the body of a block is no object")


CURSOR: Final = "/penstock/cursors/{vhost}/{name}"


def _of_readers() -> tuple[Operation, ...]:
    """Return the operations of readers."""
    return (
        _work("cursor.attach", lambda node, request: node.control.cursors.attach(request), (
            *_HOLDER, "queues", "starting", "partial", "holder", "create", "dry_run", "release", "identity", "takeover",
        ), _READ),
        _work("cursor.plan", lambda node, request: node.control.cursors.plan(request), (
            *_HOLDER, "settle", "start", "upto", "rows", "bytes", "least", "wait_ms", "left_out", "identity", "query",
        ), _READ),
        _work("cursor.range", _range,
              (*_HOLDER, "lease", "queue", "lo", "hi", "rows", "bytes", "columns", "query"), _READ),
        _work("cursor.settle", lambda node, request: node.control.cursors.settle(request), (*_HOLDER, "end"), _READ),
        _work("cursor.show", cursor_admin.show, ("cursor",), _READ, (_route(f"GET {CURSOR}", "Show a cursor."),)),
        Operation("cursor.move", cursor_admin.move_steps, ("cursor", "queues", "to", "dry_run", "force"), tag="",
                  permissions=_READ, routes=(
            _route(f"POST {CURSOR}/move", "Move a cursor as `cursor.move` does: `to`, and `queues`, `dry_run` and "
                   "`force` if they are given.", needed=("to",)),
        )),
        Operation("cursor.delete", lambda node, request: node.control.cursors.delete(request), ("cursor",), tag="",
                  permissions=_READ, routes=(
            _route(f"DELETE {CURSOR}", "Delete a cursor; its reader gets an error at its next request.", silent=True),
        )),
        Operation("cursor.release", lambda node, request: node.control.cursors.release(request), ("cursor", "queues"),
                  tag="", permissions=_READ),
        _work("cursor.find", lambda node, request: TimeLookup(node.control, request).steps(), ("queues", "timestamp"),
              _READ),
        _work("cursor.queues", lambda node, request: node.control.cursors.queues(request), (),
              ("read queue, for each that is told",)),
        _work("lease.open", lambda node, request: node.control.cursors.leases.open(request),
              ("cursor", "queues", "partial", "timeout_ms", "left_out"), _READ),
        _work("lease.close", lambda node, request: node.control.cursors.leases.close(request), ("lease",), _READ),
        _work("query.progress", query_progress.answer, ("query", "batch", "rows", "batch_ms"),
              ("read queue, for each cursor that is told",)),
    )  # fmt: skip


def _of_writers() -> tuple[Operation, ...]:
    """Return the operations of writers."""
    return (
        _work(PUBLISH_BLOCK, _never, (), _PUBLISH),  # Its header has a table of its own (`incoming_block`).
        _work("producer.begin", lambda node, request: producer_api.begin(request),
              ("channel", "producer", "lane", "epoch", "window", "named")),
        _work("publish.withdraw", lambda node, request: producer_api.withdraw(request), ("channel", "number")),
        _work("sink.begin", lambda node, request: node.control.sinks.batches.begin(request),
              (*_BATCH, "partition", "attempt"), _PUBLISH),
        _work("sink.commit", lambda node, request: node.control.sinks.batches.commit(request),
              (*_BATCH, "partitions", "wait_ms"), _PUBLISH),  # How long the driver waits: for its own connection only.
        _work("sink.abort", lambda node, request: node.control.sinks.batches.abort(request), _BATCH, _PUBLISH),
        Operation("sink.assign", lambda node, request: node.control.sinks.batches.assign(request), ("query", "user"),
                  tag=POLICYMAKER),
        _work("sink.waiting", lambda node, request: node.control.sinks.batches.waiting(request),
              ("application", "task", "cores", "queue"), ("read queue, or write exchange",)),
    )  # fmt: skip


OPERATIONS: Final[tuple[Operation, ...]] = (*_of_readers(), *_of_writers())
