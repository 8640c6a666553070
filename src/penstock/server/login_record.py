"""Record of a login: what the process that logs a client in passes on, with the socket, to the process that serves it.

The record is no replay of the client's bytes. A replay would carry passwords into another process, count each login
twice in back-off, rates and audit log, and need the nonce of SCRAM. The record is small, because the first process
stops before the frame that opens a virtual host: `rest` begins with that frame.

`packet` writes a version, the length of the fields, the fields as a JSON object, and `rest`. `of` reads it strictly: a
packet of another version, an unknown or missing field, and a value of another type are refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf
from typing import Final, TypeAlias

from penstock.connections.connection import Connection
from penstock.connections.engine import Agreement
from penstock.connections.finished_login import FinishedLogin
from penstock.connections.peer import CONNECTION_NAME, Peer, TlsSession
from penstock.core.broker import Broker
from penstock.core.settings.limits import Limits
from penstock.errors import PenstockError
from penstock.server.asker import Grant
from penstock.server.record_fields import (
    flag_field,
    permission_field,
    text_field,
    texts_field,
    texts_or_none_field,
    time_field,
)

VERSION: Final = 1
"""Version of the packet: another field, or another meaning of one, is another version."""
HEAD: Final = 5
"""Bytes before the fields: version, and length of the fields."""
PACKET_OCTETS_MOST: Final = 128 * 1024
"""Largest packet. Fields are bounded by what one frame of a login, or one token, may have."""
CAPABILITIES: Final = "capabilities"
"""Property of a client that is a table."""

Rates: TypeAlias = tuple[float | None, float, float | None, float, float]
"""Rate and refill of messages, rate of bytes, and bursts of both: see `Limits`."""


class RecordError(PenstockError):
    """A record that cannot be written or read; the text quotes no value of a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRecord:
    """One client that is logged in and has not opened a virtual host."""

    protocol: str
    """Name of the protocol, such as AMQP 0-9-1."""
    user: str
    mechanism: str
    """Authentication mechanism, such as PLAIN."""
    number: int = 0
    """Number of the connection in its name (con:17), which is the same in all processes of the node."""
    address: str
    """Host and port of the client, also behind a relay: logs, rates and bounds depend on it."""
    local: str = ""
    """Host and port of the listener's end."""
    loopback: bool = False
    """True if the client is on this machine."""
    properties: dict[str, str]
    """Stored properties of the client, among them its query (`penstock_query`)."""
    capabilities: dict[str, bool] | None = None
    """Capabilities that the client has announced; None if it has announced none (AMQP 0-9-1)."""
    rates: Rates | None = None
    """Rates that the client has set for its producers; None without any."""
    scopes: tuple[str, ...] | None = None
    """Scopes of the token with which the client has logged in; None without a token."""
    served_vhosts: tuple[str, ...] | None = None
    """Virtual hosts that an HTTP back end permits; None if no back end was asked."""
    served_tags: tuple[str, ...] = ()
    """Tags that the back end has named."""
    served_permission: tuple[str, ...] = ("", "", "")
    """Expressions that may be configured, written and read in these virtual hosts."""
    expires_at: float | None = None
    """Wall-clock time in seconds at which the credentials expire; None for never."""
    frame_max: int = 0
    channel_max: int = 0
    heartbeat_s: int = 0
    """Limits that both sides have agreed on (AMQP 0-9-1)."""
    tls: tuple[str, ...] | None = None
    """Version, cipher, user, subject, issuer and validity of TLS in the first process; None without TLS."""
    rest: bytes
    """Input that is left, from the frame that opens the virtual host on."""

    # Packets

    def packet(self) -> bytes:
        """Return the record as bytes. Raises RecordError if they are too many."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "rest"}
        body = json.dumps(values, separators=(",", ":"), allow_nan=True).encode()
        packet = b"%c%b%b%b" % (VERSION, len(body).to_bytes(HEAD - 1, "big"), body, self.rest)
        if len(packet) > PACKET_OCTETS_MOST:
            raise RecordError(f"record of a login has {len(packet)} bytes; the most is {PACKET_OCTETS_MOST}")
        return packet

    @classmethod
    def of(cls, packet: bytes) -> LoginRecord:
        """Return the record of a packet. Raises RecordError."""
        if len(packet) > PACKET_OCTETS_MOST:
            raise RecordError(f"record of a login has {len(packet)} bytes; the most is {PACKET_OCTETS_MOST}")
        if not packet or packet[0] != VERSION:
            found = packet[0] if packet else "none"
            raise RecordError(f"record of a login has version {found}; this process reads version {VERSION}")
        end = HEAD + int.from_bytes(packet[1:HEAD], "big")
        if len(packet) < max(HEAD, end):
            raise RecordError(f"record of a login ends after {len(packet)} of {end} bytes")
        try:
            values = json.loads(packet[HEAD:end])
        except (ValueError, RecursionError):
            raise RecordError("fields of a login's record are no JSON") from None
        if not isinstance(values, dict) or values.keys() != READERS.keys():
            raise RecordError("record of a login has other fields than this version")
        read: dict[str, object] = {}
        for name, reader in READERS.items():
            try:
                read[name] = reader(values[name])
            except (TypeError, ValueError):
                raise RecordError(f"field {name} of a login's record has another type") from None
        return cls(rest=packet[end:], **read)  # type: ignore[arg-type]  # READERS has a reader for each field.

    # Connections

    @classmethod
    def describe(cls, connection: Connection, protocol: str, rest: bytes) -> LoginRecord:
        """Return the record of a connection in the state OPEN, and of its input from the frame that opens on."""
        peer, rules, agreed = connection.peer, connection.access.rules, connection.engine.agreement()
        expires_at = connection.login.expires_at()
        grant = Grant.of(rules)
        return cls(
            protocol=protocol,
            user=connection.user,
            mechanism=peer.mechanism,
            number=connection.number,
            address=peer.address,
            local=peer.local,
            loopback=peer.loopback,
            properties={name: str(value) for name, value in peer.properties.items() if name != CAPABILITIES},
            capabilities=agreed.capabilities,
            rates=_rates_of(peer.rates),
            scopes=grant.scopes,
            served_vhosts=grant.vhosts,
            served_tags=grant.tags,
            served_permission=grant.permission,
            expires_at=None if expires_at == inf else expires_at,
            frame_max=agreed.frame_max,
            channel_max=agreed.channel_max,
            heartbeat_s=agreed.heartbeat_s,
            tls=_tls_facts(peer.tls),
            rest=rest,
        )

    def peer(self) -> Peer:
        """Return the peer of the connection in the process that serves it."""
        peer = Peer(self.address, self.loopback, sys.intern(self.local))
        peer.properties.update({name: sys.intern(value) for name, value in self.properties.items()})
        peer.number = self.number
        peer.given_name = self.properties.get(CONNECTION_NAME, "")
        if self.rates is not None:
            peer.rates = _limits_of(self.rates)
        if self.tls is not None:
            session = TlsSession(self.tls[0], self.tls[1])
            session.user, session.subject, session.issuer, session.validity = self.tls[2:]
            peer.secure(session)
        return peer

    def login(self, broker: Broker) -> FinishedLogin:
        """Return the login, for a broker that serves the client."""
        agreed = Agreement(self.frame_max, self.channel_max, self.heartbeat_s, self.capabilities)
        expires_at = inf if self.expires_at is None else self.expires_at
        grant = Grant(self.scopes, self.served_vhosts, self.served_tags, self.served_permission)
        return FinishedLogin(self.user, grant.rules(self.user, broker), agreed, self.mechanism, expires_at)


def _rates_of(limits: Limits | None) -> Rates | None:
    if limits is None:
        return None
    return (
        limits.rate_messages, limits.refill_messages, limits.rate_bytes, limits.burst_messages, limits.burst_bytes,
    )  # fmt: skip


def _limits_of(rates: Rates) -> Limits:
    limits = Limits()
    limits.rate_messages, limits.refill_messages = rates[0], rates[1]
    limits.rate_bytes, limits.burst_messages, limits.burst_bytes = rates[2], rates[3], rates[4]
    return limits


def _tls_facts(session: TlsSession | None) -> tuple[str, ...] | None:
    if session is None:
        return None
    return session.version, session.cipher, session.user, session.subject, session.issuer, session.validity


# Readers of the fields: each returns the value, or raises TypeError or ValueError.


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise TypeError
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise TypeError
    return value


def _facts(value: object) -> tuple[str, ...] | None:
    texts = texts_or_none_field(value)
    if texts is not None and len(texts) != 6:
        raise ValueError
    return texts


def _properties(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError
    return {text_field(name): text_field(each) for name, each in value.items()}


def _capabilities(value: object) -> dict[str, bool] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError
    return {text_field(name): flag_field(each) for name, each in value.items()}


def _rate(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise TypeError
    return float(value)


def _rates(value: object) -> Rates | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 5:
        raise TypeError
    messages, refill, octets, burst_messages, burst_octets = value
    return (
        None if messages is None else _rate(messages), _rate(refill), None if octets is None else _rate(octets),
        _rate(burst_messages), _rate(burst_octets),
    )  # fmt: skip


READERS: Final[dict[str, Callable[[object], object]]] = {
    "protocol": text_field,
    "user": text_field,
    "mechanism": text_field,
    "number": _number,
    "address": text_field,
    "local": text_field,
    "loopback": flag_field,
    "properties": _properties,
    "capabilities": _capabilities,
    "rates": _rates,
    "scopes": texts_or_none_field,
    "served_vhosts": texts_or_none_field,
    "served_tags": texts_field,
    "served_permission": permission_field,
    "expires_at": time_field,
    "frame_max": _count,
    "channel_max": _count,
    "heartbeat_s": _count,
    "tls": _facts,
}
"""Readers of the fields in JSON, by name: all fields but `rest`."""
