"""Typed access to the arguments of a decoded method.

The codec guarantees the types; these functions state them for the type checker.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed

TAG_MAX: Final = (1 << 63) - 1
"""Largest signed tag; tags are unsigned on the wire."""


def text(args: dict[str, object], name: str) -> str:
    """Return a short string."""
    value = args[name]
    assert isinstance(value, str)
    return value


def name(args: dict[str, object], name: str) -> str:
    """Return the name of a queue or exchange: a short string without line ends, which RabbitMQ removes too."""
    return text(args, name).replace("\r", "").replace("\n", "")


def flag(args: dict[str, object], name: str) -> bool:
    """Return a bit."""
    return args[name] is True


def number(args: dict[str, object], name: str) -> int:
    """Return an integer."""
    value = args[name]
    assert isinstance(value, int)
    return value


def tag(args: dict[str, object]) -> int:
    """Return a delivery tag. Raises PreconditionFailed (406) for an impossible tag: tags count from 1."""
    value = number(args, "delivery_tag")
    if value > TAG_MAX:
        raise PreconditionFailed(f"unknown delivery tag {value}")
    return value


def table(args: dict[str, object], name: str) -> dict[str, object]:
    """Return a field table."""
    value = args[name]
    assert isinstance(value, dict)
    return value


def octets(args: dict[str, object], name: str) -> bytes:
    """Return a long string."""
    value = args[name]
    assert isinstance(value, bytes)
    return value
