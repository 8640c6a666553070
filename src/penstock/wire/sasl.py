"""SASL mechanisms of AMQP 0-9-1 connections: PLAIN (RFC 4616) and the older AMQPLAIN."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.wire.amqp091.codec import CodecError, decode_table


class SaslError(PenstockError):
    """A response that does not follow its mechanism; it never quotes the response, which may hold a password."""


def plain_response(user: str, password: str) -> bytes:
    """The PLAIN response: no authorisation identity, user, password. Raises `SaslError` if either holds a NUL."""
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
    return _text(user, "PLAIN"), _text(password, "PLAIN")


def parse_amqplain(response: bytes) -> tuple[str, str]:
    """User and password of an AMQPLAIN response, a field table without its size; raises `SaslError`."""
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0)
    except CodecError as error:
        raise SaslError(f"an AMQPLAIN response is no field table: {error.reason}") from None
    except OverflowError:
        raise SaslError("an AMQPLAIN response is too long") from None
    user = table.get("LOGIN")
    password = table.get("PASSWORD")
    if not isinstance(user, str) or not user or not isinstance(password, str):
        raise SaslError("an AMQPLAIN response needs LOGIN and PASSWORD, both text")
    return user, password


def _text(octets: bytes, mechanism: str) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise SaslError(f"a {mechanism} response is not UTF-8") from None
