"""Passwords of the table of users: their checks, in threads if a hash is slow, and keys for SCRAM.

Theory of operation. A password of the settings file, and a recently verified password, are compared at once. All others
are verified in a thread. A refusal costs one scrypt hash there, whoever the user is: unknown, without a password, or
with a hash of RabbitMQ's, which is quick. So the time of an answer does not reveal which names exist.

A right password with a hash of RabbitMQ's is hashed again, and the keys for SCRAM are derived from it, once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from penstock.access.access_table import GUEST, NAME_OCTETS, AccessTable
from penstock.access.password_hash import (
    ITERATIONS,
    PLAIN,
    SALT,
    SCRYPT,
    SCRYPT_DIGEST,
    SCRYPT_LOG_N,
    SCRYPT_P,
    SCRYPT_R,
    SCRYPT_SALT,
    PasswordHash,
    ScramKeys,
    derive_scram_keys,
    hash_password,
)
from penstock.access.rules import CredentialCheck, LoginMemory
from penstock.access.user import FILE
from penstock.errors import BrokerError
from penstock.flow.work import WorkMeter

REMEMBERED_S: Final = 600.0
"""Seconds for which a verified password is remembered, because HTTP requests carry it each time."""
DERIVE_WORK: Final = 2_500
"""Units of work of a derivation: two milliseconds of PBKDF2."""
NOBODY: Final = PasswordHash(SCRYPT, bytes(SCRYPT_SALT), bytes(SCRYPT_DIGEST), SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P)
"""Hash that no password matches, for the same work as for a user's hash."""


class Passwords:
    """Passwords of the users of one broker. The secret is random; digests without it are useless."""

    def __init__(self, table: AccessTable, secret: bytes, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self.table = table
        self._secret = secret
        self._salts: int = 0
        self._verified: LoginMemory[PasswordHash] = LoginMemory(secret, REMEMBERED_S, now)
        """Hashes that verified passwords matched."""
        self._hashed: str = ""
        """A user with a hash, to be found quickly; empty if none is known."""
        self._epoch: int = -1
        """Epoch of the table at which no user had a hash."""

    def check(self, user: str, password: str, loopback: bool) -> CredentialCheck:
        """Return the check of a user's password."""
        return PasswordCheck(self, user, password, loopback)

    def is_known(self, user: str, expected: PasswordHash, password: str) -> bool:
        """Return whether a password is right, as far as is known without a slow hash."""
        if expected.algorithm == PLAIN:
            return expected.verify(password)
        return self._verified.get(user, [password]) == expected

    def remember(self, user: str, matched: PasswordHash, password: str) -> None:
        """Remember a password that was verified."""
        self._verified.put(user, [password], matched)

    def have_hashes(self) -> bool:
        """Return whether any user has a hash: then an unknown user costs as much."""
        table = self.table
        if self._hashed:
            user = table.find(self._hashed)
            if user is not None and user.password_hash is not None and user.password_hash.algorithm != PLAIN:
                return True
            self._hashed = ""
        if self._epoch == table.epoch.count:
            return False
        for user in table.users():
            if user.password_hash is not None and user.password_hash.algorithm != PLAIN:
                self._hashed = user.name
                return True
        self._epoch = int(table.epoch.count)
        return False

    def make_salt(self, octets: int) -> bytes:
        """Return a salt that was never used before."""
        self._salts += 1
        return hashlib.blake2b(b"salt %d" % self._salts, digest_size=octets, key=self._secret).digest()


class PasswordCheck(CredentialCheck):
    """Check of one password."""

    def __init__(self, passwords: Passwords, user: str, password: str, loopback: bool) -> None:
        self.user = user
        self._passwords = passwords
        self._password = password
        self._loopback = loopback
        account = passwords.table.find(user)
        self._expected: PasswordHash | None = None if account is None else account.password_hash
        self._right: bool = self._expected is not None and passwords.is_known(user, self._expected, password)
        self._remembered: bool = self._right
        self._slow: bool = not self._right and passwords.have_hashes()
        self._new_hash: PasswordHash | None = None
        self._new_scram: ScramKeys | None = None
        self._hash_salt: bytes = b""
        self._scram_salt: bytes = b""
        if self._slow and self._expected is not None and account is not None:
            if self._expected.needs_rehash() and account.source != FILE:
                self._hash_salt = passwords.make_salt(SCRYPT_SALT)
            if account.scram is None:
                self._scram_salt = passwords.make_salt(SALT)

    @override
    def is_slow(self) -> bool:
        return self._slow

    @override
    def verify(self) -> None:
        expected = self._expected
        if expected is None or expected.algorithm == PLAIN:
            NOBODY.verify(self._password)
            return
        self._right = expected.verify(self._password) and self._password != ""
        if self._right:
            if self._hash_salt:
                self._new_hash = hash_password(self._password, self._hash_salt)
            if self._scram_salt:
                self._new_scram = derive_scram_keys(self._password, self._scram_salt)
        elif expected.algorithm != SCRYPT:
            NOBODY.verify(self._password)

    @override
    def refusal(self) -> str:
        account = self._passwords.table.find(self.user)
        expected = self._expected
        if account is None:
            return _not_known(self.user)
        if expected is None or account.password_hash is None:
            return f"user '{self.user}' has no password"
        if account.password_hash != expected and account.former != expected.fingerprint():
            return f"user '{self.user}' got another password while the old one was verified"
        if not self._right:
            return f"user '{self.user}' gave a wrong password"
        refusal = access_refusal(self._passwords.table, self.user, self._loopback)
        if not refusal:
            if account.password_hash != expected:  # Another login has hashed the same password again meanwhile.
                self._new_hash = None
                self._new_scram = None
            self._keep(account.password_hash)
        return refusal

    def _keep(self, expected: PasswordHash) -> None:
        """Store the results of a right password: a better hash, the keys for SCRAM, and the verification."""
        table = self._passwords.table
        try:
            if self._new_hash is not None:
                table.set_password(self.user, self._new_hash, self._new_scram, same=True)
                expected = self._new_hash
            elif self._new_scram is not None:
                table.set_scram(self.user, self._new_scram)
        except BrokerError:  # The store accepts no changes now; the next login tries again.
            pass
        self._new_hash = None
        self._new_scram = None
        if expected.algorithm != PLAIN and not self._remembered:
            self._passwords.remember(self.user, expected, self._password)


class ScramKeyCache:
    """SCRAM-SHA-256 keys by user; unknown users get fixed fake keys.

    Keys of a password in the settings file are derived at its first login, and stored with the user.

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
        """Return the keys of a user; for an unknown user, keys that no password matches.

        A password that SASLprep does not permit, such as one with a control character, never matches either.
        """
        account = self._table.find(user)
        if account is None or account.password_hash is None:
            return self._without_password(user)
        if account.scram is None:
            if account.password_hash.algorithm != PLAIN:
                return self._without_password(user)
            self._work.done += DERIVE_WORK
            password = account.password_hash.digest.decode()
            derived = derive_scram_keys(password, self._octets("salt", user)[:SALT])
            account.scram = self._without_password(user) if derived is None else derived
        return account.scram

    def make_secret(self) -> None:
        """Create the secret of the table if there is none: other processes copy the table, and need the same one."""
        self._stored_secret()

    def _without_password(self, user: str) -> ScramKeys:
        return self._octets("salt", user)[:SALT], self._octets("stored", user), self._octets("server", user), ITERATIONS

    def _octets(self, purpose: str, user: str) -> bytes:
        """Return 32 bytes that only this broker can compute from a name."""
        name = f"{purpose} {user}".encode(errors="surrogatepass")
        return hashlib.blake2b(name, digest_size=32, key=self._stored_secret()).digest()

    def _stored_secret(self) -> bytes:
        """Return the secret of the table; created at the first use of SCRAM."""
        secret = self._table.scram_secret
        if not secret.octets:
            secret.octets = hashlib.blake2b(b"scram", digest_size=32, key=self._secret).digest()
            self._table.recorder.change(secret)
        return secret.octets


def access_refusal(table: AccessTable, user: str, loopback: bool) -> str:
    """Return why a login is refused although the client is this user; "" if it is accepted."""
    if table.find(user) is None:
        return _not_known(user)
    if user == GUEST and not loopback:
        return "user 'guest' can only connect from this machine; configure a user for others"
    return ""


def _not_known(user: str) -> str:
    return f"user '{user[:NAME_OCTETS]}' is not known"
