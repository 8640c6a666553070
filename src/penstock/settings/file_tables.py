"""Tables of the settings file besides settings: `[oauth]`, `[auth-http]`, `[alarm-hook]` and `[tls]`.

The first two have the names of RabbitMQ's settings `auth_oauth2.*` and `auth_http.*`, as far as RabbitMQ has the
setting. Paths are relative to the directory of the settings file. More certificates, chosen by the requested server
name (SNI, RFC 6066 section 3), have a table each: `[tls.names."shop.example.org"]`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.access.back_end import check_permission
from penstock.access.permission import PERMISSION_KINDS, Permission
from penstock.access.tokens import TokenKeys, TokenPolicy
from penstock.access.user import EVERYTHING
from penstock.errors import BrokerError, ConfigError
from penstock.settings.kind import (
    ANYTHING,
    FLAG,
    OBJECT,
    TEXT,
    Choices,
    InvalidValue,
    Named,
    NamedValues,
    Number,
    Strings,
    Text,
    seconds_from,
    type_word,
    whole,
)
from penstock.settings.web_url import url_fault
from penstock.texts import worded

Refuse = Callable[[tuple[str, ...], str], ConfigError]
"""Function that makes the error of a key, with its place in the file."""

METHODS: Final = ("post", "get")
NOT_ASKED: Final[dict[str, str]] = {
    "resource_path": "permissions in [auth-http] has the expressions for queues and exchanges",
    "topic_path": "who may write to or read from a topic exchange may use all of its routing keys",
}
"""Paths of RabbitMQ without a counterpart, and their replacement (decision 72)."""

LEAF: Final = "leaf"
CHAIN: Final = "chain"
"""Certificates that are checked against revocation lists: the client's, or also those of its issuers."""
NAMES_MAX: Final = 1000
"""Most certificates by name."""
PASSWORD_OCTETS: Final = 4096
"""Longest password of a key, in bytes."""

FILLED: Final = Text(1)
SECRET: Final = Text(1, secret=True)
CLAIMS: Final = Strings(single=True, item=FILLED)
IN_TABLE: Final = "{} in {}"
"""Name of a setting in a refusal."""
OAUTH: Final = NamedValues(
    "setting",
    (
        Named("resource_server_id", FILLED, meaning="the name of this broker in the scopes of tokens"),
        Named("keys", SECRET, meaning="the file or the URL of the keys that sign tokens"),
        Named("scope_prefix", TEXT, None),
        Named("issuer", TEXT, ""),
        Named("preferred_username_claims", CLAIMS, []),
        Named("additional_scopes_key", CLAIMS, []),
        Named("leeway_s", Number("s", 0, 3_600), 30),
    ),
    label=IN_TABLE,
)
BACK_END: Final = NamedValues(
    "setting",
    (
        Named("user_path", SECRET, meaning="the URL for requests about a user and its password"),
        Named("vhost_path", Text(secret=True), ""),
        Named("http_method", Choices(METHODS, folded=False), METHODS[0]),
        Named("timeout_s", seconds_from(0.1, 60), 5.0),
        Named("cache_s", seconds_from(0, 3_600), 30.0),
        Named("threads", whole(1, 64), 4),
        Named("permissions", OBJECT, None),
        Named("ca", TEXT, ""),
        Named("insecure", FLAG, False),
    ),
    label=IN_TABLE,
)
PAIR: Final = (
    Named("certificate", FILLED, meaning="the file of the certificate, in PEM form"),
    Named("key", FILLED, None),
    Named("key-password", SECRET, None),
    Named("key-password-file", FILLED, None),
    Named("key-password-env", FILLED, None),
)
"""A certificate: its file, the file of its key, and one source of the key's password."""
TLS: Final = NamedValues(
    "setting",
    (
        *PAIR,
        Named("ca", FILLED, None),
        Named("crl", FILLED, None),
        Named("crl-check", Choices((LEAF, CHAIN), folded=False), None),
        Named("client-certificates", Choices(("none", "optional", "required"), folded=False), None),
        Named("user-from", Choices(("cn", "dn", "san-dns", "san-email", "san-uri"), folded=False), "cn"),
        Named("minimum-version", Choices(("1.2", "1.3"), folded=False), "1.2"),
        Named("names", ANYTHING, None),
    ),
    label=IN_TABLE,
)
HOOK: Final = NamedValues(
    "setting",
    (
        Named("url", SECRET, meaning="the URL that gets changes of alarms"),
        Named("secret", SECRET, None),
        Named("secret-file", FILLED, None),
        Named("secret-env", FILLED, None),
        Named("timeout_s", seconds_from(0.1, 60), 5.0),
        Named("ca", TEXT, ""),
        Named("insecure", FLAG, False),
    ),
    label=IN_TABLE,
)
OF_NAME: Final = NamedValues("setting", (*PAIR, Named("vhost", FILLED, None)), label=IN_TABLE)
"""Certificate of one server name, and the virtual host whose shard serves its clients."""


@dataclass(frozen=True, repr=False)
class TokenSettings:
    """Contents of `[oauth]`."""

    values: dict[str, Any]
    keys: str
    """Path or URL of the keys."""

    def policy(self, keys: TokenKeys) -> TokenPolicy:
        """Return the policy with keys from the source."""
        values = self.values
        policy = TokenPolicy(values["resource_server_id"], keys)
        if values["scope_prefix"] is not None:
            policy.scope_prefix = values["scope_prefix"]
        policy.issuer = values["issuer"]
        policy.leeway_s = values["leeway_s"]
        policy.name_claims = values["preferred_username_claims"] + policy.name_claims
        policy.scope_claims = policy.scope_claims + values["additional_scopes_key"]
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


@dataclass(frozen=True, repr=False)
class HookSettings:
    """Contents of `[alarm-hook]`."""

    url: str
    """URL that gets changes of alarms; it may contain a secret."""
    secret: str = ""
    """Key of the signatures; empty for none."""
    timeout_s: float = 5.0
    """Seconds that one request may take in total."""
    ca: str = ""
    """File with the certificates that sign the server's certificate; empty: those of the system."""

    @property
    def server(self) -> str:
        """Server of the URL, without its path and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


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
    vhosts: dict[str, str] = field(default_factory=dict)
    """Virtual hosts by the same names: a node gives clients of a name to the shard of its virtual host."""


class _Table:
    """One table with its values; errors name the key and the rule."""

    def __init__(self, at: tuple[str, ...], kinds: NamedValues, given: Any, folder: Path, refuse: Refuse) -> None:
        """Read the values. Raises ConfigError."""
        self.at = at
        self.title = f"[{'.'.join(at)}]"
        self.folder = folder
        """Directory of the settings file."""
        self._refuse = refuse
        try:
            self.values = kinds.read(self.title, given, typed=True)
        except InvalidValue as error:
            raise self.error(error.name, str(error)) from None

    def error(self, key: str, text: str) -> ConfigError:
        """Return an error about a key; empty for the table."""
        return self._refuse((*self.at, key) if key else self.at, text)

    def path(self, key: str) -> Path | None:
        """Return the path of a file; None without one."""
        return None if self.values[key] is None else self.folder / self.values[key]

    def url(self, key: str, **allowed: bool) -> str:
        """Return a URL; empty without one."""
        value: str = self.values[key]
        fault = url_fault(value, **allowed) if value else ""
        if fault:
            raise self.error(key, f"{key} in {self.title} {fault}")
        return value

    def file(self, key: str, verb: str) -> str:
        """Return the path of an existing file; empty without one."""
        path = self.path(key)
        if path is None or not self.values[key]:
            return ""
        if not path.is_file():
            raise self.error(key, f"{key} in {self.title} {verb} the file '{path}', which is not there")
        return str(path)


def read_tokens(given: dict[str, Any], folder: Path, refuse: Refuse) -> TokenSettings:
    """Read `[oauth]`. Raises ConfigError."""
    table = _Table(("oauth",), OAUTH, given, folder, refuse)
    keys = table.url("keys", query=True) if "://" in table.values["keys"] else table.file("keys", "name")
    return TokenSettings(table.values, keys)


def read_back_end(given: dict[str, Any], folder: Path, refuse: Refuse) -> BackEndSettings:
    """Read `[auth-http]`. Raises ConfigError."""
    for key in given:
        instead = NOT_ASKED.get(key.replace("-", "_"))
        if instead is not None:
            raise refuse(
                ("auth-http", key),
                f"{key} in [auth-http] is never asked, because the server is asked at the login only: {instead}; "
                "remove the line (docs/users.md, HTTP back end)",
            )
    table = _Table(("auth-http",), BACK_END, given, folder, refuse)
    values, insecure = table.values, bool(table.values["insecure"])
    return BackEndSettings(
        table.url("user_path", insecure=insecure),
        table.url("vhost_path", insecure=insecure),
        values["http_method"],
        values["timeout_s"],
        values["cache_s"],
        values["threads"],
        EVERYTHING if values["permissions"] is None else _permission(table),
        table.file("ca", "names"),
    )


def read_hook(given: dict[str, Any], folder: Path, refuse: Refuse) -> HookSettings:
    """Read `[alarm-hook]`. Raises ConfigError, which shows no secret."""
    table = _Table(("alarm-hook",), HOOK, given, folder, refuse)
    values = table.values
    return HookSettings(
        table.url("url", query=True, insecure=bool(values["insecure"])),
        _secret(table, ("secret", "secret-file", "secret-env")),
        values["timeout_s"],
        table.file("ca", "names"),
    )


def _permission(table: _Table) -> Permission:
    key, given = "permissions", table.values["permissions"]
    if set(given) != set(PERMISSION_KINDS) or not all(isinstance(v, str) for v in given.values()):
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
        raise refuse(("tls",), f"[tls] must be a table, not {type_word(given)}")
    table = _Table(("tls",), TLS, given, folder, refuse)
    values = table.values
    ca, crl = table.path("ca"), table.path("crl")
    wanted = values["client-certificates"] or ("none" if ca is None else "optional")
    if wanted != "none" and ca is None:
        raise table.error("client-certificates", f"[tls] client-certificates is {wanted} without ca: add the "
                          "file of the authorities that sign the clients' certificates")  # fmt: skip
    if crl is not None and wanted == "none":
        raise table.error("crl", "[tls] crl lists revoked certificates of clients, and client-certificates is none")
    if values["crl-check"] is not None and crl is None:
        raise table.error("crl-check", "[tls] crl-check is given without crl: add the file of the lists")
    return TlsSettings(
        _pair(table),
        ca,
        crl,
        values["crl-check"] or LEAF,
        wanted,
        values["user-from"],
        values["minimum-version"],
        *_by_name({} if values["names"] is None else values["names"], folder, refuse),
    )


def _by_name(given: object, folder: Path, refuse: Refuse) -> tuple[dict[str, CertificateFiles], dict[str, str]]:
    """Return certificates and virtual hosts by server names."""
    at = ("tls", "names")
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise refuse(at, '[tls.names] must have a table for each name: [tls.names."shop.example.org"]')
    if len(given) > NAMES_MAX:
        raise refuse(at, f"[tls.names] has {len(given):,} names; the most is {NAMES_MAX:,}")
    tables = {name.lower(): _Table((*at, name), OF_NAME, each, folder, refuse) for name, each in given.items()}
    vhosts = {name: table.values["vhost"] for name, table in tables.items() if table.values["vhost"] is not None}
    return {name: _pair(table) for name, table in tables.items()}, vhosts


def _pair(table: _Table) -> CertificateFiles:
    certificate = table.folder / table.values["certificate"]
    return CertificateFiles(certificate, table.path("key") or certificate, _password(table))


def _password(table: _Table) -> str:
    """Return the password of a key; empty without one."""
    return _secret(table, ("key-password", "key-password-file", "key-password-env"))


def _secret(table: _Table, names: tuple[str, str, str]) -> str:
    """Return a secret from one of three keys: the text itself, a file, or the environment; empty without one."""
    sources = [name for name in names if table.values[name] is not None]
    if not sources:
        return ""
    source = sources[0]
    if len(sources) > 1:
        raise table.error(sources[1], f"give only one of {' and '.join(sources)}")
    _, from_file, from_environment = names
    value: str = table.values[source]
    if source == from_environment:
        if value not in os.environ:
            raise table.error(source, f"the environment variable {value} of {source} is not set")
        return os.environ[value]
    if source == from_file:
        path = table.folder / value
        try:
            with path.open("rb") as file:
                return file.read(PASSWORD_OCTETS).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise table.error(source, f"{source} '{path}' cannot be read: {why}") from None
    return value
