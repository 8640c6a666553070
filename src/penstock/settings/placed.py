"""Patterns of queues and exchanges with the virtual host in which they apply.

| written | applies in | |---|---| | `orders.#`, `logs`, `logs/eu.#` | all virtual hosts | | `shop/orders.#` for queues,
`shop//logs` and `shop//logs/eu.#` for exchanges | virtual host `shop` | | `%2F/orders.#` | virtual host `/`: its name
is quoted as in a URL | | `*/a/b` | all virtual hosts, for a queue whose name has a slash; `*//` for a routing key with
two |

A settings file, definitions and records have this form. Commands, the control exchange and HTTP have the pattern alone,
which applies in the virtual host of the request, or in all with `everywhere`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

SEPARATORS: Final[dict[str, str]] = {"queue": "/", "address": "//"}
"""Scopes of objects in virtual hosts, with what follows the name of one."""
ALL: Final = "*"
"""Stands for all virtual hosts."""


def place(scope: str, vhost: str | None, pattern: str) -> str:
    """Return a pattern with its virtual host; None for all."""
    separator = SEPARATORS.get(scope)
    if separator is None:
        return pattern
    if vhost is None:
        return f"{ALL}{separator}{pattern}" if separator in pattern else pattern
    return f"{quote(vhost, safe='')}{separator}{pattern}"


def placed(scope: str, text: str) -> tuple[str | None, str]:
    """Return the virtual host of a pattern, None for all, and the pattern without it."""
    vhost, found, pattern = text.partition(SEPARATORS.get(scope, "\0"))
    if not found:
        return None, text
    return (None if vhost == ALL else unquote(vhost)), pattern


def in_vhost(vhost: str, name: str) -> str:
    """Return the name of an object with its virtual host, for texts about several virtual hosts: shop/orders."""
    return f"{quote(vhost, safe='')}/{name}"
