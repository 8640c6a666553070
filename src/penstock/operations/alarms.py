"""Alarms: the conditions that need a person, listed; and a test of their web hook."""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.access.permission import ADMINISTRATOR, MONITORING
from penstock.connections.control_request import ControlRequest
from penstock.describe.list_kinds import seen_vhosts
from penstock.describe.table import Row
from penstock.errors import InternalError
from penstock.flow.wait import Wait, Waits
from penstock.management.node import Node
from penstock.management.operation import ALL, NODE, Answer, Operation, Route, Waiting, looking
from penstock.operations import joins


def list_alarms(node: Node, request: ControlRequest) -> Row:
    """Answer the raised alarms, their numbers by kind, and the state of the web hook.

    Objects in virtual hosts that the user may not enter are counted only, as in lists; administrators see all.
    """
    alarms = node.alarms
    hosts: list[object] = [None, *[vhost.name for vhost in seen_vhosts(node, request.access.rules)]]
    return {
        "alarms": [{"node": node.name, **row} for row in alarms.rows() if row["vhost"] in hosts],
        "counts": alarms.counts(),
        "omitted": alarms.omitted,
        "hook": alarms.listener.view(),
    }


def send_test(node: Node, request: ControlRequest) -> Waiting | None:
    """Send a test to the web hook, and answer what came back. Raises PreconditionFailed (406) without a web hook."""
    if request.connection is None:
        result = HookResult()
        node.alarms.listener.test(result.take)
        return Waiting(_result_steps(result))
    node.alarms.listener.test(partial(node.control.answer, request))
    return None


class HookResult:
    """Result of a test of the web hook, for requests over HTTP."""

    def __init__(self) -> None:
        self.row: Row | None = None
        self.wait = Wait()

    def take(self, row: Row) -> None:
        """Take the result."""
        self.row = row
        self.wait.end()


def _result_steps(result: HookResult) -> Waits[Answer]:
    yield result.wait
    if result.row is None:
        raise InternalError("the test of the web hook has no result")
    return result.row


OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("alarm.list", list_alarms, tag=MONITORING, asks=ALL, join=joins.ALARMS, routes=(
        Route("GET /penstock/alarms", "List raised alarms, with what to do, their numbers by kind, and the state of "
              "the web hook."),
    )),
    Operation("alarm.test", send_test, tag=ADMINISTRATOR, audited=False, asks=NODE, routes=(
        Route("POST /penstock/alarms/test", "Send a test to the web hook of alarms, and return what came back.",
              body=False),
    )),
)  # fmt: skip
