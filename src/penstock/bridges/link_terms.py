"""Terms of a link of federation, read from its spec; keys that are missing have RabbitMQ's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

PREFETCH: Final = 1000
MAX_HOPS: Final = 1
PREFETCH_MOST: Final = 65_535
"""Largest prefetch of AMQP 0-9-1."""
NUMBER_MOST: Final = 1 << 53
"""Largest number of a key: more milliseconds are no whole number in JSON."""
NEVER: Final = "never"
ACK_MODES: Final = ("on-confirm", "on-publish", "no-ack")
"""When a message leaves the upstream: the default is first."""
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"


@dataclass(frozen=True)
class LinkTerms:
    """Terms of a link."""

    kind: str
    """EXCHANGE or QUEUE."""
    user: str
    """User that the link runs as here."""
    vhost: str
    """Virtual host of the object here."""
    resource: str
    """Name of the object here."""
    upstream: str
    """Its name at the upstream."""
    cluster: str
    """Name of the cluster here."""
    consumer_tag: str
    declared: Mapping[str, Any]
    """Declaration of the object here: `type`, `durable`, `auto_delete`, `arguments`."""
    prefetch: int
    max_hops: int
    ack_mode: str
    trusts_user_id: bool
    queue_arguments: Mapping[str, object]
    """Arguments of the queue that collects messages of an exchange at the upstream."""
    cleans_up: bool
    """True if this queue is deleted with the link."""


def terms_of(spec: Mapping[str, Any]) -> LinkTerms:
    """Return the terms of a spec whose value was checked when it was set."""
    link, value = spec["link"], spec["value"]
    arguments: dict[str, object] = {"x-internal-purpose": "federation"}
    for key, argument in (("expires", "x-expires"), ("message-ttl", "x-message-ttl")):
        if value.get(key) is not None:
            arguments[argument] = _whole(value[key], NUMBER_MOST)
    if value.get("queue-type") is not None:
        arguments["x-queue-type"] = value["queue-type"]
    mode = value.get("ack-mode")
    return LinkTerms(
        kind=link["kind"],
        user=spec["run_as"],
        vhost=spec["vhost"],
        resource=link["resource"],
        upstream=link["upstream"],
        cluster=link["cluster"],
        consumer_tag=link["consumer_tag"],
        declared={name: link[name] for name in ("type", "durable", "auto_delete", "arguments") if name in link},
        prefetch=_whole(value.get("prefetch-count") or PREFETCH, PREFETCH_MOST),
        max_hops=_whole(value.get("max-hops", MAX_HOPS), NUMBER_MOST),
        ack_mode=mode if mode in ACK_MODES else ACK_MODES[0],
        trusts_user_id=value.get("trust-user-id") is True,
        queue_arguments=arguments,
        cleans_up=value.get("resource-cleanup-mode") != NEVER,
    )


def _whole(number: float, most: int) -> int:
    """Return a number of JSON as a whole one: 0 at least."""
    return int(min(max(number, 0), most))


def uris_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the URIs of the upstream, one of which is used. A URI without a path is of the virtual host of the link.

    RabbitMQ takes the virtual host of the object for it, and not the default one.
    """
    uri = spec["value"]["uri"]
    return [_with_vhost(each, spec["vhost"]) for each in (uri if isinstance(uri, list) else [uri])]


def _with_vhost(uri: str, vhost: str) -> str:
    parts = urlsplit(uri)
    if parts.path:
        return uri
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}/{quote(vhost, safe='')}{query}"
