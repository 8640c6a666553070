"""Operations that are carried out at once, without a plane."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.access.rules import ConnectionAccess
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.describe.lists import Found
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from penstock.management.operation import PAGES, Operation, Streamed, Waiting
from penstock.operations.table import CONTROL, OPERATIONS
from tests.support.access_of import access_of


def ask(
    driver: BrokerDriver,
    operation: str,
    fields: Mapping[str, object],
    connection: Connection | None = None,
    vhost: str = "/",
    access: ConnectionAccess | None = None,
) -> Any:
    """Carry out an operation by its name on the control exchange, or by method and path of HTTP; return its answer."""
    row = CONTROL[operation] if operation in CONTROL else at_path(operation)
    request = ControlRequest(driver.broker.vhosts[vhost], connection, None, None, b"{}", access)
    request.fields = {**fields, "whole": True} if row.gives == PAGES else dict(fields)
    found = row.run(driver, request)
    if found is None or isinstance(found, dict | list | str):
        return found
    if isinstance(found, Streamed):
        return {**found.head, **{name: [row for rows in parts for row in rows] for name, parts in found.lists}}
    if isinstance(found, Waiting):
        return finish_waits(driver, found)
    answer = found if isinstance(found, Found) else finish(found)
    return [answer.rows.of(item.subject) for item in answer.items] if isinstance(answer, Found) else answer


def finish_waits(driver: BrokerDriver, waiting: Waiting) -> Any:
    """Do all steps of an operation that waits, with a turn of the broker at each wait; its time is up afterwards."""
    while True:
        try:
            wait = next(waiting.steps)
        except StopIteration as end:
            return end.value
        if wait is not None and not wait.is_over:
            driver.run_turn()


def asked(driver: BrokerDriver, operation: str, **fields: object) -> Any:
    """Carry out an operation with these fields; return its answer."""
    return ask(driver, operation, fields)


def request_of(driver: BrokerDriver, user: str = "guest", /, **fields: object) -> ControlRequest:
    """Return a request of a user with these fields, in the first virtual host."""
    body = json.dumps(fields).encode()
    return ControlRequest(driver.broker.vhost("/"), None, None, None, body, access_of(driver.broker, user))


def at_path(place: str) -> Operation:
    """Return the operation at a method and path of HTTP."""
    method, path = place.split()
    (found,) = [row for row in OPERATIONS for route in row.routes if route.method == method and path in route.paths]
    return found
