"""Peer of a connection: its address, its network, what it announces, and the octets from it and to it."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

from penstock.core.settings.limits import Limits, rates
from penstock.errors import NotAllowed, PreconditionFailed
from penstock.protocols.common.tls_session import TlsSession
from penstock.protocols.common.traffic import Traffic
from penstock.settings.read import read_client_properties

THIS_MACHINE: Final = "this machine"
"""Network name that stands for all loopback addresses."""
QUERY: Final = "penstock_query"
"""Property of a client: the name of the query whose results it publishes (see core/queue/pinned_room.py)."""
IPV6_NETWORK: Final = (1 << 64) - 1
"""Prefix length of an IPv6 network: its owner chooses the other 64 bits at will."""


def network_of(host: str, loopback: bool) -> str:
    """Return the network that bounds apply to: an IPv4 address, the /64 of an IPv6 address, or this machine."""
    if loopback:
        return THIS_MACHINE
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return f"{IPv6Address(int(address) & ~IPV6_NETWORK)}/64" if mapped is None else str(mapped)
    return str(address)


def is_loopback(host: str) -> bool:
    """Tell whether an address belongs to this machine."""
    return host.startswith("127.") or host in ("::1", "::ffff:127.0.0.1")


class Peer:
    """Peer of a connection: its address and what it announces."""

    def __init__(self, address: str, loopback: bool, local: str = "", securing: bool = False) -> None:
        self.address = address
        """Host and port, for people."""
        self.local = local
        """Host and port of our end; empty if unknown."""
        self.network = network_of(address.rpartition(":")[0], loopback)
        """Network for bounds and back-off."""
        self.loopback = loopback
        """True if the peer is on this machine: only then may guest log in (as in RabbitMQ)."""
        self.properties: dict[str, object] = {}
        """Properties of the client that are stored for people: product, version, platform, connection_name ..."""
        self.rates: Limits | None = None
        """Rates that the client has set for each of its producers; None for none."""
        self.mechanism: str = ""
        """Authentication mechanism, such as PLAIN; empty before the login."""
        self.tls_subject: str = ""
        """User that the peer's certificate names, for the mechanism EXTERNAL; empty without TLS or a certificate."""
        self.securing = securing
        """True while a handshake of TLS is in progress."""
        self.tls: TlsSession | None = None
        """TLS of the connection; None without it, and until its handshake is over."""
        self.traffic = Traffic()
        """Octets from it and to it."""

    def set_rates(self, properties: dict[str, object]) -> None:
        """Take the rates among the properties of the client. Raises NotAllowed (530) for an invalid one."""
        try:
            self.rates = rates("client", read_client_properties(properties))
        except PreconditionFailed as error:
            raise NotAllowed(str(error)) from None

    def secure(self, session: TlsSession) -> None:
        """Set the TLS of the connection: its handshake is over."""
        self.tls = session
        self.tls_subject = session.user

    def is_protected(self) -> bool:
        """Tell whether nobody else can read the connection: it has TLS, or does not leave this machine."""
        return self.loopback or self.tls is not None
