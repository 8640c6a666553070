"""Orders of a node for its shards."""

from __future__ import annotations

from pathlib import Path

from penstock.cluster.shard_orders import ShardOrder, folder_of


def test_order_passes_a_packet_unchanged() -> None:
    order = ShardOrder("west", "/data/shards/west", "penstock@host", (1 << 30, 1024, 2), "/run/west.sock")
    assert ShardOrder.of(order.row()) == order


def test_first_shard_has_the_directory_of_the_node() -> None:
    assert folder_of(Path("/data"), "1") == Path("/data")
    assert folder_of(Path("/data"), "west") == Path("/data/shards/west")
