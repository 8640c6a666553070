"""TLS of one connection as plain data: what was negotiated, and the certificate of the peer."""

from __future__ import annotations

from typing import Final

WITHOUT: Final[dict[str, object]] = {
    "ssl": False,
    "ssl_protocol": None,
    "ssl_key_exchange": None,
    "ssl_cipher": None,
    "ssl_hash": None,
    "peer_cert_subject": None,
    "peer_cert_issuer": None,
    "peer_cert_validity": None,
}
"""Fields of a connection without TLS."""


class TlsSession:
    """TLS of one connection after its handshake."""

    def __init__(self, version: str, cipher: str) -> None:
        self.version = version
        """Version of the protocol in OpenSSL's words: TLSv1.3."""
        self.cipher = cipher
        """Cipher suite in OpenSSL's words: TLS_AES_256_GCM_SHA384, or ECDHE-RSA-AES256-GCM-SHA384."""
        self.user: str = ""
        """User that the peer's certificate names; empty without a certificate, or if it names none."""
        self.subject: str = ""
        """Distinguished name of the peer's certificate (RFC 4514); empty without a certificate."""
        self.issuer: str = ""
        """Distinguished name of its issuer."""
        self.validity: str = ""
        """Time from which and until which it is valid, in RabbitMQ's form."""


def rabbitmq_fields(session: TlsSession | None) -> dict[str, object]:
    """Return the fields of RabbitMQ's connections about TLS, with its words for key exchange, cipher and hash."""
    if session is None:
        return dict(WITHOUT)
    exchange, cipher, digest = _parts(session.cipher)
    return {
        "ssl": True,
        "ssl_protocol": session.version.lower(),
        "ssl_key_exchange": exchange,
        "ssl_cipher": cipher,
        "ssl_hash": digest,
        "peer_cert_subject": session.subject or None,
        "peer_cert_issuer": session.issuer or None,
        "peer_cert_validity": session.validity or None,
    }


def _parts(suite: str) -> tuple[str, str, str]:
    """Return key exchange, cipher and hash of a cipher suite; a suite of TLS 1.3 has any key exchange.

    The hash of a cipher that authenticates by itself is `aead`.
    """
    words = suite.lower().replace("aes128", "aes-128").replace("aes256", "aes-256").replace("_", "-").split("-")
    exchange = "any"
    if words[0] == "tls":
        words = words[1:]
    else:
        keys = [word for word in words if word in ("ecdhe", "dhe", "ecdh", "rsa", "ecdsa", "psk")]
        words = [word for word in words if word not in keys]
        exchange = "_".join(keys) or "rsa"
    if "gcm" in words or "ccm" in words or "poly1305" in words:
        ends_with_hash = words[-1].startswith("sha")
        return exchange, "_".join(words[:-1] if ends_with_hash else words), "aead"
    return exchange, "_".join([*words[:-1], "cbc"]), words[-1]
