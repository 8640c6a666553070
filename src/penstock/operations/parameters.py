"""Runtime parameters and global parameters: those of bridges run, others are stored and exported again.

A shovel that only moves messages within the broker once is carried out as a move (shovels.py). Values of bridges have
URIs with passwords: administrators see them, and others see URIs without users and passwords.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, POLICYMAKER
from penstock.connections.control_request import ControlRequest
from penstock.connections.log_line import LogLine
from penstock.core.settings.table import CLUSTER_NAME, Parameter
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import Groups, ListKind
from penstock.describe.table import DescribedNode, Field, Row, Table
from penstock.describe.vhost import parameter_row
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.work import Steps
from penstock.logs.ids import CHANGED
from penstock.management.bridge_uris import hidden
from penstock.management.bridges import OWNED, UPSTREAM_SET
from penstock.management.node import Node
from penstock.management.operation import (
    ALL,
    CATALOGUE,
    ROW_WORK,
    VHOST,
    Choice,
    Operation,
    Route,
    entered,
    looking,
    rows_steps,
)
from penstock.operations import joins
from penstock.operations.bridge_checks import check_parameter, check_runs, idle_keys
from penstock.operations.definitions_kinds import Definitions, Planned, Undo, check_vhost
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing
from penstock.operations.shovels import move_of
from penstock.operations.transfers import start_move

KEPT: Final = "it has no effect here; kept, and exported again"
PAUSED: Final = "paused; `penstock bridges resume {}` runs it with your rights"
BRIDGES: Final[tuple[str, ...]] = (*OWNED, UPSTREAM_SET)
"""Components that have an effect here."""
LISTED_APART: Final[tuple[str, ...]] = ("vhost-limits", "policy", "operator_policy")
"""Components of RabbitMQ that have paths of their own."""


def put_parameter(node: Node, parameter: Parameter) -> Parameter | None:
    """Set a parameter; return the previous parameter.

    Raises NotFound (404) for the virtual host, PreconditionFailed (406) for a parameter that is too large,
    ResourceError (506) at a limit.
    """
    if parameter.component:
        node.vhost(parameter.vhost)
    journal = node.broker.journal
    if journal is not None:
        journal.check_writable()
    before = node.broker.table.parameters.put(parameter)
    if journal is not None:
        journal.change(parameter)
    return before


def drop_parameter(node: Node, key: tuple[str, str, str]) -> None:
    """Remove a parameter by component, virtual host and name. Raises NotFound (404)."""
    parameter = node.broker.table.parameters.drop(*key)
    if parameter is None:
        raise NotFound(f"no {Parameter(*key, None).title()}")
    if node.broker.journal is not None:
        node.broker.journal.forget(parameter)


def set_parameter(node: Node, request: ControlRequest) -> Row:
    """Set a parameter, or without a component a global parameter; or start the move that a shovel stands for."""
    component, vhost, name = _key(request)
    if component in LISTED_APART:
        raise PreconditionFailed(f"the component {component} has paths of its own: use those")
    run_as = request.access.user if component in OWNED else ""
    parameter = Parameter(component, vhost, name, request.fields.get("value"), run_as)
    check_parameter(parameter)
    moving = move_of(parameter)
    if moving is not None:
        start_move(node, request.part(moving))
        return {"created": True}
    check_runs(node, parameter, request.access)
    before = put_parameter(node, parameter)
    if component in OWNED:
        log_change(node, parameter, f"{'set' if before is None else 'changed'} by {request.asker()}")
    return {"created": before is None}


def log_change(node: Node, parameter: Parameter, change: str) -> None:
    """Log the change of a bridge: the change with its author, and never the value, which has secrets."""
    text = f"[vh({parameter.vhost})] {parameter.component} '{parameter.name}' {change}"
    node.log(LogLine(text, {"id": CHANGED}))


def clear_parameter(node: Node, request: ControlRequest) -> Row:
    """Remove a parameter, or a global parameter. Raises NotFound (404)."""
    component, vhost, name = _key(request)
    drop_parameter(node, (component, vhost, name))
    if component in OWNED:
        log_change(node, Parameter(component, vhost, name, None), f"deleted by {request.asker()}")
    return {}


def cluster_name_of(node: Node) -> str:
    """Return the name of the cluster: the configured name, or the node's name."""
    return node.broker.table.parameters.cluster_name(node.name)


def set_cluster_name(node: Node, request: ControlRequest) -> Row:
    """Set the name of the cluster, as reported in overview, metrics and the greeting of clients."""
    put_parameter(node, Parameter("", "", CLUSTER_NAME, request.text("name")))
    return {}


def list_parameters(node: Node, request: ControlRequest) -> Steps[Row]:
    """List the parameters of the virtual host, or with `everywhere` of all, and the global parameters."""
    vhost = None if request.flag("everywhere") else request.vhost.name
    table, everything, rules = node.broker.table.parameters, request.is_over_http(), request.access.rules
    parameters = [_seen(request, each) for each in table.of(None, vhost) if everything or rules.enters(each.vhost)]
    rows = yield from rows_steps(node, [*parameters, *table.global_ones()], parameter_row)
    return {"parameters": rows}


def _key(request: ControlRequest) -> tuple[str, str, str]:
    """Return the component, virtual host and name; the first two are empty for a global parameter."""
    component = request.text("component", "")
    return component, request.vhost.name if component else "", request.text("name")


def _row(node: Node, request: ControlRequest) -> Row | None:
    parameter = node.broker.table.parameters.get(*_key(request))
    return None if parameter is None else parameter_row(_seen(request, parameter))


def without_secrets(parameter: Parameter) -> Parameter:
    """Return a parameter whose URIs have neither user nor password."""
    if parameter.component not in BRIDGES:
        return parameter
    return Parameter(*parameter.key(), hidden(parameter.value))


def _seen(request: ControlRequest, parameter: Parameter) -> Parameter:
    """Return a parameter as the user of a request may see it."""
    return parameter if request.access.rules.has_tag(ADMINISTRATOR) else without_secrets(parameter)


def _parameters(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    """Yield parameters without secrets: these lists do not know who asks."""
    for each in node.broker.table.parameters.of(None, None if vhost is None else vhost.name):
        yield node.broker.vhosts.get(each.vhost), [without_secrets(each)]


def _of_component(node: Node, request: ControlRequest) -> Groups:
    """Return the parameters of a component or of all, in a virtual host or in all that the user may enter."""
    component = request.text("component") if "component" in request.fields else None
    hosts = {*entered(node, request)}
    parameters = [each for each in node.broker.table.parameters.of(component) if each.vhost in hosts]
    return iter([(None, [_seen(request, each) for each in parameters])])


def _read(node: Node, entry: Entry) -> Parameter:
    """Return the parameter of an entry; a global parameter has neither component nor virtual host."""
    return Parameter(entry.text("component"), entry.text("vhost"), entry.text("name"), entry.fields.get("value"))


def _check(node: Node, entry: Entry, value: Parameter, planned: Planned | None) -> None:
    if "component" in entry.fields:
        if not value.component:
            raise PreconditionFailed("the component of a parameter must not be empty")
        check_vhost(node, entry, planned)
    check_parameter(value)
    node.broker.table.parameters.check(value)


def _put(node: Node, entry: Entry, value: Parameter, before: Parameter | None) -> Undo:
    put_parameter(node, value)

    def undo() -> str:
        if node.broker.table.parameters.get(*value.key()) is value:
            if before is None:
                drop_parameter(node, value.key())
            else:
                put_parameter(node, before)
        return ""

    return undo


def _note(parameter: Parameter) -> str:
    """Return what has no effect in a parameter of a file."""
    return "; ".join(idle_keys(parameter)) if parameter.component in BRIDGES else KEPT


def _definitions(section: Section, subject: str) -> Definitions:
    """Return definitions of parameters. Values are secret, because they may contain passwords."""
    return Definitions(
        section,
        subject=lambda entry: subject.format_map(entry.fields),
        read=_read,
        row=lambda parameter: {},
        find=lambda node, entry: node.broker.table.parameters.get(*_read(node, entry).key()),
        put=_put,
        check=_check,
        same=lambda node, entry, before, value: before is not None and before.value == value.value,
        secret=lambda entry, before: "value",
        note=_note,
        remark=lambda parameter: PAUSED.format(parameter.name) if parameter.component in OWNED else "",
    )


OF_COMPONENT: Final = "parameter '{name}' of component '{component}' in vhost '{vhost}'"
DEFINITIONS: Final[Definitions] = _definitions(
    Section("parameters", "component name value", texts="component vhost name", anything="value"),
    OF_COMPONENT,
)
GLOBAL_DEFINITIONS: Final[Definitions] = _definitions(
    Section("global_parameters", "name value", texts="name", anything="value"),
    "global parameter '{name}'",
)
TABLE: Final[Table[Parameter]] = Table(Field("parameter.*", lambda parameter, at: parameter_row(parameter)))
KIND: Final[ListKind] = ListKind(
    "parameters", _parameters, TABLE,
    lambda parameter: parameter.name, tag=POLICYMAKER, fifths=5 * ROW_WORK,
)  # fmt: skip
GLOBAL_KIND: Final[ListKind] = ListKind(
    "global-parameters", lambda node, vhost: iter([(None, [*node.broker.table.parameters.global_ones()])]), TABLE,
    lambda parameter: parameter.name, tag=POLICYMAKER, everywhere=True, fifths=5 * ROW_WORK, copied=True,
)  # fmt: skip
OF_HOST_OR_ALL: Final[Choice] = Choice((VHOST, CATALOGUE), lambda fields: VHOST if "vhost" in fields else CATALOGUE)
"""Those of a component belong to a virtual host, and global ones to none."""
ONE: Final = "/parameters/{component}/{vhost}/{name} /global-parameters/{name}"
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("parameter.list", list_parameters, ("everywhere",), tag=POLICYMAKER, asks=ALL,
            join=joins.PARAMETERS),
    Operation("", set_parameter, ("value",), tag=POLICYMAKER, asks=OF_HOST_OR_ALL, routes=(
        Route(f"PUT {ONE}", "Set a parameter: 201 if it is new, 204 if it is changed. A bridge runs as the user of the "
              "request; other parameters are kept without effect.",
              needed=("value",), silent=True),
    )),
    Operation("", clear_parameter, tag=POLICYMAKER, asks=OF_HOST_OR_ALL,
              routes=(Route(f"DELETE {ONE}", "Remove a parameter.", silent=True),)),
    Operation("", set_cluster_name, ("name",), asks=CATALOGUE, routes=(
        Route("PUT /cluster-name", "Set the name of the cluster.", needed=("name",), silent=True),
    )),
    looking("", _row, tag=POLICYMAKER, asks=OF_HOST_OR_ALL, routes=(
        Route(f"GET {ONE}", "Show a parameter, or a global one."),
    )),
    listing(KIND, "GET /parameters /parameters/{component} /parameters/{component}/{vhost}",
            "List parameters: all, those of a component, or those of a component in a virtual host.", _of_component),
    listing(GLOBAL_KIND, "GET /global-parameters", "List global parameters."),
)  # fmt: skip
