"""Operations of readers and writers of many messages: cursors, leases, sinks, blocks and lanes of publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.tags import MANAGEMENT, POLICYMAKER
from penstock.describe.table import Row
from penstock.management import producer_api
from penstock.management.control_request import PUBLISH_BLOCK, ControlRequest
from penstock.management.operation import ASKS, Operation, Route, Run
from penstock.management.redaction import redact

if TYPE_CHECKING:
    from penstock.management.node import Node

_HOLDER: Final = ("cursor", "token")
_BATCH: Final = ("query", "batch", "run", "write", "exchange", "routing_key", "delivery")
_READ: Final = ("read queue",)
_PUBLISH: Final = ("write exchange", "write topic")


def _asked(name: str) -> Run:
    """Return the function of an operation of cursors, leases and batches."""
    return lambda node, request: node.control.ranges.run(name, request)


def _work(
    name: str,
    fields: tuple[str, ...],
    permissions: tuple[str, ...] = (),
    routes: tuple[Route, ...] = (),
    run: Run | None = None,
) -> Operation:
    """Return an operation of clients' own work, which is not audited."""
    run = _asked(name) if run is None else run
    return Operation(name, run, fields, tag="", permissions=permissions, how=ASKS, audited=False, routes=routes)


def _change(
    name: str,
    fields: tuple[str, ...],
    permissions: tuple[str, ...] = (),
    routes: tuple[Route, ...] = (),
    tag: str = "",
) -> Operation:
    """Return an operation that an operator may ask for, too."""
    return Operation(name, _asked(name), fields, tag=tag, permissions=permissions, routes=routes)


def _route(where: str, purpose: str, needed: tuple[str, ...] = (), silent: bool = False) -> Route:
    """Return a route of one cursor."""
    return Route(where, purpose, tag=MANAGEMENT, needed=needed, read=_by_path, silent=silent)


def _by_path(fields: Row) -> Row:
    return {**fields, "cursor": fields["name"]}


def _shown(node: Node, request: ControlRequest) -> Row:
    found = node.control.ranges.run("cursor.show", request)
    assert isinstance(found, dict)
    return redact(found, node, request.access)


def _never(node: Node, request: ControlRequest) -> Row:
    raise AssertionError("the body of a block is no object")


CURSOR: Final = "/penstock/cursors/{vhost}/{name}"


def _of_readers() -> tuple[Operation, ...]:
    """Return the operations of readers."""
    return (
        _work("cursor.attach", (
            *_HOLDER, "queues", "starting", "partial", "holder", "create", "dry_run", "release", "identity", "takeover",
        ), _READ),
        _work("cursor.plan", (
            *_HOLDER, "settle", "start", "upto", "rows", "bytes", "least", "wait_ms", "left_out", "identity", "query",
        ), _READ),
        _work("cursor.range",
              (*_HOLDER, "lease", "queue", "lo", "hi", "rows", "bytes", "columns", "query"), _READ),
        _work("cursor.settle", (*_HOLDER, "end"), _READ),
        _work("cursor.show", ("cursor",), _READ, (_route(f"GET {CURSOR}", "Show a cursor."),), _shown),
        _change("cursor.move", ("cursor", "queues", "to", "dry_run", "force"), _READ, (
            _route(f"POST {CURSOR}/move", "Move a cursor as `cursor.move` does: `to`, and `queues`, `dry_run` and "
                   "`force` if they are given.", needed=("to",)),
        )),
        _change("cursor.delete", ("cursor",), _READ, (
            _route(f"DELETE {CURSOR}", "Delete a cursor; its reader gets an error at its next request.", silent=True),
        )),
        _change("cursor.release", ("cursor", "queues"), _READ),
        _work("cursor.find", ("queues", "timestamp"), _READ),
        _work("cursor.queues", (), ("read queue, for each that is told",)),
        _work("lease.open", ("cursor", "queues", "partial", "timeout_ms", "left_out"), _READ),
        _work("lease.close", ("lease",), _READ),
        _work("query.progress", ("query", "batch", "rows", "batch_ms"), ("read queue, for each cursor that is told",)),
    )  # fmt: skip


def _of_writers() -> tuple[Operation, ...]:
    """Return the operations of writers."""
    return (
        _work(PUBLISH_BLOCK, (), _PUBLISH, run=_never),  # The fields of its header: `penstock.ranges.incoming`.
        _work("producer.begin", ("channel", "producer", "lane", "epoch", "window", "named"),
              run=lambda node, request: producer_api.begin(request)),
        _work("publish.withdraw", ("channel", "number"), run=lambda node, request: producer_api.withdraw(request)),
        _work("sink.begin", (*_BATCH, "partition", "attempt"), _PUBLISH),
        _work("sink.commit", (*_BATCH, "partitions", "wait_ms"), _PUBLISH),  # Its wait stops its own connection only.
        _work("sink.abort", _BATCH, _PUBLISH),
        _change("sink.assign", ("query", "user"), tag=POLICYMAKER),
        _work("sink.waiting", ("application", "task", "cores", "queue"), ("read queue, or write exchange",)),
    )  # fmt: skip


OPERATIONS: Final[tuple[Operation, ...]] = (*_of_readers(), *_of_writers())
