"""Definitions export in RabbitMQ's format, in steps; `definitions_import` is the inverse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from penstock.access.user import User
from penstock.connections.control_request import ControlRequest
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.routing.route import CONTROL_EXCHANGE
from penstock.core.settings.policies import OVERFLOWS, Policy
from penstock.core.settings.table import Parameter
from penstock.core.settings.table import SettingsEntry as Said
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import ITEM_WORK, QUEUES_AT_ONCE, Groups, Item, binding_groups
from penstock.describe.lists import ALL_AT_ONCE, PAGE_MOST, PagedList
from penstock.describe.queue import QUEUE
from penstock.describe.table import API_VERSION, Reading, Row, Table, plain
from penstock.describe.vhost import BINDING, EXCHANGE, parameter_row, policy_row, user_permissions, user_topics
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.bridges import BRIDGE
from penstock.management.node import Node
from penstock.management.operation import BY_EVERYWHERE, JOINED, LOOKS, Carried, Operation, Route, Streamed
from penstock.operations import joins
from penstock.operations.definitions_kinds import defined_sections
from penstock.operations.users import exported_user
from penstock.settings.table import SettingValue

USERS: Final[tuple[str, ...]] = ("users", "permissions", "topic_permissions")
SECTIONS: Final[tuple[str, ...]] = (
    *("vhosts", *USERS, "parameters", "global_parameters", "policies", "settings"),
    *("queues", "exchanges", "bindings"),
)
X_OVERFLOW: Final = "x-overflow"
"""Argument of a queue that RabbitMQ refuses with a value that it does not know; it ignores arguments of ours."""
FOR_ALL: Final[tuple[str, ...]] = ("vhosts", *USERS, "global_parameters", "settings")
"""Sections of an export of all virtual hosts only."""
OF_HOSTS: Final[tuple[str, ...]] = ("vhosts", "parameters", "policies", "queues", "exchanges", "bindings")
"""Sections of which each of several brokers has the entries of its virtual hosts."""
EXPORTED_AT_ONCE: Final = 10
"""Items that are made plain data per step."""
WRITTEN_AT_ONCE: Final = 100
"""Items of a whole export that are made plain data, and written, at once."""
RABBITMQ: Final = "rabbitmq"
"""Value of `for` in an export for RabbitMQ."""


def head(node: Node, everywhere: bool) -> Row:
    """Return the head of an export, of all virtual hosts or of one."""
    about: Row = {"rabbit_version": API_VERSION, "product_name": "Penstock", "product_version": node.version}
    return {**about, "rabbitmq_version": API_VERSION} if everywhere else about


def sections(node: Node, everywhere: bool) -> list[str]:
    """Return the sections of an export, of all virtual hosts or of one."""
    added = defined_sections(node)
    found = [*SECTIONS, *added]
    if everywhere:
        return found
    return [each for each in found if each not in FOR_ALL and not (each in added and added[each].everywhere)]


def groups(node: Node, section: str, only: VirtualHost | None) -> Groups:
    """Yield the items of a section in groups; some may not be exported. Objects may change between two groups."""
    table, added = node.broker.table, defined_sections(node).get(section)
    if added is not None:
        if only is None or not added.everywhere:
            yield from added.groups(node, only)
        return
    if section in FOR_ALL and section != "vhosts":
        if only is None:
            first = next(iter(node.broker.vhosts.values()), None)  # A new shard has none.
            if section not in USERS:
                yield first, _of_all(node, section)
                return
            for user in node.broker.access.stored():
                if section == "users":
                    yield first, [user]
                elif section == "permissions":
                    yield first, user_permissions(user, node.broker.vhosts)
                else:
                    yield first, user_topics(user)
        return
    for vhost in list(node.broker.vhosts.values()) if only is None else [only]:
        if section == "vhosts":
            yield vhost, [vhost]
        elif section == "queues":
            for queues in vhost.roll.parts(QUEUES_AT_ONCE):
                yield vhost, queues
        elif section == "policies":
            yield vhost, table.policies.of(vhost.name, False)
        elif section == "parameters":
            operators = table.policies.of(vhost.name, True)
            limits = node.broker.access.vhost_limits.get(vhost.name)
            limited = [] if limits is None else [_limits_row(vhost.name, limits)]
            yield vhost, [*limited, *operators, *table.parameters.of(None, vhost.name)]
        elif section == "exchanges":
            yield vhost, vhost.exchanges.values()
        else:
            yield from binding_groups(vhost, False)


def _of_all(node: Node, section: str) -> list[object]:
    """Return the items of a section whose objects belong to no virtual host."""
    table = node.broker.table
    if section == "global_parameters":
        return list(table.parameters.global_ones())
    return [entry for entry in table.entries() if entry.command]


def exported(items: list[Item], named: bool, for_rabbitmq: bool = False) -> list[Row]:
    """Return the exported items of a window as plain data.

    `named` adds their virtual host. `for_rabbitmq` omits items that RabbitMQ refuses.
    """
    rows: list[Row] = []
    for item in items:
        subject: object = item.subject
        if for_rabbitmq and isinstance(subject, Policy):
            subject = subject.for_rabbitmq()
        elif for_rabbitmq and isinstance(subject, Parameter) and subject.component == BRIDGE:
            continue
        if subject is None or not _is_exported(subject):
            continue
        row = plainly(subject, named)
        if for_rabbitmq and isinstance(subject, Queue) and subject.arguments.get(X_OVERFLOW) not in OVERFLOWS:
            row["arguments"] = plain({key: value for key, value in subject.arguments.items() if key != X_OVERFLOW})
        rows.append(row)
    return rows


def _is_exported(subject: object) -> bool:
    """Return whether an item is exported: exclusive, predeclared and meanwhile deleted objects are not."""
    if isinstance(subject, Queue):
        return subject.owner is None and not subject.deleted
    if isinstance(subject, Exchange):
        return subject.name not in ("", CONTROL_EXCHANGE) and not subject.name.startswith("amq.")
    return not isinstance(subject, Binding) or _lasts(subject)


def _lasts(binding: Binding) -> bool:
    """Return whether the source and the destination of a binding exist and are not exclusive."""
    if binding.source.deleted:
        return False
    return binding.queue is None or (binding.queue.owner is None and not binding.queue.deleted)


def plainly(subject: object, named: bool) -> Row:
    """Return one item of an export; with `named` the item has its virtual host."""
    (row,) = [row for kind, row in ROWS if isinstance(subject, kind)]
    fields = row(subject)
    if not named:
        fields.pop("vhost", None)
    return fields


def _policy_row(policy: Policy) -> Row:
    if not policy.operator:
        return policy_row(policy)
    operator: Row = {"vhost": policy.vhost, "component": "operator_policy", "name": policy.name}
    return {**operator, "value": policy.fields()}


def _limits_row(vhost: str, limits: dict[str, int]) -> Row:
    return {"component": "vhost-limits", "vhost": vhost, "name": "limits", "value": dict(limits)}


def _settings_row(entry: Said) -> Row:
    row: Row = {"scope": entry.scope, "pattern": entry.pattern, "settings": definition(entry.commands(False))}
    overrides = definition(entry.commands(True))
    return {**row, "override": overrides} if overrides else row


def definition(values: dict[str, SettingValue]) -> Row:
    """Return settings under the names by which they were given."""
    return {value.alias: plain(value.raw) for value in values.values()}


COMMON: Final[tuple[str, ...]] = ("vhost", "name", "durable", "auto_delete", "arguments")
BOUND: Final[tuple[str, ...]] = ("vhost", "source", "destination", "destination_type", "routing_key", "arguments")


def _declared(table: Table[Any], paths: Iterable[str]) -> Callable[[Any], Row]:
    """Return the function that makes the row of an object that clients declare."""
    fields = table.select(paths)
    return lambda subject: table.row(subject, Reading(0.0), fields)


ROWS: Final[tuple[tuple[type, Callable[[Any], Row]], ...]] = (
    (Queue, _declared(QUEUE, [*COMMON, "type"])),
    (Exchange, _declared(EXCHANGE, [*COMMON, "type", "internal"])),
    (Binding, _declared(BINDING, BOUND)),
    (Policy, _policy_row),
    (Parameter, parameter_row),
    (User, exported_user),
    (dict, lambda row: dict(row)),
    (Said, _settings_row),
    (VirtualHost, lambda vhost: {"name": vhost.name, **vhost.metadata}),
)


def export(node: Node, request: ControlRequest) -> Carried:
    """Return a page of the definitions, or with `whole` all definitions."""
    if not request.flag("whole"):
        return answer_export(node, request)
    only = None if request.flag("everywhere") else request.vhost
    return Streamed(head(node, only is None), _lists(node, only, request.flag("for_rabbitmq")))


def _lists(node: Node, only: VirtualHost | None, for_rabbitmq: bool) -> Iterator[tuple[str, Iterator[list[Row]]]]:
    for section in sections(node, only is None):
        yield section, _rows(node, section, only, for_rabbitmq)


def _rows(node: Node, section: str, only: VirtualHost | None, for_rabbitmq: bool) -> Iterator[list[Row]]:
    """Yield the rows of a section in groups, each row once. Items created meanwhile may be missing."""
    some: list[Item] = []
    seen = 0
    for vhost, subjects in groups(node, section, only):
        group = list(subjects)
        for start in range(0, len(group) or 1, WRITTEN_AT_ONCE):
            part = group[start : start + WRITTEN_AT_ONCE]
            some += [Item("", vhost, subject) for subject in part]
            seen += 1 + len(part)
            if seen >= WRITTEN_AT_ONCE:
                yield exported(some, only is None, for_rabbitmq)
                some = []
                seen = 0
    yield exported(some, only is None, for_rabbitmq)


def answer_export(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer definitions.export: the head without a section, otherwise a page of the section.

    The request has the fields {section, after, everywhere, for_rabbitmq}.
    """
    only = None if request.fields.get("everywhere") is True else request.vhost
    if request.fields.get("section") is None:
        return {**head(node, only is None), "sections": sections(node, True)}
    section = request.text("section")
    if section not in sections(node, True):
        raise PreconditionFailed(f"'section' must be one of {', '.join(sections(node, True))}, not '{section}'")
    for_rabbitmq = request.flag("for_rabbitmq")
    grouped = groups(node, section, only)
    page, following = yield from node.control.lists.page_steps(
        request.connection,
        request.amount("after", 0),
        f"definitions.export {section} {only is None}",
        PagedList(grouped),
        ALL_AT_ONCE if JOINED in request.fields else PAGE_MOST,
    )
    items: list[Row] = []
    for start in range(0, len(page), EXPORTED_AT_ONCE):
        items += exported(page[start : start + EXPORTED_AT_ONCE], True, for_rabbitmq)
        if node.broker.work.spend(EXPORTED_AT_ONCE * ITEM_WORK):
            yield
    return {"items": items, "next": following}


def _of_path(fields: Row) -> Row:
    """Return the fields of an export that a path of HTTP requests. Raises PreconditionFailed (406)."""
    reader = fields.get("for")
    if reader not in (None, RABBITMQ):
        raise PreconditionFailed(f"for must be {RABBITMQ}, or be left out")
    return {"whole": fields["whole"], "everywhere": "vhost" not in fields, "for_rabbitmq": reader == RABBITMQ}


EXPORT: Final = "definitions.export"
PAGE_FIELDS: Final[tuple[str, ...]] = ("section", "after", "count", "everywhere", "for_rabbitmq")
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(EXPORT, export, PAGE_FIELDS, how=LOOKS, asks=BY_EVERYWHERE,
              join=joins.export_join(OF_HOSTS), routes=(
        Route("GET /definitions /definitions/{vhost} /all-configuration", "Export the definitions of all virtual hosts "
              "or of one; `for=rabbitmq` leaves out entries that RabbitMQ refuses.", query=("for",), read=_of_path,
              fixed={"whole": True}),
    )),
)  # fmt: skip
