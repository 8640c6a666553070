"""Keys for SCRAM-SHA-256 of users, and of names that are not there."""

from __future__ import annotations

import hashlib
from typing import Final

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import PLAIN
from penstock.access.scram import ITERATIONS, SALT, ScramKeys, derive_scram_keys
from penstock.flow.work import WorkMeter

DERIVE_WORK: Final = 2_500
"""Units of work of a derivation: two milliseconds of PBKDF2."""


class ScramKeyCache:
    """Keys by user. Those of a password in the settings file are derived at its first login, and kept with the user.

    A derivation takes milliseconds, so it is done once. A user with a hash has the keys that were derived when its
    password was set, or at its first login with PLAIN.

    Without such keys the salt depends on the name and a secret only. So an unknown name has a salt, always the same,
    and nobody can tell it from a known one (RFC 5802 section 9). The secret is stored, as are the salts of stored
    users: otherwise a restart would tell them apart. Nothing is stored for unknown names.
    """

    def __init__(self, table: AccessTable, secret: bytes, work: WorkMeter) -> None:
        self._table = table
        self._secret = secret
        self._work = work

    def of(self, user: str) -> ScramKeys:
        """Return the keys of a user: keys that no password matches for an unknown one.

        A password that SASLprep does not permit, such as one with a control character, matches nothing either.
        """
        found = self._table.find(user)
        if found is None or found.password_hash is None:
            return self._without_password(user)
        if found.scram is None:
            if found.password_hash.algorithm != PLAIN:
                return self._without_password(user)
            self._work.done += DERIVE_WORK
            password = found.password_hash.digest.decode()
            derived = derive_scram_keys(password, self._octets("salt", user)[:SALT])
            found.scram = self._without_password(user) if derived is None else derived
        return found.scram

    def _without_password(self, user: str) -> ScramKeys:
        return self._octets("salt", user)[:SALT], self._octets("stored", user), self._octets("server", user), ITERATIONS

    def _octets(self, purpose: str, user: str) -> bytes:
        """Return 32 octets that only this broker can compute from a name."""
        name = f"{purpose} {user}".encode(errors="surrogatepass")
        return hashlib.blake2b(name, digest_size=32, key=self._stored_secret()).digest()

    def _stored_secret(self) -> bytes:
        """Return the secret of the table; SCRAM makes it when it is first used."""
        found = self._table.scram_secret
        if not found.octets:
            found.octets = hashlib.blake2b(b"scram", digest_size=32, key=self._secret).digest()
            self._table.recorder.change(found)
        return found.octets
