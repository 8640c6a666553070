"""Keys of users for SCRAM-SHA-256 (RFC 5802 section 3, RFC 7677), derived from their passwords."""

from __future__ import annotations

import hashlib
from typing import Final

from penstock.flow.work import WorkMeter
from penstock.management.users import Users
from penstock.protocols.common.services import ScramKeys

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
"""Iterations of PBKDF2, the least that RFC 7677 permits: the passwords are in a file, and clients pay as well."""
DERIVE_WORK: Final = 2_500
"""Units of work of a derivation: two milliseconds of PBKDF2."""


class ScramKeyCache:
    """Keys by user. A derivation takes milliseconds, so it is done once for a user, at its first login.

    The salt depends on the name and the secret only. So an unknown name has a salt, always the same, and nobody can
    tell it from a known one (RFC 5802 section 9). Nothing is stored for unknown names.
    """

    def __init__(self, users: Users, secret: bytes, work: WorkMeter) -> None:
        self._users = users
        self._secret = secret
        self._work = work
        self._derived: dict[str, ScramKeys] = {}

    def of(self, user: str) -> ScramKeys:
        """Return the keys of a user: keys that no password matches for an unknown one.

        A password that SASLprep does not permit, such as one with a control character, matches nothing either.
        """
        found = self._derived.get(user)
        if found is not None:
            return found
        password = self._users.password(user)
        if password is None:
            return self._without_password(user)
        self._work.done += DERIVE_WORK
        found = self._derive(user, password)
        self._derived[user] = found
        return found

    def _derive(self, user: str, password: str) -> ScramKeys:
        from scramp import ScramException, ScramMechanism  # It loads more slowly than the broker.

        try:
            salt, stored_key, server_key, iterations = ScramMechanism(MECHANISM).make_auth_info(
                password, ITERATIONS, self._octets("salt", user)[:16]
            )
        except ScramException:
            return self._without_password(user)
        return salt, stored_key, server_key, iterations

    def _without_password(self, user: str) -> ScramKeys:
        return self._octets("salt", user)[:16], self._octets("stored", user), self._octets("server", user), ITERATIONS

    def _octets(self, purpose: str, user: str) -> bytes:
        """Return 32 octets that only this broker can compute from a name."""
        name = f"{purpose} {user}".encode(errors="surrogatepass")
        return hashlib.blake2b(name, digest_size=32, key=self._secret).digest()
