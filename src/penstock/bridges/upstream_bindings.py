"""Bindings of a federated exchange, as its link repeats them at the upstream.

A binding goes upstream as far as messages come down. Its argument `x-bound-from` has the places through which it has
come, the last one in front, each with the hops that are left to it; a binding that comes back is not repeated. This is
RabbitMQ's form, so that links of both brokers make one federation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.content.received_from import CLUSTER, VHOST, has_passed

BOUND_FROM: Final = "x-bound-from"
HOPS: Final = "hops"

Arguments = dict[str, Any]
Bindings = dict[str, tuple[str, Arguments]]
"""Routing key and arguments of each binding, by a text that is equal for equal ones."""


def repeated(
    bindings: Iterable[tuple[str, Mapping[str, Any]]], here: Mapping[str, object], upstream: tuple[str, str], hops: int
) -> Bindings:
    """Return the bindings for the upstream.

    `here` is the entry of this link without hops: cluster, virtual host and exchange. `upstream` is the cluster and
    virtual host there, and `hops` the most hops of the link.
    """
    found: Bindings = {}
    for key, arguments in bindings:
        left = _hops_left(arguments, upstream, hops)
        if left > 0:
            entries = arguments.get(BOUND_FROM)
            earlier = entries if isinstance(entries, list) else []
            given = {**arguments, BOUND_FROM: [{**here, HOPS: left}, *earlier]}
            found[f"{key}\0{json.dumps(given, sort_keys=True)}"] = (key, given)
    return found


def _hops_left(arguments: Mapping[str, Any], upstream: tuple[str, str], hops: int) -> int:
    entries = arguments.get(BOUND_FROM)
    if not isinstance(entries, list) or not entries:
        return hops
    if has_passed(entries, *upstream):
        return 0
    last = entries[0].get(HOPS) if isinstance(entries[0], dict) else None
    return min(last - 1, hops) if isinstance(last, int) else 0


def entry(cluster: str, vhost: str, exchange: str, suffix: str) -> dict[str, object]:
    """Return the entry of a link, without its hops."""
    return {CLUSTER: cluster, VHOST: vhost, EXCHANGE: f"{vhost}:{exchange} {suffix}"}


EXCHANGE: Final = "exchange"
