"""Hops of a carried message: its source is added to the header `x-received-from`."""

from __future__ import annotations

from typing import Final

from penstock.bridges.ends import End
from penstock.content.properties import Properties
from penstock.content.received_from import RECEIVED_FROM, places_of

HOPS_MOST: Final = 64
"""Most entries of the header; older ones are dropped."""


def with_hop(properties: Properties, source: End, was_redelivered: bool) -> Properties:
    """Return the properties with the source added in front. The URI in it has no user and no password."""
    headers = dict(properties.headers or {})
    entry = {"uri": source.broker, "queue": source.queue, "redelivered": was_redelivered}
    headers[RECEIVED_FROM] = [entry, *places_of(headers)][:HOPS_MOST]
    changed = properties.copy()
    changed.headers = headers
    return changed


def hops_of(properties: Properties) -> int:
    """Return through how many bridges a message has come."""
    return len(places_of(properties.headers))
