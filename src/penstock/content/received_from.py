"""Header `x-received-from`: the places through which a message has come, as RabbitMQ's federation writes them.

The last place is in front. A place is a table with `uri` and `exchange` or `queue`; of an exchange it also has the name
of the cluster and the virtual host, by which a message that comes back is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RECEIVED_FROM: Final = "x-received-from"
CLUSTER: Final = "cluster-name"
VHOST: Final = "vhost"


def places_of(headers: Mapping[str, object] | None) -> list[object]:
    """Return the entries of the header; none if it has another form."""
    entries = None if headers is None else headers.get(RECEIVED_FROM)
    return entries if isinstance(entries, list) else []


def may_go_on(headers: Mapping[str, object] | None, max_hops: int, cluster: str, vhost: str) -> bool:
    """Return whether a message may go to an exchange in this virtual host: it was not there, and has hops left."""
    places = places_of(headers)
    return len(places) < max_hops and not has_passed(places, cluster, vhost)


def has_passed(places: list[object], cluster: str, vhost: str) -> bool:
    """Return whether entries name a virtual host of a cluster."""
    for place in places:
        if isinstance(place, dict) and place.get(CLUSTER) == cluster and place.get(VHOST) == vhost:
            return True
    return False
