"""TLS of a connection in RabbitMQ's words."""

from __future__ import annotations

import pytest

from penstock.protocols.common.peer import Peer
from penstock.protocols.common.tls_session import WITHOUT, TlsSession, rabbitmq_fields


@pytest.mark.parametrize(
    ("suite", "exchange", "cipher", "digest"),
    [
        ("TLS_AES_256_GCM_SHA384", "any", "aes_256_gcm", "aead"),
        ("TLS_CHACHA20_POLY1305_SHA256", "any", "chacha20_poly1305", "aead"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ecdhe_rsa", "aes_128_gcm", "aead"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "ecdhe_ecdsa", "chacha20_poly1305", "aead"),
        ("ECDHE-RSA-AES256-SHA384", "ecdhe_rsa", "aes_256_cbc", "sha384"),
        ("AES128-SHA", "rsa", "aes_128_cbc", "sha"),
    ],
)
def test_cipher_suite_is_told_in_the_words_of_rabbitmq(suite: str, exchange: str, cipher: str, digest: str) -> None:
    fields = rabbitmq_fields(TlsSession("TLSv1.3", suite))
    assert fields["ssl_protocol"] == "tlsv1.3"
    assert (fields["ssl_key_exchange"], fields["ssl_cipher"], fields["ssl_hash"]) == (exchange, cipher, digest)
    assert fields["peer_cert_subject"] is None


def test_connection_without_tls_has_the_same_fields() -> None:
    assert rabbitmq_fields(None) == WITHOUT
    assert WITHOUT.keys() == rabbitmq_fields(TlsSession("TLSv1.3", "TLS_AES_256_GCM_SHA384")).keys()


def test_peer_gets_the_user_of_its_certificate_when_its_handshake_is_over() -> None:
    peer = Peer("10.0.0.1:5", False)
    session = TlsSession("TLSv1.3", "TLS_AES_256_GCM_SHA384")
    session.user = "ada"
    peer.secure(session)
    assert (peer.tls, peer.tls_subject) == (session, "ada")
