"""Names in the certificate of a client, as Python's ssl module tells them: its subject, issuer, and its user."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Any, Final

from penstock.protocols.common.peer import TlsSession

SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
    "domainComponent": "DC",
    "userId": "UID",
    "streetAddress": "STREET",
}
"""Short names of attributes (RFC 4514 section 3)."""
SAN_KINDS: Final = {"san-dns": "DNS", "san-email": "email", "san-uri": "URI"}
ESCAPED: Final = frozenset('"+,;<>\\')
NAME_MAX: Final = 255
"""Longest name of a user, in octets, as in the store."""


def session_of(tls: ssl.SSLObject, user_from: str) -> TlsSession:
    """Return the TLS of a connection whose handshake is over, with the user that its peer's certificate names."""
    suite = tls.cipher()
    session = TlsSession(tls.version() or "", "" if suite is None else suite[0])
    certificate: dict[str, Any] = dict(tls.getpeercert() or {})
    if certificate:
        session.subject = distinguished_name(certificate.get("subject", ()))
        session.issuer = distinguished_name(certificate.get("issuer", ()))
        begins, ends = _time(certificate.get("notBefore", "")), _time(certificate.get("notAfter", ""))
        session.validity = f"{begins} - {ends}"
        session.user = user_of(certificate, user_from)
    return session


def user_of(certificate: dict[str, Any], user_from: str) -> str:
    """Return the user that a certificate names; empty unless it names exactly one, with printable characters."""
    if user_from == "dn":
        found = [distinguished_name(certificate.get("subject", ()))]
    elif user_from == "cn":
        found = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    else:
        kind = SAN_KINDS[user_from]
        found = [value for name, value in certificate.get("subjectAltName", ()) if name == kind]
    if len(found) != 1 or not found[0].isprintable() or len(found[0].encode(errors="replace")) > NAME_MAX:
        return ""
    return str(found[0])


def distinguished_name(parts: Any) -> str:
    """Return a name as text, the most special attribute first (RFC 4514 section 2.1)."""
    return ",".join(
        "+".join(f"{SHORT.get(name, name)}={_escaped(value)}" for name, value in part) for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    """Escape the characters that separate attributes (RFC 4514 section 2.4)."""
    text = "".join(f"\\{each}" if each in ESCAPED else each for each in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(value) > 1 else text


def _time(text: str) -> str:
    """Return a time of OpenSSL as RabbitMQ shows it; empty if it is missing."""
    if not text:
        return ""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
