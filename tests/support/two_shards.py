"""A node of two shards with one virtual host each, and clients of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.sync import Connection, connect
from tests.cluster.test_parent import Node
from tests.support.brokers import PATIENCE

VHOSTS = ("/", "west")
"""A virtual host of shard 1, and one of shard 2."""

HANGING = {"silence_s": 4.0, "answer_s": 120.0}
"""Times of a node whose shard hangs in a test, and is not killed."""


@contextmanager
def two_shards(folder: Path, **patience: object) -> Iterator[Node]:
    """Run a node of two shards, and alice, who may do everything. Silence is waited for, unless `patience` has it."""
    with Node(folder, **{"silence_s": PATIENCE, **patience}).begin() as node:
        node.do(vhost="west")
        node.do(user="alice", vhosts=list(VHOSTS))
        for shard in ("1", "2"):
            node.await_state(shard, "serving")
        assert node.do(look=True)["vhosts"] == {"/": "1", "west": "2"}
        yield node


def client(node: Node, vhost: str = "/", user: str = "alice") -> Connection:
    """Return a connection of our client."""
    return connect(node.url(vhost, user, "secret"), reconnect=False)


def named(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return virtual host and name of rows, without queues for answers."""
    return [(row["vhost"], row["name"]) for row in rows if not row["name"].startswith("amq.dyn")]
