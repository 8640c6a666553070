"""Validity and names of a certificate, and issuers and ends of certificate revocation lists, read from their DER form.

See X.690 and RFC 5280 sections 4.1 and 5.1.

Python's ssl module returns these only for the certificate of a verified peer.
"""

from __future__ import annotations

import binascii
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from itertools import islice
from typing import Any, Final

from penstock.connections.peer import TlsSession

UTC_TIME: Final = 0x17
VERSION: Final = 0xA0
EXTENSIONS: Final = 0xA3
DNS_NAME: Final = 0x82
IP_ADDRESS: Final = 0x87
COMMON_NAME: Final = bytes((0x55, 4, 3))
ALTERNATIVE_NAMES: Final = bytes((0x55, 0x1D, 17))
INTEGER: Final = 0x02
TEXTS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1A: "ascii", 0x1E: "utf-16-be"}
"""Encodings of the kinds of text in names: UTF8, Printable, T61, IA5, Visible, BMP."""
GENERALIZED_TIME: Final = 0x18
BEGIN: Final = "-----BEGIN CERTIFICATE-----"
END: Final = "-----END CERTIFICATE-----"
BEGIN_LIST: Final = "-----BEGIN X509 CRL-----"
END_LIST: Final = "-----END X509 CRL-----"


@dataclass(frozen=True)
class Name:
    """Name of a subject or an issuer."""

    text: str
    """Displayed values of the attributes, in order."""
    key: tuple[tuple[bytes, str], ...]
    """Attributes for comparisons: without regard to case, spaces and the kind of text (as in OpenSSL)."""


class NotACertificate(ValueError):
    """The bytes are no X.509 certificate."""


@dataclass(frozen=True)
class RevocationList:
    """A list of revoked certificates."""

    issuer: Name
    ends: datetime | None
    """Time until which the list must be renewed; None for never."""


@dataclass(frozen=True)
class Certificate:
    """Names and validity of a certificate."""

    subject: str
    """Common name of its subject; empty without one."""
    name: Name
    """Whole name of its subject."""
    names: tuple[str, ...]
    """Host names and addresses of the certificate."""
    begins: datetime
    """Start of the validity."""
    ends: datetime
    """End of the validity."""

    def days_left(self, now: datetime) -> int:
        """Return the whole days until the end, rounded down; negative after it."""
        return (self.ends - now).days


def first_certificate(pem: str) -> Certificate:
    """Read the first certificate of a text in PEM form: the server's certificate. Raises NotACertificate."""
    return certificates(pem, 1)[0]


def certificates(pem: str, most: int = sys.maxsize) -> list[Certificate]:
    """Read the certificates of a text in PEM form, at most so many. Raises NotACertificate, also if there is none."""
    try:
        certificates = [read_certificate(der) for der in islice(_parts(pem, BEGIN, END), most)]
    except binascii.Error:
        raise NotACertificate("its certificate is damaged") from None
    if not certificates:
        raise NotACertificate("it has no certificate in PEM form")
    return certificates


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate. Raises NotACertificate."""
    try:
        (_, outer), *_ = _elements(der)
        (_, body), *_ = _elements(outer)
        fields = [(tag, value) for tag, value in _elements(body) if tag != VERSION]
        # Serial number, signature algorithm, issuer, validity, subject, key, and then the extensions.
        begins, ends = (_time(tag, value) for tag, value in _elements(fields[3][1]))
        extensions = next((value for tag, value in fields if tag == EXTENSIONS), b"")
        return Certificate(
            _common_name(fields[4][1]), _name(fields[4][1]), _alternative_names(extensions), begins, ends
        )
    except (ValueError, IndexError):
        raise NotACertificate("its certificate is damaged") from None


def revocation_lists(pem: str) -> list[RevocationList]:
    """Read the lists of revoked certificates of a text in PEM form. Raises NotACertificate, also if there is none."""
    try:
        lists = [_read_list(der) for der in _parts(pem, BEGIN_LIST, END_LIST)]
    except (ValueError, IndexError):  # binascii.Error is a ValueError.
        raise NotACertificate("one of its lists is damaged") from None
    if not lists:
        raise NotACertificate("it has no list of revoked certificates in PEM form (X509 CRL)")
    return lists


def _read_list(der: bytes) -> RevocationList:
    (_, outer), *_ = _elements(der)
    (_, body), *_ = _elements(outer)
    fields = [(tag, value) for tag, value in _elements(body) if tag != INTEGER]
    # Signature algorithm, issuer, time of issue, time of the next issue, and then the revoked certificates.
    _time(*fields[2])
    tag, value = fields[3] if len(fields) > 3 else (0, b"")
    return RevocationList(_name(fields[1][1]), _time(tag, value) if tag in (UTC_TIME, GENERALIZED_TIME) else None)


def _parts(pem: str, begin: str, end: str) -> Iterator[bytes]:
    """Yield the decoded content between two marker lines of a text in PEM form. Raises binascii.Error."""
    for part in pem.split(begin)[1:]:
        text, sign, _ = part.partition(end)
        if not sign:
            raise binascii.Error("a part without its end")
        yield binascii.a2b_base64("".join(text.split()))


def _elements(octets: bytes) -> list[tuple[int, bytes]]:
    """Split a sequence of elements into tags and contents. Raises ValueError if an element is incomplete."""
    elements: list[tuple[int, bytes]] = []
    at = 0
    while at < len(octets):
        tag, length = octets[at], octets[at + 1]
        at += 2
        if length & 0x80:
            octets_of_length = length & 0x7F
            length = int.from_bytes(octets[at : at + octets_of_length], "big")
            at += octets_of_length
        if at + length > len(octets):
            raise ValueError("an element that is not whole")
        elements.append((tag, octets[at : at + length]))
        at += length
    return elements


def _time(tag: int, value: bytes) -> datetime:
    """Return a time (RFC 5280 section 4.1.2.5): two-digit years from 50 on belong to the last century."""
    text = value.decode("ascii")
    if tag == UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _name(octets: bytes) -> Name:
    """Read a name."""
    parts = [
        (kind, value.decode(TEXTS[tag], "replace") if tag in TEXTS else value.hex())
        for kind, tag, value in _attributes(octets)
    ]
    key = tuple((kind, " ".join(text.lower().split())) for kind, text in parts)
    return Name(", ".join(text for _, text in parts), key)


def _common_name(name: bytes) -> str:
    texts = (value.decode(errors="replace") for kind, _, value in _attributes(name) if kind == COMMON_NAME)
    return next(texts, "")


def _attributes(name: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield kind, tag and value of each attribute of a name, which is a sequence of sets of them."""
    for _, parts in _elements(name):
        for _, part in _elements(parts):
            (_, kind), (tag, value) = _elements(part)
            yield kind, tag, value


def _alternative_names(extensions: bytes) -> tuple[str, ...]:
    alternatives: list[str] = []
    for _, every in _elements(extensions):
        for _, extension in _elements(every):
            parts = _elements(extension)
            if parts[0][1] != ALTERNATIVE_NAMES:
                continue
            for _, names in _elements(parts[-1][1]):
                for tag, value in _elements(names):
                    if tag == DNS_NAME:
                        alternatives.append(value.decode(errors="replace"))
                    elif tag == IP_ADDRESS:
                        alternatives.append(str(ip_address(value)))
    return tuple(alternatives)


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
"""Longest name of a user, in bytes, as in the store."""


def session_of(tls: ssl.SSLObject, user_from: str) -> TlsSession:
    """Return the TLS of a connection after its handshake, with the user named by the peer's certificate."""
    suite = tls.cipher()
    session = TlsSession(tls.version() or "", "" if suite is None else suite[0])
    certificate: dict[str, Any] = dict(tls.getpeercert() or {})
    if certificate:
        session.subject = distinguished_name(certificate.get("subject", ()))
        session.issuer = distinguished_name(certificate.get("issuer", ()))
        begins, ends = _time_of_text(certificate.get("notBefore", "")), _time_of_text(certificate.get("notAfter", ""))
        session.validity = f"{begins} - {ends}"
        session.user = user_of(certificate, user_from)
    return session


def user_of(certificate: dict[str, Any], user_from: str) -> str:
    """Return the user named by a certificate; empty unless there is exactly one, with printable characters."""
    if user_from == "dn":
        names = [distinguished_name(certificate.get("subject", ()))]
    elif user_from == "cn":
        names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    else:
        kind = SAN_KINDS[user_from]
        names = [value for name, value in certificate.get("subjectAltName", ()) if name == kind]
    if len(names) != 1 or not names[0].isprintable() or len(names[0].encode(errors="replace")) > NAME_MAX:
        return ""
    return str(names[0])


def distinguished_name(parts: Any) -> str:
    """Return a name as text, the most specific attribute first (RFC 4514 section 2.1)."""
    return ",".join(
        "+".join(f"{SHORT.get(name, name)}={_escaped(value)}" for name, value in part) for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    """Escape the characters that separate attributes (RFC 4514 section 2.4)."""
    text = "".join(f"\\{each}" if each in ESCAPED else each for each in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(value) > 1 else text


def _time_of_text(text: str) -> str:
    """Return a time of OpenSSL as RabbitMQ shows it; empty if it is missing."""
    if not text:
        return ""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
