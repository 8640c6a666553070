"""Certificates for development."""

from __future__ import annotations

import pytest

from penstock.server.tls.certificate import first_certificate

self_signed = pytest.importorskip("penstock.cli.self_signed", reason="the package cryptography is not installed")


def test_names_of_server_and_client_are_in_their_certificates() -> None:
    files = self_signed.make(("localhost", "10.0.0.7", "localhost"), "ada", 30)
    server = first_certificate(files["server.pem"].decode())
    assert (server.subject, server.names) == ("localhost", ("localhost", "10.0.0.7"))
    assert (server.ends - server.begins).days == 31
    assert first_certificate(files["client.pem"].decode()).subject == "ada"
