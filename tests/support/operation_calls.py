"""Operations that are carried out at once, without a plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.access.rules import ConnectionAccess
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from penstock.management.operation import Operation
from penstock.operations.table import CONTROL, OPERATIONS
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.control_request import ControlRequest


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
    request.fields = dict(fields)
    found = row.run(driver, request)
    return found if found is None or isinstance(found, dict | list) else finish(found)


def at_path(place: str) -> Operation:
    """Return the operation at a method and path of HTTP."""
    method, path = place.split()
    (found,) = [row for row in OPERATIONS for route in row.routes if route.method == method and path in route.paths]
    return found
