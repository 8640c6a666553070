"""Keys of the parameter `bridge`: two ends as `penstock bridges run` takes them, and the conditions between them."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from penstock.content.selector.selector import parse_selector
from penstock.errors import InvalidField, PreconditionFailed
from penstock.management.bridge_uris import PLACES, BridgeUri, read_uri
from penstock.operations.key_table import NAME, ROUTING_KEY, Key, check_keys
from penstock.settings.kind import FLAG, INVALID, TEXT, Choices, Number, Text, whole

HOPS_MOST: Final = 64
"""Largest `max-hops`: the header x-received-from has so many entries at most."""
KEYS: Final[tuple[Key, ...]] = (
    Key("source", TEXT, "URI of the source with ?queue=NAME; amqp:///VHOST?queue=NAME is a queue of this broker.",
        is_uri=True),
    Key("target", TEXT, "URI of the target with ?queue=NAME, or ?exchange=NAME&key=KEY; without them the queue of the "
        "source's name.", is_uri=True),
    Key("delivery", Choices(("auto", "exactly-once", "at-least-once"), folded=False),
        "exactly-once needs Penstock at both ends; auto takes it where both ends can.", default="auto"),
    Key("prefetch", whole(1, 65_535), "Most messages on their way.", default=2000),
    Key("selector", Text(0, 1_000), "Carry messages that this selector matches; the source is read over AMQP 1.0.",
        default=""),
    Key("forward-headers", FLAG, "Add the source to the header x-received-from.", default=False),
    Key("max-hops", whole(1, HOPS_MOST), "Do not carry messages that came through so many bridges; it needs "
        "forward-headers."),
    Key("reconnect-delay", Number("s", most=86_400, whole=False),
        "Seconds before a lost end is tried again; the time doubles up to 30 s.", default=0.1),
    Key("delete-after", whole(1), "Delete the bridge after so many messages."),
)  # fmt: skip
NEEDED: Final[tuple[str, ...]] = ("source", "target")


def check_bridge(name: str, value: object) -> dict[str, object]:
    """Check the value of a bridge and return it. Raises PreconditionFailed (406) with the key and the rule."""
    title = f"bridge '{name}'"
    checked = check_keys(title, "a bridge", KEYS, value)
    for key in NEEDED:
        if key not in checked:
            raise PreconditionFailed(f"{title}: '{key}' is missing")
        if isinstance(checked[key], list):
            raise PreconditionFailed(f"{title}: '{key}' must be one URI, not a list")
    source = places_of(f"{title}: 'source'", read_uri("", checked["source"]))
    target = places_of(f"{title}: 'target'", read_uri("", checked["target"]))
    if "queue" not in source:
        raise PreconditionFailed(f"{title}: 'source' names no queue: add ?queue=NAME to its URI")
    if "key" in target and "exchange" not in target:
        raise PreconditionFailed(f"{title}: 'target' names a key without an exchange: add exchange=NAME")
    _check_selector(title, checked.get("selector"))
    if "max-hops" in checked and checked.get("forward-headers") is not True:
        raise PreconditionFailed(f"{title}: max-hops needs forward-headers=true, whose header has the hops")
    if checked.get("delivery") == "exactly-once" and checked.get("selector"):
        raise PreconditionFailed(f"{title}: delivery=exactly-once contradicts 'selector': blocks have all messages")
    return checked


def _check_selector(title: str, selector: object) -> None:
    if isinstance(selector, str):
        try:
            parse_selector(selector)
        except InvalidField as error:
            raise PreconditionFailed(f"{title}: 'selector' is not a selector: {error}") from None


def places_of(title: str, uri: BridgeUri) -> dict[str, str]:
    """Return queue, exchange and key that a URI names. Raises PreconditionFailed (406)."""
    found: dict[str, str] = {}
    for name, value in uri.query:
        if name in PLACES:
            if name in found:
                raise PreconditionFailed(f"{title} names its {name} twice")
            kind = ROUTING_KEY if name == "key" else NAME
            if kind.parse(value) is INVALID:
                raise PreconditionFailed(f"{title}: {kind.fault(name, value)}")
            found[name] = value
    if found.get("queue") and len(found) > 1:
        raise PreconditionFailed(f"{title} names a queue and an exchange: give one")
    return found


def end_text(given: str, vhost: str) -> str:
    """Return the URI of an end: a name without :// is a queue of this broker in this virtual host."""
    if "://" in given or not given:
        return given
    return f"amqp:///{'' if vhost == '/' else quote(vhost, safe='')}?queue={quote(given, safe='')}"
