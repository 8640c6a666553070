"""Bridges: they are declared, paused, resumed, restarted, deleted, listed and shown.

A bridge is a parameter: a shovel, an upstream of federation with its links, or our own `bridge`. It runs with the
rights of the user who set or resumed it. A user without that user's rights can pause it, and resume it as itself.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, POLICYMAKER
from penstock.connections.control_request import ControlRequest
from penstock.core.settings.table import Parameter
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import Groups, ListKind, of_vhosts
from penstock.describe.table import DescribedNode, Field, Row, Table
from penstock.errors import NotFound, PreconditionFailed
from penstock.management.bridge_ends import SOURCE, TARGET
from penstock.management.bridge_uris import hidden
from penstock.management.bridges import BRIDGE, FEDERATION, OWNED, SHOVEL, UPSTREAM, Bridge
from penstock.management.node import Node
from penstock.management.operation import ROW_WORK, VHOST, Operation, Route, looking
from penstock.operations.bridge_checks import check_parameter, check_runs, idle_keys, title_of
from penstock.operations.bridge_keys import KEYS, end_text
from penstock.operations.lists import listing
from penstock.operations.parameters import drop_parameter, log_change, put_parameter
from penstock.settings.kind import unknown_name

COMPONENTS: Final[dict[str, str]] = {SHOVEL: SHOVEL, BRIDGE: BRIDGE, UPSTREAM: UPSTREAM, FEDERATION: UPSTREAM}
"""Values of the field `component`, with the component of the parameter."""


def bridges_of(node: DescribedNode, vhost: VirtualHost) -> list[Bridge]:
    """Return the bridges of a virtual host."""
    assert isinstance(node, Node)
    return node.bridges.all(vhost.name)


def parameter_of(node: Node, request: ControlRequest) -> Parameter:
    """Return the parameter of a bridge by `name`, and `component` where several have that name.

    Raises NotFound (404), PreconditionFailed (406) if there are several.
    """
    vhost, name, component = node.vhost(request.vhost.name).name, request.text("name"), request.text("component", "")
    if component and component not in COMPONENTS:
        raise PreconditionFailed(unknown_name("a bridge", "component", component, COMPONENTS))
    asked = (COMPONENTS[component],) if component else OWNED
    found = [each for kind in asked if (each := node.broker.table.parameters.get(kind, vhost, name)) is not None]
    if not found:
        raise NotFound(f"no bridge '{name}' in vhost '{vhost}'")
    if len(found) > 1:
        kinds = ", ".join([each.component for each in found])
        raise PreconditionFailed(f"several bridges have the name '{name}' in vhost '{vhost}': set component to {kinds}")
    return found[0]


def declare_bridge(node: Node, request: ControlRequest) -> Row:
    """Declare a bridge, or change one: it runs as the user of the request at once."""
    vhost = node.vhost(request.vhost.name).name
    value = {
        key.name: request.fields[key.name] for key in KEYS if request.fields.get(key.name) not in (None, key.default)
    }
    for end in (SOURCE, TARGET):
        if isinstance(value.get(end), str):
            value[end] = end_text(str(value[end]), vhost)
    parameter = Parameter(BRIDGE, vhost, request.text("name"), value, request.access.user)
    check_parameter(parameter)
    check_runs(node, parameter, request.access)
    created = put_parameter(node, parameter) is None
    log_change(node, parameter, f"{'declared' if created else 'changed'} by {request.asker()}")
    return {**_row_of(node, parameter), "created": created}


def delete_bridge(node: Node, request: ControlRequest) -> Row:
    """Delete a bridge with its parameter; messages on their way are settled or return to their source."""
    parameter = parameter_of(node, request)
    drop_parameter(node, parameter.key())
    log_change(node, parameter, f"deleted by {request.asker()}")
    return {}


def pause_bridge(node: Node, request: ControlRequest) -> Row:
    """Pause a bridge, or all links of an upstream."""
    return _run_as(node, request, parameter_of(node, request), "")


def resume_bridge(node: Node, request: ControlRequest) -> Row:
    """Run a bridge, or all links of an upstream, as the user of the request."""
    parameter = parameter_of(node, request)
    check_parameter(parameter)
    check_runs(node, parameter, request.access)
    return _run_as(node, request, parameter, request.access.user)


def restart_bridge(node: Node, request: ControlRequest) -> Row:
    """End the connections of a bridge, or of all links of an upstream, and begin anew. Raises for a paused one."""
    parameter = parameter_of(node, request)
    if not parameter.run_as:
        raise PreconditionFailed(f"{title_of(parameter)} is paused: resume it")
    node.bridges.restart(*parameter.key())
    return _row_of(node, parameter)


def show_bridge(node: Node, request: ControlRequest) -> Row:
    """Return a bridge with its definition; other users than administrators do not see users and passwords of URIs."""
    parameter = parameter_of(node, request)
    everything = request.access.rules.has_tag(ADMINISTRATOR)
    return {
        **_row_of(node, parameter),
        "value": parameter.value if everything else hidden(parameter.value),
        "without_effect": idle_keys(parameter),
    }


def _run_as(node: Node, request: ControlRequest, parameter: Parameter, user: str) -> Row:
    if parameter.run_as != user:
        parameter = Parameter(*parameter.key(), parameter.value, user)
        put_parameter(node, parameter)
        log_change(node, parameter, f"{'resumed' if user else 'paused'} by {request.asker()}")
    return _row_of(node, parameter)


def _row_of(node: Node, parameter: Parameter) -> Row:
    """Return the row of a bridge. That of an upstream has its links, and the state of the one that moves least."""
    its = [each for each in node.bridges.all(parameter.vhost) if each.is_of(parameter)]
    row = its[0].row()
    if parameter.component == UPSTREAM:
        row["links"] = [each.row() for each in its if each.is_used]
    return row


def _before(node: Node, request: ControlRequest) -> Row | None:
    """Return what the audit log has of a bridge: it replaces secrets."""
    try:
        parameter = parameter_of(node, request)
    except NotFound:
        return None
    return {"user": parameter.run_as, "value": parameter.value}


def _declared_before(node: Node, request: ControlRequest) -> Row | None:
    parameter = node.broker.table.parameters.get(BRIDGE, request.vhost.name, request.text("name"))
    return None if parameter is None else {"user": parameter.run_as, "value": parameter.value}


TABLE: Final[Table[Bridge]] = Table(
    Field("name", lambda bridge, at: bridge.name),
    Field("vhost", lambda bridge, at: bridge.vhost),
    Field("component", lambda bridge, at: bridge.component),
    Field("key", lambda bridge, at: bridge.key),
    Field("user", lambda bridge, at: bridge.run_as or None),
    Field("state", lambda bridge, at: bridge.state()[0]),
    Field("reason", lambda bridge, at: bridge.state()[1]),
    Field("since", lambda bridge, at: bridge.report.get("since")),
    Field("carried", lambda bridge, at: bridge.count("carried"), "messages"),
    Field("bytes", lambda bridge, at: bridge.count("bytes"), "bytes"),
    Field("refused", lambda bridge, at: bridge.count("refused"), "messages"),
    Field("again", lambda bridge, at: bridge.count("again"), "messages"),
    Field("last", lambda bridge, at: bridge.report.get("last")),
    Field("lag", lambda bridge, at: bridge.report.get("lag")),
    Field("delivery", lambda bridge, at: bridge.report.get("delivery")),
    Field("why", lambda bridge, at: bridge.report.get("why", [])),
    Field("source", lambda bridge, at: bridge.end(SOURCE)),
    Field("target", lambda bridge, at: bridge.end(TARGET)),
    Field("link", lambda bridge, at: bridge.spec.get("link")),
)


def _groups(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    yield from of_vhosts(bridges_of)(node, vhost)


KIND: Final[ListKind] = ListKind(
    "bridges", _groups, TABLE, lambda bridge: str(bridge.name), by_name=True, tag=MANAGEMENT, fifths=5 * ROW_WORK
)
ONE: Final = "/penstock/bridges/{vhost}/{name}"
NAMED: Final[tuple[str, ...]] = ("name", "component")
OPERATIONS: Final[tuple[Operation, ...]] = (
    listing(KIND, "GET /penstock/bridges /penstock/bridges/{vhost}", "List bridges: shovels, links of federation, and "
            "bridges of Penstock's own, with what moves and what holds them."),
    looking("bridge.show", show_bridge, NAMED, tag=MANAGEMENT, asks=VHOST, routes=(
        Route(f"GET {ONE}", "Show a bridge with its definition; URIs have users and passwords for administrators "
              "alone.", query=("component",)),
    )),
    Operation("bridge.declare", declare_bridge, ("name", *[key.name for key in KEYS]), tag=POLICYMAKER,
              before=_declared_before, asks=VHOST, routes=(
        Route(f"PUT {ONE}", "Declare a bridge, which runs as the user of the request: 201 if it is new, 204 if it is "
              "changed.", needed=("source", "target"), silent=True),
    )),
    Operation("bridge.delete", delete_bridge, NAMED, tag=POLICYMAKER, before=_before, asks=VHOST, routes=(
        Route(f"DELETE {ONE}", "Delete a bridge with its parameter.", query=("component",), silent=True),
    )),
    Operation("bridge.pause", pause_bridge, NAMED, tag=POLICYMAKER, before=_before, asks=VHOST, routes=(
        Route(f"POST {ONE}/pause", "Pause a bridge, or all links of an upstream: messages on their way are settled.",
              query=("component",)),
    )),
    Operation("bridge.resume", resume_bridge, NAMED, tag=POLICYMAKER, before=_before, asks=VHOST, routes=(
        Route(f"POST {ONE}/resume", "Run a paused bridge as the user of the request.", query=("component",)),
    )),
    Operation("bridge.restart", restart_bridge, NAMED, tag=POLICYMAKER, before=_before, asks=VHOST, routes=(
        Route(f"POST {ONE}/restart", "End the connections of a bridge and begin anew.", query=("component",)),
    )),
)  # fmt: skip
