"""What a user of a driver may do, for connections and requests that are made without a login."""

from __future__ import annotations

from penstock.access.rules import ConnectionAccess, UserRules
from penstock.core.broker import Broker


def access_of(broker: Broker, user: str = "guest", vhost: str = "/") -> ConnectionAccess:
    """Return what a user may do in a virtual host."""
    return ConnectionAccess(UserRules(broker.access, user), user, vhost)
