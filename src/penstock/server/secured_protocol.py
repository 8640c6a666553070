"""Secured protocol: callbacks from a layer of TLS to the protocol above the layer, which need not know the layer."""

from __future__ import annotations

import asyncio

from penstock.connections.peer import TlsSession


class SecuredProtocol(asyncio.BufferedProtocol):
    """Protocol with callbacks for the end of the handshake, before the first bytes, and for the work of TLS."""

    __slots__ = ()

    def secured(self, session: TlsSession) -> None:
        """Store the TLS of the connection."""
        raise NotImplementedError

    def charge_bare(self, units: int) -> None:
        """Charge units of work for records without data; its input waits for the next share."""
        raise NotImplementedError
