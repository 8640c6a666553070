"""Ends of a bridge as its parameter names them: texts without secrets, and the queues of both for a comparison.

Values are read leniently: a store may have parameters of earlier versions, which nobody has checked.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from penstock.describe.bridges import FEDERATION
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.management.bridge_uris import DEFAULT_VHOST, BridgeUri, here, read_uris

SOURCE: Final = "source"
TARGET: Final = "target"
SIDES: Final[dict[str, str]] = {SOURCE: "src", TARGET: "dest"}
"""Prefixes of the keys of a shovel."""
PREFIXES: Final[tuple[str, ...]] = ("/queues/", "/queue/", "/amq/queue/")
"""Beginnings of an address of AMQP 1.0 that names a queue."""


class BridgeEnd:
    """End of a bridge: its URIs and its place there."""

    def __init__(self, uris: list[BridgeUri], queue: str, place: str) -> None:
        self.uris = uris
        self.queue = queue
        """Name of the queue; empty for an exchange, or for an unknown place."""
        self.place = place
        """Queue, exchange or address, for people."""

    def title(self) -> str:
        """Return the place and the broker, without secrets."""
        where = self.uris[0].title() if self.uris else "an unknown broker"
        return f"{self.place} of {where}" if self.place else where

    def is_same(self, other: BridgeEnd) -> bool:
        """Return whether both may be the same queue, as far as the URIs tell."""
        places = {uri.place() for uri in self.uris}
        return bool(self.queue) and self.queue == other.queue and any(uri.place() in places for uri in other.uris)


def shovel_end(value: Row, side: str) -> BridgeEnd:
    """Return the end of a shovel; `side` is SOURCE or TARGET."""
    prefix = SIDES[side]
    queue, address = _text(value, f"{prefix}-queue"), _text(value, f"{prefix}-address")
    exchange, key = value.get(f"{prefix}-exchange"), value.get(f"{prefix}-exchange-key")
    if address:
        queue = next((unquote(address.removeprefix(each)) for each in PREFIXES if address.startswith(each)), address)
        return BridgeEnd(_uris(value.get(f"{prefix}-uri")), queue, f"address {address}")
    if queue:
        return BridgeEnd(_uris(value.get(f"{prefix}-uri")), queue, f"queue {queue}")
    place = f"exchange {exchange}" if isinstance(exchange, str) else ""
    return BridgeEnd(
        _uris(value.get(f"{prefix}-uri")), "", place + (f" with key {key}" if isinstance(key, str) else "")
    )


def bridge_end(value: Row, side: str) -> BridgeEnd:
    """Return the end of a bridge; a target without a place is the queue of the source's name."""
    uris = _uris(value.get(side))
    query = dict(uris[0].query) if uris else {}
    queue, exchange, key = query.get("queue", ""), query.get("exchange"), query.get("key")
    if exchange is not None:
        return BridgeEnd(uris, "", f"exchange {exchange}" + ("" if key is None else f" with key {key}"))
    if not queue and side == TARGET:
        queue = bridge_end(value, SOURCE).queue
    return BridgeEnd(uris, queue, f"queue {queue}" if queue else "")


def link_end(value: Row, link: Row, side: str, vhost: str) -> BridgeEnd:
    """Return the end of a link of federation: its target is an object of this broker.

    The upstream of a URI without a virtual host has that of the object, as in RabbitMQ.
    """
    kind, name = str(link.get("kind", "queue")), str(link.get("resource", ""))
    if side == TARGET:
        return BridgeEnd([], name if kind == "queue" else "", f"{kind} {name}")
    named = _text(link, "upstream") or _text(value, kind) or name
    return BridgeEnd(_uris(value.get("uri"), vhost), named if kind == "queue" else "", f"{kind} {named}")


def end_of(spec: Row, side: str) -> BridgeEnd | None:
    """Return an end of the bridge of a spec; None if its value cannot be read."""
    value, link = spec.get("value"), spec.get("link")
    if not isinstance(value, dict):
        return None
    if isinstance(link, dict):
        return link_end(value, link, side, str(spec["vhost"]))
    if "uri" in value:  # An upstream without links.
        return BridgeEnd(_uris(value["uri"], str(spec["vhost"])) if side == SOURCE else [], "", "")
    return (shovel_end if "src-uri" in value else bridge_end)(value, side)


def end_title(spec: Row, side: str) -> str:
    """Return an end of the bridge of a spec, for people and without secrets."""
    end = end_of(spec, side)
    if end is None:
        return ""
    if end.uris or not ("link" in spec or spec.get("component") == FEDERATION):
        return end.title()
    where = here(str(spec["vhost"]))
    return f"{end.place} of {where}" if end.place else where


def queue_here(spec: Row, side: str) -> tuple[str, str]:
    """Return virtual host and name of the queue of this broker that is an end; both are empty if it is elsewhere."""
    end = end_of(spec, side)
    if end is None or not end.queue:
        return "", ""
    if not end.uris:
        return str(spec["vhost"]), end.queue
    here = [uri.vhost for uri in end.uris if uri.is_here]
    return (here[0], end.queue) if here else ("", "")


def _text(value: Row, name: str) -> str:
    given = value.get(name)
    return given if isinstance(given, str) else ""


def _uris(given: object, vhost: str = DEFAULT_VHOST) -> list[BridgeUri]:
    try:
        return read_uris("", given, vhost)
    except PreconditionFailed:
        return []
