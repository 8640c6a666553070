"""Passwords as they are stored: hashes (RabbitMQ's, and scrypt), and keys for SCRAM-SHA-256 (RFC 7677).

RabbitMQ's hashes are 4 bytes of salt and the digest of salt and password, in base64 (its guide "Credentials and
passwords"). Penstock's hashes have the format of the Password Hashing Competition: `$scrypt$ln=14,r=8,p=1$SALT$DIGEST`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib
import re
from typing import Final

from penstock.errors import PreconditionFailed

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
SCRYPT: Final = "scrypt"
PLAIN: Final = "plain"
"""A clear-text password of the settings file; it is neither stored nor shown."""
DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
"""Digests of RabbitMQ's algorithms."""
ALGORITHMS: Final = (SCRYPT, SHA256, SHA512, MD5)
"""Accepted algorithms of hashes; hashes of all except the first are replaced at the next login."""
RABBITMQ_SALT: Final = 4
"""Bytes of salt in RabbitMQ's hashes."""
BY_LENGTH: Final = {RABBITMQ_SALT + 32: SHA256, RABBITMQ_SALT + 64: SHA512, RABBITMQ_SALT + 16: MD5}
"""RabbitMQ's algorithms by the bytes of a hash with its salt."""
SCRYPT_SALT: Final = 16
"""Bytes of salt of a new hash, from a source of random bytes."""
SCRYPT_DIGEST: Final = 32
SCRYPT_LOG_N: Final = 14
"""Cost of a new hash: 2**14 blocks of 1 KiB are 16 MiB and about 40 ms of a core (hashlib's documentation)."""
SCRYPT_R: Final = 8
SCRYPT_P: Final = 1
SCRYPT_MEMORY: Final = 64 * 1024 * 1024
"""Most memory for the verification of a given hash, in bytes."""
SCRYPT_P_MOST: Final = 4
PASSWORD_OCTETS: Final = 1024
"""Longest password, in bytes."""


class PasswordHash:
    """A hash of a password, with the parameters of its verification."""

    def __init__(self, algorithm: str, salt: bytes, digest: bytes, log_n: int = 0, r: int = 0, p: int = 0) -> None:
        self.algorithm = algorithm
        self.salt = salt
        self.digest = digest
        """The digest; the password itself for PLAIN."""
        self.log_n = log_n
        """Binary logarithm of scrypt's cost; with `r` and `p` its parameters (RFC 7914 section 2), 0 for others."""
        self.r = r
        self.p = p

    def verify(self, password: str) -> bool:
        """Return whether this is the hash of a password. Slow for scrypt: never to be called on the event loop."""
        given = password.encode(errors="surrogatepass")
        if len(given) > PASSWORD_OCTETS:
            return False
        return hmac.compare_digest(self.digest, self._digest(given))

    def _digest(self, password: bytes) -> bytes:
        if self.algorithm == SCRYPT:
            return _scrypt(password, self.salt, self.log_n, self.r, self.p, len(self.digest))
        if self.algorithm == PLAIN:
            return password
        return hashlib.new(DIGESTS[self.algorithm], self.salt + password, usedforsecurity=False).digest()

    def text(self) -> str:
        """Return the hash in the form of `read_hash` and of definitions; "" for PLAIN, which is never shown."""
        if self.algorithm == PLAIN:
            return ""
        if self.algorithm == SCRYPT:
            parameters = f"ln={self.log_n},r={self.r},p={self.p}"
            return f"$scrypt${parameters}${_unpadded(self.salt)}${_unpadded(self.digest)}"
        return base64.b64encode(self.salt + self.digest).decode()

    def fingerprint(self) -> str:
        """Return a digest of the hash, in hexadecimal digits."""
        return hashlib.blake2b(self.text().encode(), digest_size=16).hexdigest()

    def is_slow(self) -> bool:
        """Return whether `verify` takes longer than a turn of the event loop allows."""
        return self.algorithm == SCRYPT

    def needs_rehash(self) -> bool:
        """Return whether a verified password should be hashed again: RabbitMQ's hashes, and cheaper scrypt."""
        if self.algorithm == PLAIN:
            return False
        return self.algorithm != SCRYPT or self.log_n < SCRYPT_LOG_N

    def __eq__(self, other: object) -> bool:
        """Compare all parts."""
        if not isinstance(other, PasswordHash):
            return False
        return self.algorithm == other.algorithm and self.text() == other.text() and self.digest == other.digest

    def __hash__(self) -> int:
        """Return a number by salt and digest."""
        return hash((self.salt, self.digest))


def hash_password(password: str, salt: bytes) -> PasswordHash:
    """Return the scrypt hash of a password. Slow: 16 MiB and tens of milliseconds; never on the event loop.

    Raises PreconditionFailed for an empty password, which RabbitMQ refuses too, and for a password that is too long.
    """
    given = _checked(password)
    digest = _scrypt(given, salt, SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, SCRYPT_DIGEST)
    return PasswordHash(SCRYPT, salt, digest, SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P)


def rabbitmq_hash(password: str, salt: bytes, algorithm: str = SHA256) -> PasswordHash:
    """Return a hash as RabbitMQ makes it (`rabbitmqctl hash_password`), with 4 bytes of salt."""
    digest = hashlib.new(DIGESTS[algorithm], salt + _checked(password), usedforsecurity=False).digest()
    return PasswordHash(algorithm, salt, digest)


def file_password(password: str) -> PasswordHash:
    """Return a password of the settings file, which is verified without a hash."""
    return PasswordHash(PLAIN, b"", _checked(password))


def read_hash(text: str, algorithm: str = "") -> PasswordHash | None:
    """Read a hash from definitions: `password_hash` and `hashing_algorithm`; None for "", no login by password.

    Without an algorithm the length decides between RabbitMQ's algorithms: RabbitMQ's tools send salted SHA-512 without
    a name. Raises PreconditionFailed for an unknown algorithm, and for a text that is no hash of it. The error never
    quotes the hash.
    """
    if not text:
        return None
    if algorithm == SCRYPT or text.startswith("$scrypt$"):
        return _read_scrypt(text)
    if algorithm and algorithm not in DIGESTS:
        raise PreconditionFailed(f"unknown hashing_algorithm '{algorithm}'; known are {', '.join(ALGORITHMS)}")
    try:
        octets = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise PreconditionFailed(f"password_hash is not base64, as {algorithm or SHA256} needs") from None
    algorithm = algorithm or BY_LENGTH.get(len(octets), SHA256)
    length = RABBITMQ_SALT + hashlib.new(DIGESTS[algorithm], usedforsecurity=False).digest_size
    if len(octets) != length:
        raise PreconditionFailed(f"password_hash has {len(octets)} bytes; {algorithm} needs {length}")
    return PasswordHash(algorithm, octets[:RABBITMQ_SALT], octets[RABBITMQ_SALT:])


def _read_scrypt(text: str) -> PasswordHash:
    parts = text.split("$")
    if len(parts) != 5 or parts[1] != SCRYPT or len(text) > 512:
        raise PreconditionFailed("password_hash of scrypt must be $scrypt$ln=14,r=8,p=1$SALT$DIGEST")
    log_n, r, p = _scrypt_parameters(parts[2])
    try:
        salt = base64.b64decode(_padded(parts[3]), validate=True)
        digest = base64.b64decode(_padded(parts[4]), validate=True)
    except (binascii.Error, ValueError):
        raise PreconditionFailed("salt or digest of a password_hash of scrypt is not base64") from None
    if not 8 <= len(salt) <= 64 or not 16 <= len(digest) <= 64:
        raise PreconditionFailed("a password_hash of scrypt needs 8 to 64 bytes of salt, and 16 to 64 of digest")
    return PasswordHash(SCRYPT, salt, digest, log_n, r, p)


def _scrypt_parameters(text: str) -> tuple[int, int, int]:
    values: dict[str, int] = {}
    for item in text.split(","):
        name, _, number = item.partition("=")
        if len(number) <= 3 and number.isascii() and number.isdigit():
            values[name] = int(number)
    log_n, r, p = values.get("ln", 0), values.get("r", 0), values.get("p", 0)
    in_memory = 1 <= log_n <= 30 and r >= 1 and 128 * r * 2**log_n <= SCRYPT_MEMORY
    if len(values) != 3 or not in_memory or not 1 <= p <= SCRYPT_P_MOST:
        raise PreconditionFailed(
            "a password_hash of scrypt needs parameters like ln=14,r=8,p=1, with at most 64 MiB and p at most 4"
        )
    return log_n, r, p


def _scrypt(password: bytes, salt: bytes, log_n: int, r: int, p: int, length: int) -> bytes:
    memory = 128 * r * (2**log_n + p + 2) + 65536
    return hashlib.scrypt(password, salt=salt, n=2**log_n, r=r, p=p, maxmem=memory, dklen=length)


def _checked(password: str) -> bytes:
    given = password.encode(errors="surrogatepass")
    if not given:
        raise PreconditionFailed("a password must not be empty; a user without one cannot log in with a password")
    if len(given) > PASSWORD_OCTETS:
        raise PreconditionFailed(f"a password has {PASSWORD_OCTETS} bytes at most, not {len(given)}")
    return given


def _unpadded(octets: bytes) -> str:
    return base64.b64encode(octets).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
"""Iterations of PBKDF2, the least that RFC 7677 permits: clients pay as well."""
ITERATIONS_MOST: Final = 1_000_000
"""Most iterations of given keys: the client computes as many."""
SALT: Final = 16
"""Bytes of salt."""

_TEXT: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,7}):([^$:]{1,128})\$([^$:]{1,64}):([^$:]{1,64})")
ScramKeys = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations."""


_is_loaded: bool = False


def scram_is_loaded() -> bool:
    """Return whether a login by SCRAM can begin at once."""
    return _is_loaded


def load_scram() -> None:
    """Import the library for SCRAM: some 50 ms, not on the event loop, and 3 MB."""
    global _is_loaded
    importlib.import_module("scramp")
    _is_loaded = True


def derive_scram_keys(password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys | None:
    """Derive the keys of a password; None for a password that SASLprep does not permit, such as with a control
    character.

    Takes two milliseconds of PBKDF2: not on the event loop, except for the operator's own passwords.
    """
    from scramp import ScramException, ScramMechanism  # See `load_scram`.

    try:
        salted, stored_key, server_key, count = ScramMechanism(MECHANISM).make_auth_info(password, iterations, salt)
    except ScramException:
        return None
    return salted, stored_key, server_key, count


def scram_text(keys: ScramKeys) -> str:
    """Return keys in the form of `read_scram_keys`, which is that of PostgreSQL's pg_authid (rolpassword)."""
    salt, stored, server = (base64.b64encode(part).decode() for part in keys[:3])
    return f"{MECHANISM}${keys[3]}:{salt}${stored}:{server}"


def read_scram_keys(text: str) -> ScramKeys:
    """Read keys. Raises PreconditionFailed, which never quotes them."""
    match = _TEXT.fullmatch(text)
    if match is None or not ITERATIONS <= int(match[1]) <= ITERATIONS_MOST:
        raise PreconditionFailed(
            f"scram_secret must be {MECHANISM}$ITERATIONS:SALT$STORED:SERVER, with {ITERATIONS} to {ITERATIONS_MOST} "
            "iterations"
        )
    try:
        salt, stored, server = (base64.b64decode(match[number], validate=True) for number in (2, 3, 4))
    except binascii.Error:
        raise PreconditionFailed("scram_secret is not base64") from None
    if not 8 <= len(salt) <= 64 or len(stored) != 32 or len(server) != 32:
        raise PreconditionFailed("scram_secret needs 8 to 64 bytes of salt, and keys of 32")
    return salt, stored, server, int(match[1])
