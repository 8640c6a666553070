"""Pools of the node for display: their fill and their largest holders, as metrics, rows and sentences."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.core.broker import Broker
from penstock.describe.exposition import label
from penstock.describe.table import Row, Table, metric
from penstock.flow.pool import SHOWN_HOLDERS, Pool


class HeldUnits(NamedTuple):
    """Units of one of the largest holders of a pool."""

    units: int


POOL_FIGURES: Final[Table[Pool]] = Table(
    metric("penstock_pool_taken", lambda pool, at: int(pool.taken), "Units that are taken of a pool of the node"),
    metric("penstock_pool_limit", lambda pool, at: int(pool.limit), "Units of a pool of the node"),
    metric("penstock_pool_highest", lambda pool, at: int(pool.highest), "The most units that were taken of a pool"),
    metric("penstock_pool_refusals_total", lambda pool, at: int(pool.refused),
           "Requests that did not fit into their share of a pool"),
)  # fmt: skip
HOLDER_FIGURES: Final[Table[HeldUnits]] = Table(
    metric("penstock_pool_holder_units", lambda held, at: held.units,
           "Units of the three largest holders of a pool: a user, or one in a virtual host"),
)  # fmt: skip


def labelled_pools(broker: Broker) -> list[tuple[str, Pool]]:
    """Return all pools with their labels."""
    return [(label("pool", pool.row.key), pool) for pool in broker.pools.every()]


def labelled_holders(broker: Broker) -> list[tuple[str, HeldUnits]]:
    """Return the largest holders of all pools with their labels."""
    return [
        (",".join((label("pool", pool.row.key), label("user", user), label("vhost", vhost))), HeldUnits(units))
        for pool in broker.pools.every()
        for user, vhost, units in pool.holders(SHOWN_HOLDERS)
    ]


def pool_rows(broker: Broker, user: str | None) -> list[Row]:
    """Return the pools in use; holders other than `user` are left out, None shows all."""
    return [
        {
            "pool": pool.row.key,
            "name": pool.row.name,
            "unit": pool.row.unit,
            "taken": int(pool.taken),
            "limit": int(pool.limit),
            "refused": int(pool.refused),
            "holders": [
                {"user": holder, "vhost": vhost, "units": units}
                for holder, vhost, units in pool.holders(SHOWN_HOLDERS)
                if user is None or holder == user
            ],
        }
        for pool in broker.pools.every()
        if pool.taken > 0 or pool.refused > 0
    ]


def pool_sentences(broker: Broker) -> list[str]:
    """Return a sentence for each pool that is half used, or that refused requests and is a quarter used."""
    told = [
        pool
        for pool in broker.pools.every()
        if pool.limit > 0 and (pool.taken * 2 > pool.limit or (pool.refused > 0 and pool.taken * 4 > pool.limit))
    ]
    return [
        f"{pool.row.name}: {int(pool.taken):,} of {int(pool.limit):,} {pool.row.unit} (most: {pool.describe_holders()})"
        + _refused(int(pool.refused))
        for pool in told
    ]


def _refused(count: int) -> str:
    if count == 0:
        return ""
    return "; 1 request did not fit into its share" if count == 1 else f"; {count:,} requests did not fit into shares"
