"""Sole connections: clients that want to be the only connection of their container.

"AMQP Enforcing Connection Uniqueness 1.0" (OASIS, 2018). A client asks with a desired capability of its open. The
policy of the newer one decides: it is refused (the default), or the existing one is closed. As in RabbitMQ 4.4, only
connections that have asked count (weak detection), and nobody closes the connection of another user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidField, ResourceLocked
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.values import UINT, Symbol, Typed

if TYPE_CHECKING:
    from penstock.protocols.amqp10.engine import Amqp10Engine

CAPABILITY: Final = "sole-connection-for-container"
"""Capability of an open: desired by the client, offered by us."""
_POLICY: Final = Symbol("sole-connection-enforcement-policy")
"""Property of the client's open: 0 is to refuse the new connection, 1 to close the existing one."""
_CLOSE_EXISTING: Final = 1
DETECTION: Final[dict[object, object]] = {Symbol("sole-connection-detection-policy"): Typed(UINT, 1)}
"""Property of our open: weak, for connections that did not ask are not found."""


class SoleConnections:
    """The connections of one broker that are the only one of their container, at most one for each connection."""

    def __init__(self) -> None:
        self._engines: dict[tuple[str, str], Amqp10Engine] = {}
        """Their engines by virtual host and container-id."""

    def claim(self, engine: Amqp10Engine, vhost: str, opened: Composite) -> None:
        """Register a connection, if its open asks for that. The existing one is closed where the open says so.

        Raises InvalidField if the new one is to be refused.
        """
        if CAPABILITY not in opened.texts("desired_capabilities"):
            return
        container = engine.container
        existing = self._engines.get((vhost, container))
        if existing is not None and not existing.connection.is_closing():
            policy = opened.mapping("properties").get(_POLICY)
            closes = isinstance(policy, Typed) and policy.value == _CLOSE_EXISTING
            if not closes or existing.connection.user != engine.connection.user:
                engine.close_info = {Symbol("invalid-field"): Symbol("container-id")}
                raise InvalidField(
                    f"open of container '{container}', which has a connection that is to be its only one"
                )
            existing.close_info = {Symbol("sole-connection-enforcement"): True}
            existing.connection.close(ResourceLocked(f"container '{container}' has opened another sole connection"))
        self._engines[vhost, container] = engine

    def holds(self, engine: Amqp10Engine) -> bool:
        """Return whether a connection is registered."""
        vhost = engine.connection.vhost
        return vhost is not None and self._engines.get((vhost.name, engine.container)) is engine

    def forget(self, engine: Amqp10Engine) -> None:
        """Remove a connection that has ended."""
        vhost = engine.connection.vhost
        if vhost is not None and self.holds(engine):
            del self._engines[vhost.name, engine.container]
