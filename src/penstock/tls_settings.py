"""TLS of the listeners in the settings file: the table `[tls]`.

Paths are relative to the directory of the settings file. More certificates, chosen by the name that a client asks for
(SNI, RFC 6066 section 3), have a table each: `[tls.names."shop.example.org"]`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.errors import ConfigError

Refuse = Callable[[tuple[str, ...], str], ConfigError]
"""Function that makes the error of a key, with its place in the file."""

CLIENT_CERTIFICATES: Final = ("none", "optional", "required")
USERS_FROM: Final = ("cn", "dn", "san-dns", "san-email", "san-uri")
VERSIONS: Final = ("1.2", "1.3")
LEAF: Final = "leaf"
CHAIN: Final = "chain"
CRL_CHECKS: Final = (LEAF, CHAIN)
"""Certificates that are looked up in lists: that of the client, or also those of its issuers."""
PAIR_KEYS: Final = ("certificate", "key", "key-password", "key-password-file", "key-password-env")
"""Keys of a certificate: its file, that of its key, and one place of the key's password."""
KEYS: Final = (*PAIR_KEYS, "ca", "crl", "crl-check", "client-certificates", "user-from", "minimum-version", "names")
NAMES_MAX: Final = 1000
"""Most certificates by name."""
PASSWORD_OCTETS: Final = 4096
"""Longest password of a key, in octets."""


@dataclass(frozen=True)
class CertificateFiles:
    """Files of one certificate: with the chain of its issuers, and its key."""

    certificate: Path
    key: Path
    password: str = field(default="", repr=False)
    """Password of the key; empty for one that is not encrypted."""


@dataclass(frozen=True)
class TlsSettings:
    """The table `[tls]`."""

    files: CertificateFiles
    """Certificate for clients that ask for no name, or for one without a certificate of its own."""
    ca: Path | None = None
    """Authorities of the clients' certificates; None: clients show none."""
    crl: Path | None = None
    """Lists of revoked certificates of the authorities; None: no certificate is revoked."""
    crl_check: str = LEAF
    """Certificates that are looked up there: leaf (that of the client) or chain (those of its issuers as well)."""
    client_certificates: str = "none"
    """Certificates of clients: none, optional or required."""
    user_from: str = "cn"
    """Part of a client's certificate that is the name of its user, for the mechanism EXTERNAL."""
    minimum_version: str = "1.2"
    """Oldest version of TLS."""
    names: dict[str, CertificateFiles] = field(default_factory=dict)
    """Certificates by the name that a client asks for, in lower case; `*.` stands for one label."""


def read_tls(given: object, folder: Path, refuse: Refuse) -> TlsSettings:
    """Read the table `[tls]`. Raises ConfigError that names the key and the rule, and shows no password."""
    if not isinstance(given, dict):
        raise refuse(("tls",), "[tls] must be a table")
    _check_keys(given, KEYS, ("tls",), refuse)
    files = _pair(given, ("tls",), folder, refuse)
    ca = _text(given, "ca", ("tls",), refuse)
    wanted = _one_of(given, "client-certificates", CLIENT_CERTIFICATES, "none" if ca is None else "optional", refuse)
    if wanted != "none" and ca is None:
        raise refuse(("tls", "client-certificates"), f"[tls] client-certificates is {wanted} without ca: add the "
                     "file of the authorities that sign the clients' certificates")  # fmt: skip
    crl = _text(given, "crl", ("tls",), refuse)
    if crl is not None and wanted == "none":
        raise refuse(("tls", "crl"), "[tls] crl lists revoked certificates of clients, and client-certificates is none")
    crl_check = _one_of(given, "crl-check", CRL_CHECKS, LEAF, refuse)
    if "crl-check" in given and crl is None:
        raise refuse(("tls", "crl-check"), "[tls] crl-check is given without crl: add the file of the lists")
    return TlsSettings(
        files,
        None if ca is None else folder / ca,
        None if crl is None else folder / crl,
        crl_check,
        wanted,
        _one_of(given, "user-from", USERS_FROM, "cn", refuse),
        _one_of(given, "minimum-version", VERSIONS, "1.2", refuse),
        _by_name(given.get("names", {}), folder, refuse),
    )


def _by_name(given: object, folder: Path, refuse: Refuse) -> dict[str, CertificateFiles]:
    at = ("tls", "names")
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise refuse(at, '[tls.names] must have a table for each name: [tls.names."shop.example.org"]')
    if len(given) > NAMES_MAX:
        raise refuse(at, f"[tls.names] has {len(given):,} names; the most is {NAMES_MAX:,}")
    found: dict[str, CertificateFiles] = {}
    for name, table in given.items():
        _check_keys(table, PAIR_KEYS, (*at, name), refuse)
        found[name.lower()] = _pair(table, (*at, name), folder, refuse)
    return found


def _pair(given: dict[str, Any], at: tuple[str, ...], folder: Path, refuse: Refuse) -> CertificateFiles:
    certificate = _text(given, "certificate", at, refuse)
    if certificate is None:
        raise refuse(at, f"[{'.'.join(at)}] needs certificate: the file of the certificate, in PEM form")
    key = _text(given, "key", at, refuse) or certificate
    return CertificateFiles(folder / certificate, folder / key, _password(given, at, folder, refuse))


def _password(given: dict[str, Any], at: tuple[str, ...], folder: Path, refuse: Refuse) -> str:
    """Return the password of a key from the file, from another file or from the environment; empty without one."""
    places = [name for name in PAIR_KEYS[2:] if name in given]
    if not places:
        return ""
    if len(places) > 1:
        raise refuse((*at, places[1]), f"give only one of {' and '.join(places)}")
    value = _text(given, places[0], at, refuse) or ""
    if places[0] == "key-password-env":
        if value not in os.environ:
            raise refuse((*at, places[0]), f"the environment variable {value} of key-password-env is not set")
        return os.environ[value]
    if places[0] == "key-password-file":
        try:
            with (folder / value).open("rb") as file:
                return file.read(PASSWORD_OCTETS).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise refuse((*at, places[0]), f"key-password-file '{folder / value}' cannot be read: {why}") from None
    return value


def _check_keys(given: dict[str, Any], known: tuple[str, ...], at: tuple[str, ...], refuse: Refuse) -> None:
    for name in given:
        if name not in known:
            raise refuse((*at, name), f"unknown setting {name} in [{'.'.join(at)}]; known are {', '.join(known)}")


def _text(given: dict[str, Any], name: str, at: tuple[str, ...], refuse: Refuse) -> str | None:
    value = given.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    raise refuse((*at, name), f"{name} must be a string that is not empty")


def _one_of(given: dict[str, Any], name: str, known: tuple[str, ...], default: str, refuse: Refuse) -> str:
    value = given.get(name, default)
    if value not in known:
        raise refuse(("tls", name), f"[tls] {name} must be one of {', '.join(known)}, not {value!r}")
    return str(value)
