"""ClientHello: the first message of TLS, and the server's name in it (RFC 8446 section 4.1.2, RFC 6066 section 3)."""

from __future__ import annotations

from typing import Final

RECORD_HEAD: Final = 5
"""Bytes of a record before its content: type, version and length."""
HANDSHAKE: Final = 0x16
"""Type of a record with a handshake."""
CLIENT_HELLO: Final = 1
"""Type of the handshake message."""
SERVER_NAME: Final = 0
"""Type of the extension, and of a name of a host in it."""
RECORD_OCTETS: Final = 16 * 1024
"""Most bytes of content of a record."""


class _Cursor:
    """Reader of a message; raises IndexError beyond its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def take(self, count: int) -> bytes:
        end = self.pos + count
        if end > len(self.data):
            raise IndexError
        found = self.data[self.pos : end]
        self.pos = end
        return found

    def number(self, octets: int) -> int:
        return int.from_bytes(self.take(octets), "big")

    def vector(self, octets: int) -> bytes:
        """Return a vector whose length has so many bytes."""
        return self.take(self.number(octets))


def record_octets(seen: bytes) -> int:
    """Return the length of the record with which input begins, as far as it is known; 0 if it is no handshake."""
    if not seen or seen[0] != HANDSHAKE:
        return 0
    if len(seen) < RECORD_HEAD:
        return RECORD_HEAD
    octets = int.from_bytes(seen[3:RECORD_HEAD], "big")
    return RECORD_HEAD + octets if 0 < octets <= RECORD_OCTETS else 0


def server_name(record: bytes) -> str:
    """Return the name of the server in a whole record; empty without one, and if the message is malformed or longer."""
    try:
        cursor = _Cursor(record[RECORD_HEAD:])
        if cursor.number(1) != CLIENT_HELLO:
            return ""
        hello = _Cursor(cursor.vector(3))
        hello.take(2 + 32)  # Version and random.
        hello.vector(1)
        hello.vector(2)
        hello.vector(1)
        extensions = _Cursor(hello.vector(2))
        while extensions.pos < len(extensions.data):
            kind, extension = extensions.number(2), extensions.vector(2)
            if kind == SERVER_NAME:
                names = _Cursor(_Cursor(extension).vector(2))
                return names.vector(2).decode("ascii") if names.number(1) == SERVER_NAME else ""
    except (IndexError, UnicodeDecodeError):
        pass
    return ""
