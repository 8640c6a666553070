"""Virtual hosts: creation and deletion at run time, and the attributes stored for users and exports."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR
from penstock.access.user import EVERYTHING, STORE
from penstock.connections.control_request import ControlRequest
from penstock.connections.log_line import LogLine
from penstock.core.queue.types import DEFAULT_QUEUE_TYPE, default_type, read_type
from penstock.core.settings.changes import drop_placed, drop_policies
from penstock.core.vhost import PREDECLARED, VirtualHost
from penstock.describe.list_kinds import VHOSTS
from penstock.describe.table import Row
from penstock.errors import Cancelled, ConnectionForced, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.progress import WorkProgress, alone
from penstock.flow.work import Steps, finish
from penstock.logs.ids import CHANGED
from penstock.management.jobs import VHOST, Subject
from penstock.management.node import Node
from penstock.management.operation import CATALOGUE, Operation, Route
from penstock.operations.definitions_kinds import Definitions, Planned, Undo
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing, sampled, showing

VHOSTS_MAX: Final = 1000
"""Most virtual hosts: each has its predeclared exchanges and its gates, some 10 KiB."""
DELETION_WORK: Final = 25
"""Units of work per queue or exchange that is deleted with its virtual host."""
NAME_OCTETS: Final = 255
"""Longest name: connection.open carries it as a short string (AMQP 0-9-1 section 1.4.2.7)."""
PREDECLARED_NAMES: Final[frozenset[str]] = frozenset([name for name, _ in PREDECLARED])


def declare_vhost(node: Node, name: str) -> bool:
    """Create a virtual host; return whether the virtual host is new.

    Raises PreconditionFailed (406), ResourceError (506), ResourceLocked (405) during the deletion of a virtual host of
    that name.
    """
    there = node.broker.vhosts.get(name)
    if there is not None:
        if there.deleting:
            left = f"{len(there.queues):,} of its queues are left"
            raise ResourceLocked(f"vhost '{name}' is being deleted by {node.deletion_of(name)}: {left}")
        return False
    check_new_vhost(node, name)
    if node.broker.journal is not None:
        node.broker.journal.check_writable()
    vhost = node.broker.add_vhost(name)
    if node.broker.journal is not None:
        node.broker.journal.change(vhost)
    node.log(LogLine(f"[vh({name})] created", {"id": CHANGED}))
    return True


def set_attributes(node: Node, vhost: VirtualHost, attributes: dict[str, object]) -> bool:
    """Replace the attributes of a virtual host stored for users and exports; return whether any changed."""
    if attributes == vhost.metadata:
        return False
    vhost.metadata = attributes
    if node.broker.journal is not None:
        node.broker.journal.change(vhost)
    return True


def check_new_vhost(node: Node, name: str) -> None:
    """Check that a virtual host may be created. Raises PreconditionFailed (406), ResourceError (506)."""
    if not name or len(name.encode()) > NAME_OCTETS:
        raise PreconditionFailed(f"a virtual host's name has 1 to {NAME_OCTETS} bytes, not {len(name.encode())}")
    if len(node.broker.vhosts) >= VHOSTS_MAX:
        raise ResourceError(
            f"there are {VHOSTS_MAX} virtual hosts, the most that there may be; '{name}' was not created"
        )


def delete_vhost(node: Node, name: str) -> None:
    """Run `delete_vhost_steps` at once."""
    finish(delete_vhost_steps(node, name, WorkProgress()))


def delete_vhost_steps(node: Node, name: str, progress: WorkProgress) -> Steps[None]:
    """Delete a virtual host with all its objects; its connections are closed (320).

    Raises NotFound (404), and PreconditionFailed (406) for a virtual host protected from deletion.

    A virtual host may have very many queues: a share of the queues is deleted in each turn, and meanwhile clients
    cannot open the virtual host. After a cancellation clients can open it again, with the remaining queues. A deletion
    cannot be cancelled after the last queue.
    """
    vhost = node.vhost(name)
    if vhost.metadata.get(PROTECTED) is True:
        raise PreconditionFailed(f"vhost '{name}' is protected from deletion; remove that first: {PROTECTION}")
    broker = node.broker
    work = broker.work
    vhost.deleting = True
    for connection in list(node.connections.values()):
        if connection.vhost is vhost:
            connection.close(ConnectionForced(f"vhost '{name}' is deleted"))
    node.control.ranges.forget(vhost)
    broker.producer_lanes.drop_vhost(name)
    progress.count_all(len(vhost.queues), "queues")
    while vhost.queues:
        broker.delete_queue(next(iter(vhost.queues.values())))
        progress.done += 1
        if work.spend(DELETION_WORK):
            yield
            if progress.cancelled_by and vhost.queues:
                vhost.deleting = False
                deleted = f"{int(progress.done):,} of its {int(progress.all):,} queues are deleted"
                raise Cancelled(f"cancelled by user '{progress.cancelled_by}': {deleted}; vhost '{name}' is open again")
    while vhost.exchanges:
        vhost.drop_exchange(next(iter(vhost.exchanges.values())))
        if work.spend(DELETION_WORK):
            yield
    yield from alone(progress, _forget_steps(node, vhost))


def _forget_steps(node: Node, vhost: VirtualHost) -> Steps[None]:
    """Delete an empty virtual host, with its policies, settings, parameters and permissions, in one step."""
    broker, name = node.broker, vhost.name
    if broker.work.spend(DELETION_WORK):
        yield
    broker.gates.set_vhost_limit(vhost, None)
    broker.gates.set_vhost_quota(vhost, None)
    broker.gates.unblock_vhost(name)
    drop_policies(broker, name)
    drop_placed(broker, name)
    for parameter in broker.table.parameters.drop_vhost(name):
        if broker.journal is not None:
            broker.journal.forget(parameter)
    broker.access.forget_vhost(name)
    del broker.vhosts[name]
    node.stats.forget_vhost(name)
    if broker.journal is not None:
        broker.journal.forget(vhost)
    node.log(LogLine(f"[vh({name})] deleted", {"id": CHANGED}))


PROTECTED: Final = "protected_from_deletion"
PROTECTION: Final = "DELETE /api/vhosts/VHOST/deletion/protection"
ATTRIBUTES: Final[tuple[str, ...]] = ("description", "tags", DEFAULT_QUEUE_TYPE, "metadata", PROTECTED)
"""Attributes of a virtual host that are kept, and exported again."""
ATTRIBUTES_MOST: Final = 16 * 1024
"""Most characters of the kept attributes of a virtual host."""


def attributes_of(name: str, fields: Row) -> Row:
    """Return the stored attributes of a virtual host.

    The default type of queues may be in `metadata`, as in RabbitMQ's definitions. Raises PreconditionFailed (406) for
    too large attributes or an unknown type.
    """
    attributes = {key: fields[key] for key in ATTRIBUTES if fields.get(key) not in (None, "undefined")}
    nested = attributes.get("metadata")
    kind = nested.get(DEFAULT_QUEUE_TYPE) if isinstance(nested, dict) else None
    kind = attributes.pop(DEFAULT_QUEUE_TYPE, kind)
    if kind not in (None, "", "undefined"):
        attributes[DEFAULT_QUEUE_TYPE] = kind
        read_type(f"vhost '{name}'", DEFAULT_QUEUE_TYPE, kind)
    tags = attributes.get("tags")
    if isinstance(tags, str):  # RabbitMQ's tools send the tags as one text.
        attributes["tags"] = [tag.strip() for tag in tags.split(",") if tag.strip()]
    if len(str(attributes)) > ATTRIBUTES_MOST:
        raise PreconditionFailed(f"the attributes of a virtual host have at most {ATTRIBUTES_MOST:,} characters")
    return attributes


def permit_creator(node: Node, name: str, vhost: str) -> None:
    """Grant the creator of a virtual host all permissions there (as RabbitMQ), unless already granted."""
    user = node.broker.access.find(name)
    if user is not None and user.source == STORE and user.permission(vhost) is None:
        node.broker.access.set_permission(name, vhost, EVERYTHING)


def _declare(node: Node, request: ControlRequest) -> Row:
    name = request.text("name")
    attributes = attributes_of(name, request.fields)
    read_type(f"vhost '{name}'", DEFAULT_QUEUE_TYPE, attributes.get(DEFAULT_QUEUE_TYPE))
    created = declare_vhost(node, name)
    vhost = node.broker.vhosts[name]
    if attributes:
        set_attributes(node, vhost, {**vhost.metadata, **attributes})
    if created:
        permit_creator(node, request.access.user, name)
    return {"created": created}


def _protect(node: Node, request: ControlRequest) -> Row | None:
    """Protect a virtual host from deletion, or with `protected` false end the protection."""
    vhost = node.broker.vhosts.get(request.text("name"))
    if vhost is None or vhost.deleting:
        return None
    kept = {key: value for key, value in vhost.metadata.items() if key != PROTECTED}
    set_attributes(node, vhost, {**kept, PROTECTED: True} if request.flag("protected") else kept)
    return {}


def _delete(node: Node, request: ControlRequest) -> Steps[Row]:
    name = request.text("name")
    if not request.is_over_http() and name == request.vhost.name:
        raise ResourceLocked(f"vhost '{name}' cannot be deleted from inside; connect to another vhost")
    yield from delete_vhost_steps(node, name, request.progress)
    return {}


def _deleted_subject(node: Node, request: ControlRequest) -> tuple[Subject, ...]:
    name = request.text("name")
    return (Subject(VHOST, name, name, whole=True),)


def _before(node: Node, request: ControlRequest) -> Row | None:
    vhost = node.broker.vhosts.get(request.text("name"))
    return None if vhost is None else dict(vhost.metadata)


def _there(node: Node, entry: Entry) -> Row | None:
    vhost = node.broker.vhosts.get(entry.text("name"))
    return None if vhost is None or vhost.deleting else vhost.metadata


def _check(node: Node, entry: Entry, value: Row, planned: Planned | None) -> None:
    if _there(node, entry) is None and planned is not None:
        check_new_vhost(node, entry.text("name"))
        planned.vhosts.add(entry.text("name"))
    if value and planned is not None:
        planned.default_types[entry.text("name")] = default_type(value)


def _put(node: Node, entry: Entry, value: Row, before: Row | None) -> Undo:
    declare_vhost(node, entry.text("name"))
    vhost = node.broker.vhosts[entry.text("name")]
    if value:
        set_attributes(node, vhost, value)

    def undo() -> str:
        if node.broker.vhosts.get(vhost.name) is not vhost:
            return ""
        if before is not None:
            set_attributes(node, vhost, before)
        elif _is_used(node, vhost):
            return f"vhost '{vhost.name}'"
        else:
            delete_vhost(node, vhost.name)
        return ""

    return undo


def _is_used(node: Node, vhost: VirtualHost) -> bool:
    """Return whether a virtual host contains objects that others have created."""
    table = node.broker.table
    policies = [*table.policies.of(vhost.name, False), *table.policies.of(vhost.name, True)]
    exchanges = any(name not in PREDECLARED_NAMES for name in vhost.exchanges)
    if vhost.queues or exchanges or policies or table.parameters.of(None, vhost.name):
        return True
    return any(connection.vhost is vhost for connection in node.connections.values())


def _by_path(fields: Row) -> Row:
    return {**fields, "name": fields["vhost"]}


DEFINITIONS: Final[Definitions] = Definitions(
    Section(
        "vhosts",
        "name",
        texts="name",
        anything=f"description tags metadata {DEFAULT_QUEUE_TYPE} limits tracing {PROTECTED}",
    ),
    subject=lambda entry: f"vhost '{entry.text('name')}'",
    read=lambda node, entry: attributes_of(entry.text("name"), entry.fields),
    row=lambda attributes: attributes,
    find=_there,
    put=_put,
    check=_check,
    same=lambda node, entry, before, value: before is not None and (not value or value == before),
    undone_alone=True,
)
DECLARE_VHOST: Final = "vhost.declare"
DELETE_VHOST: Final = "vhost.delete"
OPERATIONS: Final[tuple[Operation, ...]] = (
    listing(VHOSTS, "GET /vhosts", "List virtual hosts."),
    showing("GET /vhosts/{vhost}", "Show a virtual host.",
            lambda node, request: VHOSTS.table.row(request.vhost, sampled(node, request)), ADMINISTRATOR),
    Operation(DECLARE_VHOST, _declare, ("name",), before=_before, asks=CATALOGUE, routes=(
        Route("PUT /vhosts/{vhost}", "Create a virtual host: 201 if it is new, 204 if it exists. Description, tags and "
              "the like are kept.", read=_by_path, silent=True),
    )),
    Operation("vhost.protect", _protect, ("name", "protected"), before=_before, asks=CATALOGUE, routes=(
        Route("POST /vhosts/{vhost}/deletion/protection", "Protect a virtual host from deletion.",
              read=_by_path, fixed={"protected": True}, silent=True),
        Route("DELETE /vhosts/{vhost}/deletion/protection", "Permit the deletion of a virtual host again.",
              read=_by_path, fixed={"protected": False}, silent=True),
    )),
    Operation(DELETE_VHOST, _delete, ("name",), before=_before, job=_deleted_subject, asks=CATALOGUE, routes=(
        Route("DELETE /vhosts/{vhost}", "Delete a virtual host with all its objects; its connections are closed.",
              read=_by_path, silent=True),
    )),
)  # fmt: skip
