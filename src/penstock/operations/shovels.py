"""Shovels of RabbitMQ that only move the messages of a queue once, within this broker: they are carried out as moves.

RabbitMQ's management page and scripts move messages by a dynamic shovel that ends after the length of its queue. Such a
parameter is not stored: in RabbitMQ it is gone after the last message. Other shovels are stored without effect.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.core.settings.table import Parameter
from penstock.describe.table import Row

SHOVEL: Final = "shovel"
"""Component of the parameters."""
QUEUE_LENGTH: Final = "queue-length"
"""Value of `src-delete-after`: the shovel ends after the messages that were in the queue at its beginning."""
PROTOCOL: Final = "amqp091"
DEFAULT_VHOST: Final = "/"


def move_of(parameter: Parameter) -> Row | None:
    """Return the fields of the move that a shovel stands for; None if it is no move within a virtual host."""
    value = parameter.value
    if parameter.component != SHOVEL or not isinstance(value, dict):
        return None
    ends = [value.get(f"{end}-uri") for end in ("src", "dest")]
    protocols = {value.get(f"{end}-protocol", PROTOCOL) for end in ("src", "dest")}
    if protocols != {PROTOCOL} or not all(_is_here(uri, parameter.vhost) for uri in ends):
        return None
    after = value.get("src-delete-after", value.get("delete-after"))
    is_count = isinstance(after, int) and not isinstance(after, bool) and after > 0
    if not isinstance(value.get("src-queue"), str) or not (after == QUEUE_LENGTH or is_count):
        return None
    fields: Row = {"queue": value["src-queue"]} | ({"count": after} if is_count else {})
    if isinstance(value.get("dest-queue"), str):
        return {**fields, "target": value["dest-queue"]}
    if isinstance(value.get("dest-exchange"), str) and isinstance(value.get("dest-exchange-key"), str):
        return {**fields, "exchange": value["dest-exchange"], "routing_key": value["dest-exchange-key"]}
    return None


def _is_here(uris: object, vhost: str) -> bool:
    """Return whether a URI, or the only one of a list, names this broker (no host) and the virtual host."""
    uri = uris[0] if isinstance(uris, list) and len(uris) == 1 else uris
    if not isinstance(uri, str):
        return False
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    named = unquote(parts.path.removeprefix("/")) or DEFAULT_VHOST
    return parts.scheme == "amqp" and not parts.netloc and named == vhost
