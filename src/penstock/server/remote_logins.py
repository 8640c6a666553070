"""Remote data for logins: answers of an HTTP back end, and the keys of tokens. Imported only if configured."""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlencode, urlsplit

from typing_extensions import override

from penstock.access.back_end import BackEnd, BackEndError
from penstock.access.tokens import ALGORITHMS, TokenError, TokenKey, TokenKeys
from penstock.server.web_client import ANSWER_OCTETS, WebConnection
from penstock.settings.file_tables import BackEndSettings

AWAY_S: Final = 1.0
"""Seconds after a failure during which the back end is not asked, and every login is refused."""
ALL_VHOSTS: Final = 2.0
"""Factor of the time of one request that the requests for all virtual hosts may take together."""
TAGS_MOST: Final = 100
SHOWN_LETTERS: Final = 100
SUCCESSES: Final = (200, 201)
FORM: Final = "application/x-www-form-urlencoded"


class HttpBackEnd(BackEnd):
    """Back end at the URLs of the settings."""

    def __init__(self, settings: BackEndSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._context = ssl.create_default_context(cafile=settings.ca or None)
        self._of_thread = threading.local()
        self._connections: list[WebConnection] = []
        """Connections of all threads: at most two for each thread."""
        self._away_until: float = 0.0
        self._failure: str = ""

    @override
    def tags_of(self, user: str, password: str) -> list[str]:
        allowed, rest = self._ask(self._settings.user_path, {"username": user, "password": password})
        if not allowed:
            raise BackEndError("the back end denies it" + (f": {rest[:SHOWN_LETTERS]!r}" if rest else ""))
        return rest.lower().split()[:TAGS_MOST]

    @override
    def entered(self, user: str, vhosts: list[str], address: str, tags: list[str]) -> list[str]:
        url = self._settings.vhost_path
        if not url:
            return vhosts
        entered: list[str] = []
        ends = self._clock() + ALL_VHOSTS * self._settings.timeout_s
        for vhost in vhosts:
            if self._clock() > ends:
                raise BackEndError(f"the back end '{url}' takes too long for {len(vhosts)} virtual hosts")
            allowed, _ = self._ask(url, {"username": user, "vhost": vhost, "ip": address, "tags": " ".join(tags)})
            if allowed:
                entered.append(vhost)
        return entered

    def _ask(self, url: str, fields: dict[str, str]) -> tuple[bool, str]:
        """Return whether the back end allows the request, and the rest of the answer.

        Raises BackEndError for any other answer.
        """
        if self._clock() < self._away_until:
            raise BackEndError(f"the back end was away a moment ago: {self._failure}")
        try:
            status, body = self._exchange(url, urlencode(fields, errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            self._connection(url).close()
            self._failure = str(error) or type(error).__name__
            self._away_until = self._clock() + AWAY_S
            raise BackEndError(f"the back end '{url}' cannot be asked: {self._failure}") from None
        if status not in SUCCESSES:
            raise BackEndError(f"the back end '{url}' answered with status {status}")
        if len(body) > ANSWER_OCTETS:
            raise BackEndError(f"the back end '{url}' answered with more than {ANSWER_OCTETS} bytes")
        answer = body.decode(errors="replace").strip()
        verdict, _, rest = answer.partition(" ")
        if verdict.lower() not in ("allow", "deny"):
            raise BackEndError(f"the back end answered neither allow nor deny, but {answer[:SHOWN_LETTERS]!r}")
        return verdict.lower() == "allow", rest.strip()

    def _exchange(self, url: str, form: str) -> tuple[int, bytes]:
        """Send a request; return status and body. If the server has closed the connection, another is opened once."""
        ends = self._clock() + self._settings.timeout_s
        connection = self._connection(url)
        was_open = connection.is_open
        path = urlsplit(url).path or "/"
        method, target = "POST", path
        body: bytes | None = form.encode()
        headers = {"Content-Type": FORM}
        if self._settings.http_method == "get":
            method, target, body, headers = "GET", f"{path}?{form}", None, {}
        try:
            return connection.ask(method, target, ends, body, headers)
        except ConnectionError:  # RemoteDisconnected is an OSError.
            if not was_open:
                raise
            connection.close()
        return connection.ask(method, target, ends, body, headers)

    def _connection(self, url: str) -> WebConnection:
        """Return the connection of this thread to the server of a URL."""
        connections: dict[str, WebConnection] = self._of_thread.__dict__
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        if server not in connections:
            connections[server] = WebConnection(url, self._context, self._clock)
            self._connections.append(connections[server])
        return connections[server]

    def close(self) -> None:
        """Close all connections; a pending request fails."""
        for connection in self._connections:
            connection.close()


FRESH_S: Final = 600.0
"""Seconds after which the keys are fetched again."""
STALE_S: Final = 3_600.0
"""Seconds for which old keys are used while new ones cannot be fetched."""
APART_S: Final = 10.0
"""Least seconds between two attempts to fetch the keys."""
FETCH_S: Final = 5.0
"""Seconds that a fetch may wait for each answer of the server; the whole fetch may take twice as long."""
WAIT_S: Final = 3 * FETCH_S
"""Most seconds that a token waits for a fetch: the time of the fetch, and some for name resolution."""
OCTETS_MOST: Final = 1024 * 1024
"""Most bytes of a set of keys."""
KEYS_MOST: Final = 100
"""Most keys of a set; others are ignored."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refusal of redirects: keys are only fetched from the configured source."""

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
        """The source for the log: its query may contain a secret."""
        self._clock = clock
        self._changed = threading.Condition()
        """Lock of all following attributes; held only for moments, never during a fetch."""
        self._fetching = False
        """True while a thread fetches the keys."""
        self._waiting = 0
        """Number of threads that wait for the fetch."""
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
        """Start a fetch of the keys in a thread, unless one is running or has just ended."""
        now = self._clock()
        if self._fetching or (self._tried_at is not None and now - self._tried_at < APART_S):
            return
        self._tried_at = now
        try:
            threading.Thread(target=self._fetch_keys, args=(now,), name="penstock-token-keys", daemon=True).start()
        except RuntimeError as error:  # The machine has no more threads.
            self._error = str(error)
        else:
            self._fetching = True

    def _await_fetch(self) -> None:
        """Wait for the running fetch. While there are keys, only one thread waits: the others verify tokens."""
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
    content = b""
    with opener.open(url, timeout=FETCH_S) as answer:
        while part := answer.read1(65_536):
            content += part
            if time.monotonic() > ends:
                raise TimeoutError(f"it took more than {2 * FETCH_S:g} s")
            if len(content) > OCTETS_MOST:
                break
    return _bounded(content)


def _bounded(data: bytes) -> bytes:
    if len(data) > OCTETS_MOST:
        raise ValueError(f"it has more than {OCTETS_MOST:,} bytes")
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
    result: dict[str, TokenKey] = {}
    for each in keys[:KEYS_MOST]:
        key = _jwk(each)
        if key is not None:
            result[str(each.get("kid", ""))] = key
    if not result:
        raise ValueError("it has no key for signatures that is understood")
    return result


def _jwk(given: object) -> TokenKey | None:
    """Return a key of a set; None for a key that is not for signatures, or not supported."""
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
