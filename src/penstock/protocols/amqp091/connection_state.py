"""Who is at the other end, and how far the conversation has come."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

HEADER: Final = "header"
START: Final = "start"
TUNE: Final = "tune"
OPEN: Final = "open"
RUNNING: Final = "running"
CLOSING: Final = "closing"
CLOSED: Final = "closed"


THIS_MACHINE: Final = "this machine"
"""The place of all loopback addresses."""
IPV6_NETWORK: Final = (1 << 64) - 1
"""The part of an IPv6 address that whoever has one chooses at will: a network has 64 bits."""


def network_of(host: str, loopback: bool) -> str:
    """Return what counts as one address: an IPv4 address, the /64 network of an IPv6 address, or this machine."""
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


class Peer:
    """Who is at the other end, as the event loop knows it, and what it says about itself."""

    def __init__(self, address: str, loopback: bool, local: str = "") -> None:
        self.address = address
        """Host and port, for people."""
        self.local = local
        """Host and port of our end; "" where nobody said."""
        self.network = network_of(address.rpartition(":")[0], loopback)
        """What counts as one address for bounds and back-off."""
        self.loopback = loopback
        """Whether it is this very machine: only then may guest log in (as in RabbitMQ)."""
        self.properties: dict[str, object] = {}
        """What it says about itself, as far as that is kept (`handshake.KEPT`)."""
        self.mechanism: str = ""
        """How it logged in: PLAIN, AMQPLAIN."""
