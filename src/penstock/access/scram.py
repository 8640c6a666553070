"""Keys of users for SCRAM-SHA-256 (RFC 5802 section 3, RFC 7677), derived from their passwords."""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from typing import Final

from penstock.errors import PreconditionFailed

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
"""Iterations of PBKDF2, the least that RFC 7677 permits: clients pay as well."""
ITERATIONS_MOST: Final = 1_000_000
"""Most iterations of keys that are given: the client computes as many."""
SALT: Final = 16
"""Octets of salt."""

_TEXT: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,7}):([^$:]{1,128})\$([^$:]{1,64}):([^$:]{1,64})")
ScramKeys = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations."""


_is_loaded: bool = False


def scram_is_loaded() -> bool:
    """Tell whether a login by SCRAM can begin at once."""
    return _is_loaded


def load_scram() -> None:
    """Import the library for SCRAM: some 50 ms, not on the event loop, and 3 MB."""
    global _is_loaded
    importlib.import_module("scramp")
    _is_loaded = True


def derive_scram_keys(password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys | None:
    """Derive the keys of a password; None for one that SASLprep does not permit, such as with a control character.

    Takes two milliseconds of PBKDF2: not on the event loop, but for a password that nobody else chose.
    """
    from scramp import ScramException, ScramMechanism  # See `load_scram`.

    try:
        salted, stored_key, server_key, count = ScramMechanism(MECHANISM).make_auth_info(password, iterations, salt)
    except ScramException:
        return None
    return salted, stored_key, server_key, count


def scram_text(keys: ScramKeys) -> str:
    """Return keys as `read_scram_keys` takes them, in the form of PostgreSQL's pg_authid (rolpassword)."""
    salt, stored, server = (base64.b64encode(part).decode() for part in keys[:3])
    return f"{MECHANISM}${keys[3]}:{salt}${stored}:{server}"


def read_scram_keys(text: str) -> ScramKeys:
    """Read keys. Raises PreconditionFailed, which never quotes them."""
    found = _TEXT.fullmatch(text)
    if found is None or not ITERATIONS <= int(found[1]) <= ITERATIONS_MOST:
        raise PreconditionFailed(
            f"scram_secret must be {MECHANISM}$ITERATIONS:SALT$STORED:SERVER, with {ITERATIONS} to {ITERATIONS_MOST} "
            "iterations"
        )
    try:
        salt, stored, server = (base64.b64decode(found[number], validate=True) for number in (2, 3, 4))
    except binascii.Error:
        raise PreconditionFailed("scram_secret is not base64") from None
    if not 8 <= len(salt) <= 64 or len(stored) != 32 or len(server) != 32:
        raise PreconditionFailed("scram_secret needs 8 to 64 octets of salt, and keys of 32")
    return salt, stored, server, int(found[1])
