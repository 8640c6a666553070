"""Keys that sign tokens: from a file, or from the URL of an identity provider.

Theory of operation. The threads that verify tokens call `find`. It has a thread fetch the keys when they are older than
`FRESH_S`, and when a token names a key that is not there, at most once in `APART_S`. While the provider is slow or
cannot be reached, the old keys serve, up to `STALE_S`. One thread may wait for a key that is not there; as long as it
does, other such tokens are refused at once. So neither the provider nor unknown keys stop logins with known keys.
"""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from penstock.access.tokens import ALGORITHMS, TokenError, TokenKey, TokenKeys

FRESH_S: Final = 600.0
"""Seconds after which the keys are fetched again."""
STALE_S: Final = 3_600.0
"""Seconds for which old keys are used while new ones cannot be fetched."""
APART_S: Final = 10.0
"""Least seconds between two attempts to fetch them."""
FETCH_S: Final = 5.0
"""Seconds that a fetch may wait for each answer of the server, and twice that for all of it."""
WAIT_S: Final = 3 * FETCH_S
"""Most seconds that a token waits for a fetch: its time, and some for the name of the server."""
OCTETS_MOST: Final = 1024 * 1024
"""Most octets of a set of keys."""
KEYS_MOST: Final = 100
"""Most keys of a set; others are ignored."""
SHOWN_LETTERS: Final = 60


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refusal of redirects: keys come from where the settings say."""

    @override
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class FetchedKeys(TokenKeys):
    """Keys from a source: a path (JWKS or PEM), or a URL (JWKS, RFC 7517 section 5)."""

    def __init__(self, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._shown = source.partition("?")[0]
        """The source for the log: its query may hold a secret."""
        self._clock = clock
        self._changed = threading.Condition()
        """Guard of all that follows; it is held for moments only, never during a fetch."""
        self._fetching = False
        """True while a thread fetches the keys."""
        self._waiting = 0
        """Number of threads that wait for it."""
        self._keys: dict[str, TokenKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._error = ""

    @override
    def find(self, key_id: str) -> TokenKey:
        with self._changed:
            key = self._usable(key_id)
            if key is None or self._age() >= FRESH_S:
                self._begin_fetch()
            if key is None:
                self._await_fetch()
                key = self._usable(key_id)
            if key is None:
                raise TokenError(self._refusal(key_id))
            return key

    def _age(self) -> float:
        """Return the age of the keys in seconds; infinity while there are none."""
        return math.inf if self._fetched_at is None else self._clock() - self._fetched_at

    def _usable(self, key_id: str) -> TokenKey | None:
        return self._get(key_id) if self._age() < STALE_S else None

    def _refusal(self, key_id: str) -> str:
        if self._age() >= STALE_S:
            return f"keys of tokens cannot be had from '{self._shown}': {self._error or 'they are being fetched'}"
        named = repr(key_id[:SHOWN_LETTERS]) if key_id else "no key"
        again = "; they are being fetched again" if self._fetching else ""
        return f"token names {named}, and '{self._shown}' has {len(self._keys)} others{again}"

    def _get(self, key_id: str) -> TokenKey | None:
        if len(self._keys) == 1 and (not key_id or "" in self._keys):  # A PEM file has a key without an id.
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _begin_fetch(self) -> None:
        """Have a thread fetch the keys, unless one does or did a moment ago."""
        now = self._clock()
        if self._fetching or (self._tried_at is not None and now - self._tried_at < APART_S):
            return
        self._tried_at = now
        try:
            threading.Thread(target=self._fetch_keys, args=(now,), name="penstock-token-keys", daemon=True).start()
        except RuntimeError as error:  # The machine has no thread left.
            self._error = str(error)
        else:
            self._fetching = True

    def _await_fetch(self) -> None:
        """Wait for the fetch that runs. While there are keys, only one thread does: the others serve their tokens."""
        if self._age() < STALE_S and self._waiting:
            return
        self._waiting += 1
        self._changed.wait_for(lambda: not self._fetching, WAIT_S)
        self._waiting -= 1

    def _fetch_keys(self, now: float) -> None:
        keys: dict[str, TokenKey] = {}
        problem = "internal error"
        try:
            keys = parse_keys(self._read())
        except (OSError, ValueError, HTTPException) as error:
            problem = str(error) or type(error).__name__
        finally:
            with self._changed:
                if keys:
                    self._keys, self._fetched_at, problem = keys, now, ""
                self._error = problem
                self._fetching = False
                self._changed.notify_all()

    def _read(self) -> bytes:
        if urlsplit(self._source).scheme in ("http", "https"):
            return _fetch(self._source)
        with Path(self._source).open("rb") as file:
            return _bounded(file.read(OCTETS_MOST + 1))


def _fetch(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect)
    ends = time.monotonic() + 2 * FETCH_S
    found = b""
    with opener.open(url, timeout=FETCH_S) as answer:
        while part := answer.read1(65_536):
            found += part
            if time.monotonic() > ends:
                raise TimeoutError(f"it took more than {2 * FETCH_S:g} s")
            if len(found) > OCTETS_MOST:
                break
    return _bounded(found)


def _bounded(data: bytes) -> bytes:
    if len(data) > OCTETS_MOST:
        raise ValueError(f"it has more than {OCTETS_MOST:,} octets")
    return data


def parse_keys(data: bytes) -> dict[str, TokenKey]:
    """Parse a set of keys by their ids: JWKS, or one public key in PEM. Raises ValueError if it has no usable key."""
    if data.lstrip().startswith(b"-----BEGIN"):
        return {"": _pem_key(data)}
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is neither JSON nor PEM") from None
    keys = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(keys, list):
        raise ValueError('it is no set of keys: {"keys": [...]}')
    found: dict[str, TokenKey] = {}
    for each in keys[:KEYS_MOST]:
        key = _jwk(each)
        if key is not None:
            found[str(each.get("kid", ""))] = key
    if not found:
        raise ValueError("it has no key for signatures that is understood")
    return found


def _jwk(given: object) -> TokenKey | None:
    """Return a key of a set; None for one that is not for signatures, or not understood."""
    import jwt

    if not isinstance(given, dict) or given.get("use", "sig") != "sig":
        return None
    kind = given.get("kty")
    algorithms = ALGORITHMS.get(kind, ()) if isinstance(kind, str) else ()
    if given.get("alg") is not None:
        algorithms = tuple(each for each in algorithms if each == given["alg"])
    if not algorithms:
        return None
    try:
        return TokenKey(jwt.PyJWK(given).key, algorithms)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


def _pem_key(data: bytes) -> TokenKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    try:
        key: object
        if b"BEGIN CERTIFICATE" in data:
            key = load_pem_x509_certificate(data).public_key()
        else:
            key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is no public key in PEM") from None
    for kind, classes in (
        ("RSA", (rsa.RSAPublicKey,)),
        ("EC", (ec.EllipticCurvePublicKey,)),
        ("OKP", (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)),
    ):
        if isinstance(key, classes):
            return TokenKey(key, ALGORITHMS[kind])
    raise ValueError("its key is none for signatures")
