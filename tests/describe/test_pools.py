"""Pools for people: the largest users of each pool, in metrics, `penstock status --json` and `penstock why`."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.describe.pools import labelled_holders, labelled_pools, pool_rows, pool_sentences
from penstock.flow.pool import PoolHolder
from penstock.settings.pools import CURSORS, LEASES, POOLS


def test_largest_holders_of_a_pool_are_named_and_labels_are_bounded() -> None:
    broker = Broker(Defaults())
    pool = broker.pools.of(CURSORS)
    for number in range(100):
        pool.add(PoolHolder(f"user {number}", "/"), number + 1)
    assert len(labelled_pools(broker)) == len(POOLS)
    held = labelled_holders(broker)
    assert [(name, each.units) for name, each in held] == [
        (f'pool="cursors",user="user {number}",vhost="/"', number + 1) for number in (99, 98, 97)
    ]
    (row,) = pool_rows(broker, None)
    assert (row["pool"], row["taken"], row["limit"], row["refused"]) == ("cursors", 5_050, 10_000, 0)
    assert row["holders"] == [{"user": f"user {n}", "vhost": "/", "units": n + 1} for n in (99, 98, 97)]
    (row,) = pool_rows(broker, "user 98")
    assert row["holders"] == [{"user": "user 98", "vhost": "/", "units": 99}]
    assert pool_sentences(broker) == [
        "cursors: 5,050 of 10,000 cursors (most: user 'user 99' in vhost '/' 100, user 'user 98' in vhost '/' 99, "
        "user 'user 97' in vhost '/' 98)"
    ]


def test_pool_with_refusals_is_reported_from_a_quarter_on() -> None:
    broker = Broker(Defaults())
    pool = broker.pools.of(LEASES)
    eve = PoolHolder("eve", "other")
    assert pool_sentences(broker) == pool_rows(broker, None) == []
    while pool.take(eve, 1):
        pass
    assert pool.refusal(eve, 1)
    assert pool_sentences(broker) == [
        "leases of batch reads: 351 of 1,000 leases (most: user 'eve' in vhost 'other' 351); 1 request did not fit "
        "into its share"
    ]
