"""Operations on runtime parameters and global parameters, which are kept without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.broker import Broker
from penstock.core.settings.parameters import Parameter
from penstock.describe.user import parameter_row
from penstock.errors import NotFound
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.vhost_admin import find_vhost

if TYPE_CHECKING:
    from penstock.management.node import Node

PARAMETER_WORK: Final = 5
"""Units of work per listed parameter."""


def set_parameter(node: Node, parameter: Parameter) -> Parameter | None:
    """Set a parameter; return the former one.

    Raises NotFound (404) for the virtual host, PreconditionFailed (406) for a parameter that is too large,
    ResourceError (506) at a limit.
    """
    if parameter.component:
        find_vhost(node, parameter.vhost)
    journal = node.broker.journal
    if journal is not None:
        journal.check_writable()
    before = node.broker.table.parameters.put(parameter)
    if journal is not None:
        journal.change(parameter)
    return before


def clear_parameter(broker: Broker, component: str, vhost: str, name: str) -> None:
    """Remove a parameter. Raises NotFound (404)."""
    found = broker.table.parameters.drop(component, vhost, name)
    if found is None:
        raise NotFound(f"no {Parameter(component, vhost, name, None).title()}")
    if broker.journal is not None:
        broker.journal.forget(found)


def answer_list(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer parameter.list {everywhere}: the parameters, and the global ones; bounded by their number."""
    vhost = None if request.flag("everywhere") else request.vhost.name
    found: list[dict[str, object]] = []
    for parameter in [*node.broker.table.parameters.of(None, vhost), *node.broker.table.parameters.global_ones()]:
        node.broker.work.done += PARAMETER_WORK
        if node.broker.work.used_up():
            yield
        host = parameter.vhost
        if not host or request.connection is None or request.access.rules.enters(host):
            found.append(parameter_row(parameter))
    return {"parameters": found}
