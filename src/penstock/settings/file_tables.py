"""Tables of the settings file besides settings: `[oauth]`, `[auth-http]` and `[tls]`.

The names in the first two are those of RabbitMQ's settings `auth_oauth2.*` and `auth_http.*`, if RabbitMQ has them.
Paths are relative to the directory of the settings file. More certificates, chosen by the requested server name (SNI,
RFC 6066 section 3), have a table each: `[tls.names."shop.example.org"]`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.access.back_end import check_permission
from penstock.access.permission import PERMISSION_KINDS, Permission
from penstock.access.tokens import TokenKeys, TokenPolicy
from penstock.access.user import EVERYTHING
from penstock.errors import BrokerError, ConfigError
from penstock.settings.web_url import url_fault
from penstock.texts import worded

Refuse = Callable[[tuple[str, ...], str], ConfigError]
"""Function that makes the error of a key, with its place in the file."""

RESOURCE_SERVER: Final = "resource_server_id"
KEYS_SOURCE: Final = "keys"
TEXTS: Final = (RESOURCE_SERVER, KEYS_SOURCE, "scope_prefix", "issuer")
LISTS: Final = ("preferred_username_claims", "additional_scopes_key")
LEEWAY: Final = "leeway_s"

USER_PATH: Final = "user_path"
VHOST_PATH: Final = "vhost_path"
METHODS: Final = ("post", "get")
BACK_END_KEYS: Final = (
    *(USER_PATH, VHOST_PATH, "http_method", "timeout_s", "cache_s", "threads", "permissions", "ca", "insecure"),
)
NOT_ASKED: Final[dict[str, str]] = {
    "resource_path": "permissions in [auth-http] has the expressions for queues and exchanges",
    "topic_path": "who may write to or read from a topic exchange may use all of its routing keys",
}
"""Paths of RabbitMQ without a counterpart, and their replacement (decision 72)."""

CLIENT_CERTIFICATES: Final = ("none", "optional", "required")
USERS_FROM: Final = ("cn", "dn", "san-dns", "san-email", "san-uri")
VERSIONS: Final = ("1.2", "1.3")
LEAF: Final = "leaf"
CHAIN: Final = "chain"
CRL_CHECKS: Final = (LEAF, CHAIN)
"""Certificates that are checked against revocation lists: the client's, or also those of its issuers."""
PAIR_KEYS: Final = ("certificate", "key", "key-password", "key-password-file", "key-password-env")
"""Keys of a certificate: its file, the file of its key, and one source of the key's password."""
TLS_KEYS: Final = (*PAIR_KEYS, "ca", "crl", "crl-check", "client-certificates", "user-from", "minimum-version", "names")
NAMES_MAX: Final = 1000
"""Most certificates by name."""
PASSWORD_OCTETS: Final = 4096
"""Longest password of a key, in bytes."""


@dataclass(frozen=True, repr=False)
class TokenSettings:
    """Contents of `[oauth]`."""

    given: dict[str, Any]
    lists: dict[str, list[str]]
    leeway_s: int
    keys: str
    """Path or URL of the keys."""

    def policy(self, keys: TokenKeys) -> TokenPolicy:
        """Return the policy with keys from the source."""
        policy = TokenPolicy(self.given[RESOURCE_SERVER], keys)
        policy.scope_prefix = self.given.get("scope_prefix", policy.scope_prefix)
        policy.issuer = self.given.get("issuer", "")
        policy.leeway_s = self.leeway_s
        policy.name_claims = self.lists["preferred_username_claims"] + policy.name_claims
        policy.scope_claims = policy.scope_claims + self.lists["additional_scopes_key"]
        return policy


@dataclass(repr=False)
class BackEndSettings:
    """Contents of `[auth-http]`."""

    user_path: str = ""
    """URL for requests about a user and its password."""
    vhost_path: str = ""
    """URL for requests about each virtual host; empty: a user may enter all of them."""
    http_method: str = METHODS[0]
    timeout_s: float = 5.0
    """Seconds that one request may take in total."""
    cache_s: float = 30.0
    """Seconds for which a successful login is remembered without another request; 0 is none."""
    threads: int = 4
    """Most requests at a time."""
    permission: Permission = EVERYTHING
    """Permission in each virtual host that the user may enter."""
    ca: str = ""
    """File with the certificates that sign the server's certificate; empty: those of the system."""


@dataclass(frozen=True)
class CertificateFiles:
    """Files of one certificate: with the chain of its issuers, and its key."""

    certificate: Path
    key: Path
    password: str = field(default="", repr=False)
    """Password of the key; empty for an unencrypted key."""


@dataclass(frozen=True)
class TlsSettings:
    """Contents of `[tls]`."""

    files: CertificateFiles
    """Certificate for clients that request no server name, or a name without its own certificate."""
    ca: Path | None = None
    """Authorities of the clients' certificates; None: clients send none."""
    crl: Path | None = None
    """Lists of revoked certificates of the authorities; None: no certificate is revoked."""
    crl_check: str = LEAF
    """Certificates that are checked against the lists: leaf (the client's) or chain (its issuers' as well)."""
    client_certificates: str = "none"
    """Certificates of clients: none, optional or required."""
    user_from: str = "cn"
    """Part of a client's certificate that is the name of its user, for the mechanism EXTERNAL."""
    minimum_version: str = "1.2"
    """Oldest version of TLS."""
    names: dict[str, CertificateFiles] = field(default_factory=dict)
    """Certificates by the requested server name, in lower case; `*.` stands for one label."""


class _Table:
    """One table, whose readers raise ConfigError that names the key and the rule."""

    def __init__(self, at: tuple[str, ...], given: Any, folder: Path, refuse: Refuse) -> None:
        self.at = at
        self.title = f"[{'.'.join(at)}]"
        self.given = given
        self.folder = folder
        """Directory of the settings file."""
        self._refuse = refuse

    def error(self, key: str, text: str) -> ConfigError:
        """Return an error about a key; empty for the table."""
        return self._refuse((*self.at, key) if key else self.at, text)

    def check_keys(self, known: tuple[str, ...]) -> None:
        """Refuse an unknown key."""
        for key in self.given:
            if key not in known:
                raise self.error(key, f"unknown setting {key} in {self.title}; known are {', '.join(known)}")

    def number(self, key: str, default: float, least: float, most: float, whole: bool = False) -> float:
        """Return a number within bounds."""
        value = self.given.get(key, default)
        is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not least <= value <= most:
            raise self.error(key, f"{key} in {self.title} must be between {least} and {most}, not {worded(value)}")
        return float(value)

    def url(self, key: str, **allowed: bool) -> str:
        """Return a URL; empty without one."""
        value = self.given.get(key, "")
        if not isinstance(value, str):
            raise self.error(key, f"{key} in {self.title} must be a URL, not {worded(value)}")
        fault = url_fault(value, **allowed) if value else ""
        if fault:
            raise self.error(key, f"{key} in {self.title} {fault}")
        return value

    def file(self, key: str, verb: str) -> str:
        """Return the path of an existing file; empty without one."""
        if key not in self.given:
            return ""
        path = self.folder / str(self.given[key])
        if not path.is_file():
            raise self.error(key, f"{key} in {self.title} {verb} the file '{path}', which is not there")
        return str(path)

    def text(self, key: str) -> str | None:
        """Return a text that is not empty; None without one."""
        value = self.given.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        raise self.error(key, f"{key} must be a string that is not empty")

    def one_of(self, key: str, known: tuple[str, ...], default: str) -> str:
        """Return one of these texts."""
        value = self.given.get(key, default)
        if value not in known:
            raise self.error(key, f"{self.title} {key} must be one of {', '.join(known)}, not {worded(value)}")
        return str(value)


def read_tokens(given: dict[str, Any], folder: Path, refuse: Refuse) -> TokenSettings:
    """Read `[oauth]`. Raises ConfigError."""
    table = _Table(("oauth",), given, folder, refuse)
    table.check_keys((*TEXTS, *LISTS, LEEWAY))
    for key in TEXTS:
        if not isinstance(given.get(key, ""), str):
            raise table.error(key, f"{key} in [oauth] must be a string, not {worded(given[key])}")
    for key in (RESOURCE_SERVER, KEYS_SOURCE):
        if not given.get(key):
            raise table.error(key, f"[oauth] needs {key}")
    lists: dict[str, list[str]] = {}
    for key in LISTS:
        value = given.get(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            raise table.error(key, f"{key} in [oauth] must be a list of claims, not {worded(value)}")
        lists[key] = items
    leeway_s = int(table.number(LEEWAY, 30, 0, 3_600, whole=True))
    keys = table.url(KEYS_SOURCE, query=True) if "://" in given[KEYS_SOURCE] else table.file(KEYS_SOURCE, "name")
    return TokenSettings(given, lists, leeway_s, keys)


def read_back_end(given: dict[str, Any], folder: Path, refuse: Refuse) -> BackEndSettings:
    """Read `[auth-http]`. Raises ConfigError."""
    table = _Table(("auth-http",), given, folder, refuse)
    for key in given:
        instead = NOT_ASKED.get(key.replace("-", "_"))
        if instead is not None:
            raise table.error(
                key,
                f"{key} in [auth-http] is never asked, because the server is asked at the login only: {instead}; "
                "remove the line (docs/users.md, HTTP back end)",
            )
    table.check_keys(BACK_END_KEYS)
    settings = BackEndSettings()
    insecure = given.get("insecure", False)
    if not isinstance(insecure, bool):
        raise table.error("insecure", f"insecure in [auth-http] must be true or false, not {worded(insecure)}")
    settings.user_path = table.url(USER_PATH, insecure=insecure)
    settings.vhost_path = table.url(VHOST_PATH, insecure=insecure)
    if not settings.user_path:
        raise table.error(USER_PATH, f"[auth-http] needs {USER_PATH}")
    settings.http_method = given.get("http_method", METHODS[0])
    if settings.http_method not in METHODS:
        raise table.error(
            "http_method", f"http_method in [auth-http] must be post or get, not {worded(settings.http_method)}"
        )
    settings.timeout_s = table.number("timeout_s", settings.timeout_s, 0.1, 60)
    settings.cache_s = table.number("cache_s", settings.cache_s, 0, 3_600)
    settings.threads = int(table.number("threads", settings.threads, 1, 64, whole=True))
    if "permissions" in given:
        settings.permission = _permission(table)
    settings.ca = table.file("ca", "names")
    return settings


def _permission(table: _Table) -> Permission:
    key, given = "permissions", table.given["permissions"]
    if (
        not isinstance(given, dict)
        or set(given) != set(PERMISSION_KINDS)
        or not all(isinstance(v, str) for v in given.values())
    ):
        raise table.error(
            key,
            f"permissions in [auth-http] must have the expressions {', '.join(PERMISSION_KINDS)}, not {worded(given)}",
        )
    permission = Permission(given["configure"], given["write"], given["read"])
    try:
        check_permission(permission)
    except BrokerError as refused:
        raise table.error(key, f"permissions in [auth-http]: {refused}") from None
    return permission


def read_tls(given: object, folder: Path, refuse: Refuse) -> TlsSettings:
    """Read `[tls]`. Raises ConfigError, which shows no password."""
    if not isinstance(given, dict):
        raise refuse(("tls",), "[tls] must be a table")
    table = _Table(("tls",), given, folder, refuse)
    table.check_keys(TLS_KEYS)
    files = _pair(table)
    ca = table.text("ca")
    wanted = table.one_of("client-certificates", CLIENT_CERTIFICATES, "none" if ca is None else "optional")
    if wanted != "none" and ca is None:
        raise table.error("client-certificates", f"[tls] client-certificates is {wanted} without ca: add the "
                          "file of the authorities that sign the clients' certificates")  # fmt: skip
    crl = table.text("crl")
    if crl is not None and wanted == "none":
        raise table.error("crl", "[tls] crl lists revoked certificates of clients, and client-certificates is none")
    crl_check = table.one_of("crl-check", CRL_CHECKS, LEAF)
    if "crl-check" in given and crl is None:
        raise table.error("crl-check", "[tls] crl-check is given without crl: add the file of the lists")
    return TlsSettings(
        files,
        None if ca is None else folder / ca,
        None if crl is None else folder / crl,
        crl_check,
        wanted,
        table.one_of("user-from", USERS_FROM, "cn"),
        table.one_of("minimum-version", VERSIONS, "1.2"),
        _by_name(_Table(("tls", "names"), given.get("names", {}), folder, refuse), refuse),
    )


def _by_name(table: _Table, refuse: Refuse) -> dict[str, CertificateFiles]:
    given = table.given
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise table.error("", '[tls.names] must have a table for each name: [tls.names."shop.example.org"]')
    if len(given) > NAMES_MAX:
        raise table.error("", f"[tls.names] has {len(given):,} names; the most is {NAMES_MAX:,}")
    files: dict[str, CertificateFiles] = {}
    for name, pair in given.items():
        named = _Table((*table.at, name), pair, table.folder, refuse)
        named.check_keys(PAIR_KEYS)
        files[name.lower()] = _pair(named)
    return files


def _pair(table: _Table) -> CertificateFiles:
    certificate = table.text("certificate")
    if certificate is None:
        raise table.error("", f"{table.title} needs certificate: the file of the certificate, in PEM form")
    key = table.text("key") or certificate
    return CertificateFiles(table.folder / certificate, table.folder / key, _password(table))


def _password(table: _Table) -> str:
    """Return the password of a key from the file, from another file or from the environment; empty without one."""
    places = [name for name in PAIR_KEYS[2:] if name in table.given]
    if not places:
        return ""
    place = places[0]
    if len(places) > 1:
        raise table.error(places[1], f"give only one of {' and '.join(places)}")
    value = table.text(place) or ""
    if place == "key-password-env":
        if value not in os.environ:
            raise table.error(place, f"the environment variable {value} of key-password-env is not set")
        return os.environ[value]
    if place == "key-password-file":
        path = table.folder / value
        try:
            with path.open("rb") as file:
                return file.read(PASSWORD_OCTETS).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise table.error(place, f"key-password-file '{path}' cannot be read: {why}") from None
    return value
