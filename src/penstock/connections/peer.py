"""Peer of a connection: its address, network, announced properties, TLS, and the bytes in both directions.

With TLS, decrypted bytes are counted. Bytes that a paused socket has not delivered yet are not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from mypy_extensions import i64

from penstock.core.queue.cursor_state import QueryId
from penstock.core.settings.limits import Limits, rates
from penstock.errors import NotAllowed, PreconditionFailed
from penstock.settings.read import read_client_properties


class Traffic:
    """Counts of bytes, of reads and of writes; they only grow."""

    def __init__(self) -> None:
        self.received: i64 = 0
        self.sent: i64 = 0
        """Bytes."""
        self.reads: i64 = 0
        self.writes: i64 = 0
        """Reads from the socket that returned bytes, and writes to it: RabbitMQ calls them packets."""
        self.received_rate: float = 0.0
        self.sent_rate: float = 0.0
        """Bytes a second between the last two samples."""
        self._received_before: i64 = 0
        self._sent_before: i64 = 0
        self._sampled: float = -1.0
        """Time of the last sample (monotonic seconds), and the counts at that time; -1.0 before the first."""

    def count_received(self, octets: i64) -> None:
        """Count a read."""
        self.received += octets
        self.reads += 1

    def count_sent(self, octets: i64) -> None:
        """Count a write."""
        self.sent += octets
        self.writes += 1

    def add(self, other: Traffic) -> None:
        """Add the counts of a connection that ends."""
        self.received += other.received
        self.sent += other.sent
        self.reads += other.reads
        self.writes += other.writes

    def sample(self, now: float, opened: float) -> None:
        """Set the rates: since the last sample, or since the connection was opened."""
        before = self._sampled if self._sampled >= 0.0 else opened
        seconds = now - before
        if seconds > 0.0:
            self.received_rate = float(self.received - self._received_before) / seconds
            self.sent_rate = float(self.sent - self._sent_before) / seconds
            self._received_before = self.received
            self._sent_before = self.sent
            self._sampled = now


WITHOUT: Final[dict[str, object]] = {
    "ssl": False,
    "ssl_protocol": None,
    "ssl_key_exchange": None,
    "ssl_cipher": None,
    "ssl_hash": None,
    "peer_cert_subject": None,
    "peer_cert_issuer": None,
    "peer_cert_validity": None,
}
"""Fields of a connection without TLS."""


class TlsSession:
    """TLS of one connection after its handshake."""

    def __init__(self, version: str, cipher: str) -> None:
        self.version = version
        """Version of the protocol in OpenSSL's words: TLSv1.3."""
        self.cipher = cipher
        """Cipher suite in OpenSSL's words: TLS_AES_256_GCM_SHA384, or ECDHE-RSA-AES256-GCM-SHA384."""
        self.user: str = ""
        """User that the peer's certificate names; empty without a certificate or a user in it."""
        self.subject: str = ""
        """Distinguished name of the peer's certificate (RFC 4514); empty without a certificate."""
        self.issuer: str = ""
        """Distinguished name of the certificate's issuer."""
        self.validity: str = ""
        """Start and end of the certificate's validity, in RabbitMQ's form."""


def rabbitmq_fields(session: TlsSession | None) -> dict[str, object]:
    """Return the TLS fields of RabbitMQ's connections, with its words for key exchange, cipher and hash."""
    if session is None:
        return dict(WITHOUT)
    exchange, cipher, digest = _parts(session.cipher)
    return {
        "ssl": True,
        "ssl_protocol": session.version.lower(),
        "ssl_key_exchange": exchange,
        "ssl_cipher": cipher,
        "ssl_hash": digest,
        "peer_cert_subject": session.subject or None,
        "peer_cert_issuer": session.issuer or None,
        "peer_cert_validity": session.validity or None,
    }


def _parts(suite: str) -> tuple[str, str, str]:
    """Return key exchange, cipher and hash of a cipher suite; a suite of TLS 1.3 has any key exchange.

    The hash of a cipher that authenticates by itself is `aead`.
    """
    words = suite.lower().replace("aes128", "aes-128").replace("aes256", "aes-256").replace("_", "-").split("-")
    exchange = "any"
    if words[0] == "tls":
        words = words[1:]
    else:
        keys = [word for word in words if word in ("ecdhe", "dhe", "ecdh", "rsa", "ecdsa", "psk")]
        words = [word for word in words if word not in keys]
        exchange = "_".join(keys) or "rsa"
    if "gcm" in words or "ccm" in words or "poly1305" in words:
        ends_with_hash = words[-1].startswith("sha")
        return exchange, "_".join(words[:-1] if ends_with_hash else words), "aead"
    return exchange, "_".join([*words[:-1], "cbc"]), words[-1]


CONNECTION_NAME: Final = "connection_name"
"""Property of a client: the name of its connection."""
THIS_MACHINE: Final = "this machine"
"""Network name that stands for all loopback addresses."""
QUERY: Final = "penstock_query"
"""Property of a client: the name of the query whose results it publishes (see core/queue/queue_room.py)."""
SHOWN_LETTERS: Final = 255
"""Most characters of a text of a client, such as its product or its user, that are stored for display."""
UNIX_HOST: Final = "unix"
"""Host of a peer at a Unix socket; its port is the number of its process."""
UNKNOWN_END: Final = "unknown"
"""Host of an end whose address the socket does not return."""
IPV6_NETWORK: Final = (1 << 64) - 1
"""Prefix length of an IPv6 network: its owner chooses the other 64 bits at will."""


def end_of(address: str) -> str:
    """Return host and port of one end in RabbitMQ's form: brackets around IPv6, and IPv4 in IPv6 as IPv4.

    The broker's end at a Unix socket is its path, after `unix:`.
    """
    host, _, port = address.rpartition(":")
    if host.startswith(f"{UNIX_HOST}:"):
        return host
    host = host.removeprefix("::ffff:") if "." in host else host
    return f"[{host}]:{port}" if ":" in host else f"{host or UNKNOWN_END}:{port or 0}"


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
    """Return whether an address belongs to this machine; a Unix socket does."""
    return host.startswith("127.") or host in ("::1", "::ffff:127.0.0.1", UNIX_HOST)


class Peer:
    """Peer of a connection: its address and announced properties."""

    def __init__(self, address: str, loopback: bool, local: str = "", securing: bool = False) -> None:
        self.address = address
        """Host and port, for display."""
        self.local = local
        """Host and port of the broker's end; empty if unknown."""
        self.network = network_of(address.rpartition(":")[0], loopback)
        """Network for bounds and back-off."""
        self.loopback = loopback
        """True if the peer is on this machine: only then may guest log in (as in RabbitMQ)."""
        self.properties: dict[str, object] = {}
        """Properties of the client that are stored for display: product, version, platform, connection_name ..."""
        self.given_name: str = ""
        """Name that the client gives its connection; empty without one."""
        self.rates: Limits | None = None
        """Rates that the client has set for each of its producers; None without rates."""
        self.mechanism: str = ""
        """Authentication mechanism, such as PLAIN; empty before the login."""
        self.tls_subject: str = ""
        """User that the peer's certificate names, for the mechanism EXTERNAL; empty without TLS or a certificate."""
        self.is_internal: bool = False
        """True for a connection of the broker's own worker, whose user the broker has set."""
        self.number: int = 0
        """Number that another process of the node has given the connection; 0 for the next one of this process."""
        self.securing = securing
        """True while a handshake of TLS is in progress."""
        self.tls: TlsSession | None = None
        """TLS of the connection; None without TLS, and until the handshake is over."""
        self.traffic = Traffic()
        """Bytes from the peer and to it."""

    def ends(self) -> str:
        """Return both ends, the client's first, which is RabbitMQ's name of a connection."""
        return f"{end_of(self.address)} -> {end_of(self.local)}"

    def introduce(self, properties: dict[str, object], names: Sequence[str]) -> None:
        """Store the properties of a client that have these names, for display; the others are dropped."""
        for name in names:
            value = properties.get(name)
            if value is not None:
                self.properties[name] = sys.intern(str(value)[:SHOWN_LETTERS])  # Connections of a client share them.
        self.given_name = str(self.properties.get(CONNECTION_NAME, ""))

    def set_rates(self, properties: dict[str, object]) -> None:
        """Take the rates among the properties of the client. Raises NotAllowed (530) for an invalid one."""
        try:
            self.rates = rates("client", read_client_properties(properties))
        except PreconditionFailed as error:
            raise NotAllowed(str(error)) from None

    def vouch(self, user: str) -> None:
        """Set the user as which a process of the broker logs in, by EXTERNAL and without a password."""
        self.tls_subject = user
        self.is_internal = True

    def secure(self, session: TlsSession) -> None:
        """Set the TLS of the connection: its handshake is over."""
        self.tls = session
        self.tls_subject = session.user

    def is_protected(self) -> bool:
        """Return whether the connection is private: it has TLS, or stays on this machine."""
        return self.loopback or self.tls is not None


def query_of(peer: Peer, user: str) -> QueryId:
    """Return the query whose results a connection of a user publishes; a query without a name for most."""
    return QueryId(user, str(peer.properties.get(QUERY, "")))
