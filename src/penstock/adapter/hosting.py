"""Virtual hosts that come and go while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.vhost import VirtualHost
from penstock.errors import NotFound, PreconditionFailed, ResourceError

if TYPE_CHECKING:
    from penstock.adapter.hub import Hub

VHOSTS_MAX: Final = 1000
"""How many there may be: each has its predeclared exchanges and its gates, some 10 KiB."""
NAME_OCTETS: Final = 255
"""Longest name: connection.open carries it as a short string (AMQP 0-9-1 section 1.4.2.7)."""


def declare_vhost(hub: Hub, name: str) -> bool:
    """Make a virtual host; returns whether it is new. Raises PreconditionFailed (406), ResourceError (506)."""
    if name in hub.broker.vhosts:
        return False
    if not name or len(name.encode()) > NAME_OCTETS:
        raise PreconditionFailed(f"a virtual host's name has 1 to {NAME_OCTETS} octets, not {len(name.encode())}")
    if len(hub.broker.vhosts) >= VHOSTS_MAX:
        raise ResourceError(f"there are {VHOSTS_MAX} virtual hosts, the most that there may be; '{name}' was not made")
    if hub.broker.journal is not None:
        hub.broker.journal.admit()
    vhost = hub.broker.add_vhost(name)
    if hub.broker.journal is not None:
        hub.broker.journal.change(vhost)
    hub.note(f"[vh({name})] created")
    return True


def delete_vhost(hub: Hub, name: str) -> None:
    """Delete a virtual host with all that is in it; its connections are closed (320). Raises NotFound (404)."""
    vhost = find_vhost(hub, name)
    for connection in list(hub.connections.values()):
        if connection.vhost is vhost:
            connection.close(320, f"CONNECTION_FORCED - vhost '{name}' is deleted", 0)
    hub.control.forget_cursors(name)
    broker = hub.broker
    for queue in list(vhost.queues.values()):
        broker.delete_queue(queue)
    vhost.drop_exchanges()
    broker.gates.bound_vhost(vhost, None)
    broker.gates.limit_stock(vhost, None)
    broker.gates.unblock_vhost(name)
    del broker.vhosts[name]
    if broker.journal is not None:
        broker.journal.forget(vhost)
    hub.note(f"[vh({name})] deleted")


def find_vhost(hub: Hub, name: str) -> VirtualHost:
    """Return a virtual host. Raises NotFound (404)."""
    vhost = hub.broker.vhosts.get(name)
    if vhost is None:
        raise NotFound(f"no vhost '{name}'")
    return vhost
