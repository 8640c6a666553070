"""Certificates for development, by the package cryptography (extra `tls`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BEGINS_BEFORE: Final = timedelta(days=1)
"""Time before now from which certificates are valid, for clocks that differ."""


def make(names: tuple[str, ...], user: str, days: int) -> dict[str, bytes]:
    """Make an authority, and certificates of a server with these names and of a client; return files by name."""
    key = generate_private_key(SECP256R1())
    issuer = _name("Penstock development authority")
    authority = _sign(_builder(issuer, issuer, key, days, is_authority=True), key)
    alternatives = x509.SubjectAlternativeName([_general(name) for name in dict.fromkeys(names)])
    server_key, client_key = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
    server = _builder(_name(names[0]), issuer, server_key, days).add_extension(alternatives, critical=False)
    client = _builder(_name(user), issuer, client_key, days)
    return {
        "ca.pem": authority,
        "server.pem": _sign(_usage(server, key, ExtendedKeyUsageOID.SERVER_AUTH), key),
        "server-key.pem": _pem(server_key),
        "client.pem": _sign(_usage(client, key, ExtendedKeyUsageOID.CLIENT_AUTH), key),
        "client-key.pem": _pem(client_key),
    }


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int, is_authority: bool = False
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEGINS_BEFORE)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(
    builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, purpose: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False).add_extension(by, critical=False)


def _sign(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
