"""Keys of users for SCRAM-SHA-256 (RFC 5802 section 3, RFC 7677), derived from their passwords."""

from __future__ import annotations

from typing import Final

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
"""Iterations of PBKDF2, the least that RFC 7677 permits: clients pay as well."""
SALT: Final = 16
"""Octets of salt."""

ScramKeys = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations."""


def derive_scram_keys(password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys | None:
    """Derive the keys of a password; None for one that SASLprep does not permit, such as with a control character.

    Takes two milliseconds of PBKDF2: not on the event loop, but for a password that nobody else chose.
    """
    from scramp import ScramException, ScramMechanism  # It loads more slowly than the broker.

    try:
        salted, stored_key, server_key, count = ScramMechanism(MECHANISM).make_auth_info(password, iterations, salt)
    except ScramException:
        return None
    return salted, stored_key, server_key, count
