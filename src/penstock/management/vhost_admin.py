"""Creation and deletion of virtual hosts at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.settings.changes import drop_policies
from penstock.core.vhost import VirtualHost
from penstock.errors import ConnectionForced, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.work import Steps, finish
from penstock.log_ids import CHANGED
from penstock.protocols.common.log_line import LogLine

if TYPE_CHECKING:
    from penstock.management.node import Node

VHOSTS_MAX: Final = 1000
"""Most virtual hosts: each has its predeclared exchanges and its gates, some 10 KiB."""
DELETION_WORK: Final = 25
"""Units of work per queue or exchange that is deleted with its virtual host."""
NAME_OCTETS: Final = 255
"""Longest name: connection.open carries it as a short string (AMQP 0-9-1 section 1.4.2.7)."""


def declare_vhost(node: Node, name: str) -> bool:
    """Create a virtual host; return whether it is new.

    Raises PreconditionFailed (406), ResourceError (506), ResourceLocked (405) during the deletion of one of that name.
    """
    there = node.broker.vhosts.get(name)
    if there is not None:
        if there.deleting:
            raise ResourceLocked(f"vhost '{name}' is being deleted: {len(there.queues):,} of its queues are left")
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
    """Replace the attributes of a virtual host that are kept for people and exports; return whether they changed."""
    if attributes == vhost.metadata:
        return False
    vhost.metadata = attributes
    if node.broker.journal is not None:
        node.broker.journal.change(vhost)
    return True


def check_new_vhost(node: Node, name: str) -> None:
    """Check that a virtual host may be created. Raises PreconditionFailed (406), ResourceError (506)."""
    if not name or len(name.encode()) > NAME_OCTETS:
        raise PreconditionFailed(f"a virtual host's name has 1 to {NAME_OCTETS} octets, not {len(name.encode())}")
    if len(node.broker.vhosts) >= VHOSTS_MAX:
        raise ResourceError(
            f"there are {VHOSTS_MAX} virtual hosts, the most that there may be; '{name}' was not created"
        )


def delete_vhost(node: Node, name: str) -> None:
    """Run `delete_vhost_steps` at once."""
    finish(delete_vhost_steps(node, name))


def delete_vhost_steps(node: Node, name: str) -> Steps[None]:
    """Delete a virtual host with all its objects; its connections are closed (320). Raises NotFound (404).

    It may have very many queues: a share of them is deleted in each turn, and meanwhile it cannot be opened.
    """
    vhost = find_vhost(node, name)
    broker = node.broker
    work = broker.work
    vhost.deleting = True
    for connection in list(node.connections.values()):
        if connection.vhost is vhost:
            connection.close(ConnectionForced(f"vhost '{name}' is deleted"))
    node.control.ranges.forget(vhost)
    broker.producer_lanes.drop_vhost(name)
    while vhost.queues:
        broker.delete_queue(next(iter(vhost.queues.values())))
        work.done += DELETION_WORK
        if work.used_up():
            yield
    while vhost.exchanges:
        vhost.drop_exchange(next(iter(vhost.exchanges.values())))
        work.done += DELETION_WORK
        if work.used_up():
            yield
    broker.gates.set_vhost_limit(vhost, None)
    broker.gates.set_vhost_quota(vhost, None)
    broker.gates.unblock_vhost(name)
    drop_policies(broker, name)
    for parameter in broker.table.parameters.drop_vhost(name):
        if broker.journal is not None:
            broker.journal.forget(parameter)
    broker.access.forget_vhost(name)
    del broker.vhosts[name]
    node.stats.forget_vhost(name)
    if broker.journal is not None:
        broker.journal.forget(vhost)
    node.log(LogLine(f"[vh({name})] deleted", {"id": CHANGED}))


def find_vhost(node: Node, name: str) -> VirtualHost:
    """Return a virtual host. Raises NotFound (404)."""
    vhost = node.broker.vhosts.get(name)
    if vhost is None or vhost.deleting:
        raise NotFound(f"no vhost '{name}'")
    return vhost
