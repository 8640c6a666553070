"""Program: a node that supervises shards with stores, and obeys lines of JSON on standard input.

Each line of its output is another state of a shard. A program of its own, because a zygote is forked before there are
threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from penstock.cluster.packet_channel import Packet, Row
from penstock.cluster.shard_orders import ShardOrder
from penstock.cluster.shard_process import main_of
from penstock.cluster.shard_watch import Patience, ShardWatch
from penstock.cluster.supervision import ShardListener, Supervision
from penstock.cluster.zygote import Zygote
from penstock.server.logs import logging_to_stderr
from penstock.settings.config import Settings
from penstock.store.node_folder import folder_of


def say(row: Row) -> None:
    print(json.dumps(row), flush=True)


class Node(ShardListener):
    """A node that reports the states of its shards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def order(self, name: str) -> Row:
        data = folder_of(self.folder, name)
        data.mkdir(parents=True, exist_ok=True)
        return ShardOrder(name, str(data), "penstock@test", (1 << 30, 1024, 1), str(data / "http.sock")).row()

    def changed(self, watch: ShardWatch) -> None:
        sentence = watch.sentence(watch.since)
        say({"name": watch.name, "state": watch.state, "pid": watch.pid, "sentence": sentence, "at": time.monotonic()})

    def received(self, name: str, packet: Packet) -> None:
        super().received(name, packet)
        if "pong" not in packet.message:
            say({"name": name, "message": packet.message})


async def run(zygote: Zygote, folder: Path, patience: Patience) -> None:
    loop = asyncio.get_running_loop()
    supervision = Supervision(zygote, loop, Node(folder), patience)
    supervision.begin()
    orders: asyncio.Queue[Row] = asyncio.Queue()

    def read() -> None:
        for line in os.read(0, 65536).splitlines() or [b'{"stop": ""}']:
            orders.put_nowait(json.loads(line))

    loop.add_reader(0, read)
    say({"zygote": zygote.pid})
    while True:
        next_order = asyncio.ensure_future(orders.get())
        await asyncio.wait([next_order, supervision.lost], return_when=asyncio.FIRST_COMPLETED)
        if supervision.lost.done():
            next_order.cancel()
            say({"lost": supervision.lost.result()})
            supervision.abandon()
            return
        match next_order.result():
            case {"add": name}:
                supervision.add(name)
            case {"restart": name}:
                supervision.restart(name, "come back")
            case {"revive": name}:
                supervision.revive(name)
            case _:
                await supervision.stop()
                say({"stopped": True})
                return


def main() -> None:
    folder, patience = Path(sys.argv[1]), Patience(**json.loads(sys.argv[2]))
    zygote = Zygote.begin(main_of(Settings()))
    with logging_to_stderr(), asyncio.Runner() as runner:
        runner.run(run(zygote, folder, patience))


if __name__ == "__main__":
    main()
