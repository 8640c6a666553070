"""Data directory of a node with two shards, each with a durable queue, as brokers and the adoption have written it."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock.cluster.adoption import FOLDER, prepare
from penstock.settings.config import Settings
from penstock.store.node_folder import folder_of

PLACES = {"1": "/", "2": "b"}
"""Virtual host of each shard."""


async def fill_node(data: Path, messages: int = 3) -> None:
    """Fill the durable queue `q` of each shard, and make the catalogue."""
    for shard, vhost in PLACES.items():
        settings = Settings(vhosts=[vhost])
        folder = folder_of(data, shard)
        async with penstock.Broker("127.0.0.1:0", data=folder, http="off", settings=settings) as broker:
            address = broker.url.rstrip("/") + ("" if vhost == "/" else f"/{vhost}")
            async with penstock.connect(address) as client:
                await client.declare_queue("q", durable=True)
                publisher = client.publisher("q")
                for number in range(messages):
                    body = f"{shard}-{number:010}".encode() * 100
                    await publisher.send(penstock.Message(body, durable=True))
        if shard == "1":
            (data / FOLDER).mkdir(mode=0o700)
            prepare(data, 2, list(PLACES.values()))
