"""Header `x-received-from`: the places through which a message has come, as RabbitMQ's federation writes it."""

from __future__ import annotations

from typing import Final

from penstock.bridges.ends import End
from penstock.content.properties import Properties

RECEIVED_FROM: Final = "x-received-from"
HOPS_MOST: Final = 64
"""Most entries of the header; older ones are dropped."""


def with_hop(properties: Properties, source: End, was_redelivered: bool) -> Properties:
    """Return the properties with the source added in front. The URI in it has no user and no password."""
    headers = dict(properties.headers or {})
    before = headers.get(RECEIVED_FROM)
    entry = {"uri": source.broker, "queue": source.queue, "redelivered": was_redelivered}
    earlier = before if isinstance(before, list) else []
    headers[RECEIVED_FROM] = [entry, *earlier][:HOPS_MOST]
    changed = properties.copy()
    changed.headers = headers
    return changed


def hops_of(properties: Properties) -> int:
    """Return through how many bridges a message has come."""
    entries = (properties.headers or {}).get(RECEIVED_FROM)
    return len(entries) if isinstance(entries, list) else 0
