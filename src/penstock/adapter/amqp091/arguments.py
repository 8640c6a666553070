"""The arguments of a decoded method, with their types: the codec guarantees them, the type checker wants to see it."""

from __future__ import annotations


def text(args: dict[str, object], name: str) -> str:
    """Return a short string."""
    value = args[name]
    assert isinstance(value, str)
    return value


def name(args: dict[str, object], name: str) -> str:
    """Return the name of a queue or exchange: a short string, without line ends, which RabbitMQ leaves out too."""
    return text(args, name).replace("\r", "").replace("\n", "")


def flag(args: dict[str, object], name: str) -> bool:
    """Return a bit."""
    return args[name] is True


def number(args: dict[str, object], name: str) -> int:
    """Return an integer."""
    value = args[name]
    assert isinstance(value, int)
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
