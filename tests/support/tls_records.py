"""Records of TLS 1.3 that no client library makes: key updates as many as wanted, after a handshake with OpenSSL."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HANDSHAKE = 22
DATA = 23
UPDATE_REQUESTED = bytes((24, 0, 0, 1, 1))
"""A key update that requests another one (RFC 8446 section 4.6.3)."""
BARE_RECORD_OCTETS = 22
"""Octets of a record without its data."""


class RecordMaker:
    """Client whose records after the handshake are made here, with its secret (RFC 8446 sections 5.2 and 7)."""

    def __init__(self, context: ssl.SSLContext, folder: Path) -> None:
        """The context is changed: it writes its secrets to a file in a folder."""
        self._secrets = folder / "secrets.txt"
        context.keylog_filename = str(self._secrets)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._hash = hashlib.sha384
        self._secret = b""

    def first_words(self) -> bytes:
        """Return the hello."""
        with suppress(ssl.SSLWantReadError):
            self._client.do_handshake()
        return self._outgoing.read()

    def answer(self, octets: bytes) -> bytes:
        """Return the end of the handshake, after octets of the peer; empty if more of them are needed."""
        self._incoming.write(octets)
        try:
            self._client.do_handshake()
        except ssl.SSLWantReadError:
            return b""
        lines = [line.split() for line in self._secrets.read_text().splitlines()]
        self._secret = next(bytes.fromhex(words[2]) for words in lines if words[0] == "CLIENT_TRAFFIC_SECRET_0")
        suite = self._client.cipher()
        assert suite is not None
        assert suite[0] == "TLS_AES_256_GCM_SHA384"
        self._begin()
        return self._outgoing.read()

    def shake_hands(self, sock: socket.socket) -> None:
        """Do the handshake on a socket that blocks."""
        sock.sendall(self.first_words())
        while not (said := self.answer(sock.recv(65536))):
            pass
        sock.sendall(said)

    def record(self, kind: int, content: bytes) -> bytes:
        """Return the next record."""
        head = struct.pack(">BHH", DATA, 0x0303, len(content) + 17)
        nonce = (self._iv ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._key.encrypt(nonce, content + bytes((kind,)), head)

    def key_update(self) -> bytes:
        """Return a record that changes the keys of the following ones, and requests the same of the peer."""
        record = self.record(HANDSHAKE, UPDATE_REQUESTED)
        self._secret = self._derive(b"traffic upd", 48)
        self._begin()
        return record

    def _begin(self) -> None:
        self._key = AESGCM(self._derive(b"key", 32))
        self._iv = int.from_bytes(self._derive(b"iv", 12), "big")
        self._number = 0

    def _derive(self, label: bytes, octets: int) -> bytes:
        name = b"tls13 " + label
        info = struct.pack(">HB", octets, len(name)) + name + b"\0"
        return hmac.new(self._secret, info + b"\1", self._hash).digest()[:octets]

    def decrypted(self, sock: socket.socket) -> bytes:
        """Return what the peer says next; empty at its end."""
        while True:
            with suppress(ssl.SSLWantReadError):
                return self._client.read(65536)
            octets = sock.recv(65536)
            if not octets:
                return b""
            self._incoming.write(octets)
