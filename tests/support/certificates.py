"""Certificates for tests, made by trustme: an authority, and what it signs; and a broker that serves them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from penstock.settings.file_tables import CertificateFiles
from tests.support.brokers import BrokerProcess, serving, settings_file


class Authority:
    """An authority whose certificates are files in a folder: NAME.pem and NAME-key.pem, and its own, ca.pem."""

    def __init__(self, folder: Path, name: str = "ca", made: trustme.CA | None = None) -> None:
        self.folder = folder
        self._ca = trustme.CA() if made is None else made
        self.ca = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.ca)

    def intermediate(self, name: str) -> Authority:
        """Return an authority whose certificate, NAME.pem, is issued by this one. Its clients send it."""
        return Authority(self.folder, name, self._ca.create_child_ca())

    def issue(self, name: str, *identities: str, days: float = 365, common_name: str | None = None) -> Path:
        """Write a certificate that is valid for so many days (negative: it has expired), and its key."""
        ends = datetime.now(UTC) + timedelta(days=days)
        begins = datetime(2020, 1, 1, tzinfo=UTC)
        made = self._ca.issue_cert(*identities, common_name=common_name, not_before=begins, not_after=ends)
        made.private_key_pem.write_to_path(self.key(name))
        path = self.folder / f"{name}.pem"
        path.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        return path

    def key(self, name: str) -> Path:
        return self.folder / f"{name}-key.pem"

    def files(self, name: str = "server", key: Path | None = None, password: str = "") -> CertificateFiles:
        """Return the files of a certificate as the settings name them; with another key, or the password of one."""
        return CertificateFiles(self.folder / f"{name}.pem", key or self.key(name), password)

    def encrypt_key(self, name: str, password: str) -> Path:
        """Write the key of a certificate encrypted, beside it."""
        key = load_pem_private_key(self.key(name).read_bytes(), None)
        path = self.folder / f"{name}-encrypted.pem"
        secret = BestAvailableEncryption(password.encode())
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
        return path

    def revoke(self, *names: str, days: float = 30, file: str = "crl.pem") -> Path:
        """Write the list of revoked certificates, which is to be renewed after so many days."""
        key: Any = load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        ends = datetime.now(UTC) + timedelta(days=days)
        began = datetime(2020, 1, 1, tzinfo=UTC)
        issuer = x509.load_pem_x509_certificate(self.ca.read_bytes()).subject
        made = x509.CertificateRevocationListBuilder().issuer_name(issuer).last_update(began).next_update(ends)
        for name in names:
            serial = x509.load_pem_x509_certificate((self.folder / f"{name}.pem").read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(began)
            made = made.add_revoked_certificate(entry.build())
        path = self.folder / file
        path.write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM))
        return path

    def trusting(self, client: str | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and shows a certificate of it."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if client is not None:
            context.load_cert_chain(self.folder / f"{client}.pem", self.key(client))
        return context


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first octets of a client's handshake."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def localhost(folder: Path) -> Authority:
    """Return an authority with the certificate `server` of this machine, and `client` of user ada."""
    authority = Authority(folder)
    authority.issue("server", "localhost", "127.0.0.1", "::1")
    authority.issue("client", "ada@example.org", common_name="ada")
    return authority


SETTINGS = """\
[broker]
listen-tls = ["127.0.0.1:0"]
http-tls = "127.0.0.1:0"

[tls]
certificate = "server.pem"
key = "server-key.pem"
ca = "ca.pem"
client-certificates = "optional"
"""


@contextmanager
def serving_tls(folder: Path, settings: str = SETTINGS, *options: str, **more: Any) -> Iterator[BrokerProcess]:
    """Run a broker with TLS and without; its settings file is in the folder of its certificates."""
    with serving(folder, *settings_file(folder, settings), *options, **more) as process:
        yield process
