"""Mechanisms of logins: offered to a client by the settings and by the protection of its connection.

| mechanism | identity | offered |
|---|---|---|
| EXTERNAL (RFC 4422, appendix A) | the user that the certificate names | with such a certificate |
| EXTERNAL, alone | the user that the broker has set | to the broker's own worker, whatever the settings permit |
| SCRAM-SHA-256 (RFC 7677) | proof of the password | AMQP 1.0 |
| PLAIN (RFC 4616) | the password | always |
| AMQPLAIN | the password | AMQP 0-9-1 |
| ANONYMOUS (RFC 4505) | guest | on this machine, if guest has the password guest (as in RabbitMQ 4) |

`ConnectionLimits.sasl_mechanisms` lists the permitted mechanisms, and `insecure_mechanisms` those of connections
without TLS from other machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.peer import Peer
from penstock.connections.services import Services

EXTERNAL: Final = "EXTERNAL"
SCRAM: Final = "SCRAM-SHA-256"
PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
ANONYMOUS: Final = "ANONYMOUS"


def is_permitted(limits: ConnectionLimits, mechanism: str, protected: bool) -> bool:
    """Return whether the settings permit a mechanism; `protected` is true with TLS, and on this machine."""
    if mechanism not in limits.start.sasl_mechanisms:
        return False
    return protected or mechanism in limits.start.insecure_mechanisms


def offered_mechanisms(services: Services, peer: Peer, known: Sequence[str]) -> list[str]:
    """Return the mechanisms that a peer may choose from, among those that its protocol supports."""
    if peer.is_internal:
        return [EXTERNAL]
    mechanisms: list[str] = []
    limits = services.connection_limits
    for mechanism in limits.start.sasl_mechanisms:
        if mechanism not in known or not is_permitted(limits, mechanism, peer.is_protected()):
            continue
        if mechanism == EXTERNAL and not peer.tls_subject:
            continue
        if mechanism == ANONYMOUS and not services.may_be_anonymous(peer.loopback):
            continue
        mechanisms.append(mechanism)
    return mechanisms
