"""Orders of a node for its shards."""

from __future__ import annotations

from penstock.cluster.shard_orders import ShardOrder


def test_order_passes_a_packet_unchanged() -> None:
    order = ShardOrder("west", "/data/shards/west", "penstock@host", (1 << 30, 1024, 2), "/run/west.sock")
    assert ShardOrder.of(order.row()) == order
