"""The SASL mechanism PLAIN (RFC 4616), which both versions of AMQP have."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import PenstockError

MECHANISM: Final = re.compile(r"[A-Z0-9_-]{1,20}")
"""Name of a mechanism (RFC 4422, section 3.1)."""


class SaslError(PenstockError):
    """A response that does not follow its mechanism; the text never quotes the response, which may contain a
    password.
    """


def shown_mechanism(name: str) -> str:
    """Return a mechanism for an error text: quoted if it is a name; a confused client may send its password instead."""
    return f"'{name}'" if MECHANISM.fullmatch(name) else f"of {len(name)} characters that is no name of one"


def plain_response(user: str, password: str) -> bytes:
    """The PLAIN response: no authorisation identity, user, password. Raises `SaslError` if either contains a NUL."""
    if "\0" in user or "\0" in password:
        raise SaslError("PLAIN can carry neither a user nor a password with a NUL")
    return b"\0" + user.encode() + b"\0" + password.encode()


def parse_plain(response: bytes) -> tuple[str, str]:
    """User and password of a PLAIN response; raises `SaslError`.

    The authorisation identity must be empty or the user itself: acting for another user is not supported.
    """
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise SaslError(f"a PLAIN response has two NULs, not {len(parts) - 1}")
    identity, user, password = parts
    if not user:
        raise SaslError("a PLAIN response names no user")
    if identity and identity != user:
        raise SaslError("a PLAIN response asks to act for another user")
    return _text(user), _text(password)


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise SaslError("a PLAIN response is not UTF-8") from None
