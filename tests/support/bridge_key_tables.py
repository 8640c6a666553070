"""The tables of docs/inside/bridge-keys.md: keys of shovels, upstreams and bridges, as the code has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from penstock.operations import bridge_keys, shovel_keys, upstreams
from penstock.operations.key_table import Key
from penstock.settings.kind import Choices, Flag, Number, Table, Text


def kind_words(key: Key) -> str:
    """Return the values that a key may have."""
    kind = key.kind
    if key.is_uri:
        return "URI"
    words = [f"`{word}`" for word in (*(kind.words if isinstance(kind, Choices) else ()), *key.words)]
    if isinstance(kind, Flag):
        words = ["`true`", "`false`"]
    elif isinstance(kind, Number):
        words.insert(0, "number")
    elif isinstance(kind, Table):
        words.insert(0, "object")
    elif isinstance(kind, Text):
        words.insert(0, "text")
    return ", ".join(words) or "any"


def rows(keys: Iterable[Key]) -> Iterator[str]:
    """Yield the lines of a table of keys."""
    yield "| key | values | default | what it does |"
    yield "|---|---|---|---|"
    for key in keys:
        older = f", formerly `{'`, `'.join(key.older)}`" if key.older else ""
        default = (
            "-"
            if key.default in (None, "")
            else f"`{key.default if isinstance(key.default, str) else json.dumps(key.default)}`"
        )
        of = f" Protocol {' or '.join(key.protocols)}." if key.protocols else ""
        not_served = f" **No effect here**: {key.not_served}." if key.not_served else ""
        yield f"| `{key.name}`{older} | {kind_words(key)} | {default} | {key.meaning}{of}{not_served} |"


def tables() -> dict[str, str]:
    """Return the tables by their names."""
    return {
        "keys of shovels": "\n".join(rows(shovel_keys.KEYS)) + "\n",
        "keys of upstreams": "\n".join(rows(upstreams.KEYS)) + "\n",
        "keys of bridges": "\n".join(rows(bridge_keys.KEYS)) + "\n",
    }
