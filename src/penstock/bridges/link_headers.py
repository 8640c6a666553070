"""Headers that links of federation write, as RabbitMQ's do: the place from which a message came, in front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.bridges.hops import HOPS_MOST
from penstock.content.properties import Properties
from penstock.content.received_from import CLUSTER, RECEIVED_FROM, VHOST, places_of

REDELIVERED: Final = "redelivered"
VISITS: Final = "visit-count"
ORIGINAL_EXCHANGE: Final = "x-original-exchange"
ORIGINAL_KEY: Final = "x-original-routing-key"
COPIES: Final = "CC"
ORIGINAL_COPIES: Final = "x-original-cc"


def with_exchange(
    properties: Properties, place: Mapping[str, object], was_redelivered: bool, cluster: str, vhost: str
) -> Properties:
    """Return the properties of a message that came from an exchange; `place` has its `uri` and `exchange`."""
    entry = {**place, REDELIVERED: was_redelivered}
    if cluster:
        entry[CLUSTER] = cluster
    entry[VHOST] = vhost
    return _with_entry(properties, dict(properties.headers or {}), entry, places_of(properties.headers))


def with_queue(
    properties: Properties, place: Mapping[str, object], was_redelivered: bool, origin: tuple[str, str]
) -> Properties:
    """Return the properties of a message that came from a queue; `place` has its `uri` and `queue`.

    `origin` is the exchange and the routing key of the first publish. A queue has one entry, with the number of visits.
    """
    headers = {ORIGINAL_COPIES if name == COPIES else name: value for name, value in (properties.headers or {}).items()}
    visits, earlier = 0, []
    for each in places_of(headers):
        if isinstance(each, dict) and all(each.get(name) == value for name, value in place.items()):
            count = each.get(VISITS)
            visits = count if isinstance(count, int) else 0
        else:
            earlier.append(each)
    if RECEIVED_FROM not in headers:
        headers[ORIGINAL_EXCHANGE], headers[ORIGINAL_KEY] = origin
    return _with_entry(properties, headers, {**place, REDELIVERED: was_redelivered, VISITS: visits + 1}, earlier)


def _with_entry(
    properties: Properties, headers: dict[str, object], entry: dict[str, object], earlier: list[object]
) -> Properties:
    headers[RECEIVED_FROM] = [entry, *earlier][:HOPS_MOST]
    changed = properties.copy()
    changed.headers = headers
    return changed
