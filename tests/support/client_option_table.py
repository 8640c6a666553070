"""The table of docs/how-to/client.md: options of the client, as its own table has them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.client.options import CONNECTION, OPTIONS, PUBLISHER, RECEIVER, Option
from penstock.settings.kind import Choices, Number

DEFAULTS = {"heartbeat": "30 s; with blocking calls none"}
"""Defaults that depend on the kind of connection."""


def tables() -> dict[str, str]:
    """Return the table by its name."""
    return {"options of the client": "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield "| option of a | | default | meaning |"
    yield "|---|---|---|---|"
    for scope in (PUBLISHER, RECEIVER, CONNECTION):
        for option in OPTIONS:
            if option.scope == scope:
                yield f"| {scope} | {_names(option)} | {_default(option)} | {_meaning(option)} |"


def _names(option: Option) -> str:
    return ", ".join(f"`{name}`" for name in (option.name, *option.aliases))


def _default(option: Option) -> str:
    value = option.default
    if option.name in DEFAULTS:
        return DEFAULTS[option.name]
    unit = option.kind.unit if isinstance(option.kind, Number) else ""
    if unit == "bytes":
        return f"{value // 2**20} MiB"
    if unit == "s":
        return f"{value:g} s"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(option: Option) -> str:
    parts = [option.meaning]
    if isinstance(option.kind, Choices):
        parts.append(", ".join(f"`{word}`" for word in option.kind.words))
    if option.in_milliseconds:
        parts.append(f"in milliseconds as {', '.join(f'`{name}`' for name in option.in_milliseconds)}")
    if option.environment:
        parts.append(f"variables {', '.join(f'`{name}`' for name in option.environment)} (`QPID_`: milliseconds)")
    return "; ".join(parts)
