"""Program: a node with shards, which obeys lines of JSON on standard input; each line of its output is an answer.

A program of its own, because a zygote is forked before there are threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.access.password_hash import file_password
from penstock.access.permission import Permission
from penstock.cluster.packet_channel import Row
from penstock.cluster.parent import Parent
from penstock.cluster.shard_process import main_of
from penstock.cluster.shard_watch import Patience
from penstock.cluster.zygote import Zygote
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError, StoreError
from penstock.operations.vhosts import declare_vhost, delete_vhost
from penstock.server.http.listener import HttpListener
from penstock.server.logs import logging_to_stderr
from penstock.server.shard import Allowance
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings

OFFICE: Final = "office.sock"
"""Unix socket at which the broker of users and virtual hosts serves HTTP."""


def say(row: Row) -> None:
    print(json.dumps(row), flush=True)


def add_user(driver: BrokerDriver, name: str, vhosts: list[str]) -> None:
    driver.broker.access.put_user(name, file_password("secret"), ["administrator"])
    for vhost in vhosts:
        driver.broker.access.set_permission(name, vhost, Permission(".*", ".*", ".*"))


def action_of(order: Row) -> Callable[[BrokerDriver], object]:
    """Return what an order changes in the office."""
    match order:
        case {"user": name, "vhosts": vhosts}:
            return lambda driver: add_user(driver, name, vhosts)
        case {"drop_user": name}:
            return lambda driver: driver.broker.access.delete_user(name)
        case {"limit": name, "connections": most}:
            return lambda driver: driver.broker.access.set_user_limits(name, {"max-connections": most})
        case {"bar": name, "vhost": vhost}:
            return lambda driver: driver.broker.access.clear_permission(name, vhost)
        case {"vhost": name}:
            return lambda driver: declare_vhost(driver, name)
        case {"drop_vhost": name}:
            return lambda driver: delete_vhost(driver, name)
    return lambda driver: None


async def change(node: Parent, order: Row) -> None:
    """Change the office in a turn, and wait until the change is in the catalogue."""
    driver, event_loop = node.office.driver, node.office.event_loop
    driver.begin(event_loop.loop.time())
    before = int(driver.broker.durable_changes.durable_declarations)
    action_of(order)(driver)
    event_loop.schedule()
    if driver.broker.durable_changes.durable_declarations != before:
        await event_loop.on_disk(before)


def state_of(node: Parent) -> Row:
    watches = {watch.name: {"state": watch.state, "pid": watch.pid} for watch in node.supervision.watches()}
    return {"state": watches, "vhosts": dict(node.vhosts), "cpu": sum(os.times()[:2])}


async def run(zygote: Zygote, settings: Settings, data: Path, shards: int, patience: Patience) -> None:
    loop = asyncio.get_running_loop()
    node = Parent(zygote, settings, data, shards, Allowance(1 << 30, 4_096), patience)
    try:
        await node.start()
    except (StartError, StoreError) as error:
        say({"refused": str(error)})
        return
    http = HttpListener(node.office.event_loop, settings, True)
    await http.start(f"unix:{data / OFFICE}", 0)
    inside = {"name": node.inside.name, "secret": node.inside.secret}
    say({"port": node.front.addresses[0][1], "zygote": zygote.pid, "parent": os.getpid(), "inside": inside})
    orders: asyncio.Queue[Row] = asyncio.Queue()

    def read() -> None:
        for line in os.read(0, 65536).splitlines() or [b'{"stop": true}']:
            orders.put_nowait(json.loads(line))

    loop.add_reader(0, read)
    while "stop" not in (order := await orders.get()):
        await change(node, order)
        say({"done": order, **state_of(node)})
    loop.remove_reader(0)
    await http.stop()
    await node.stop()
    say({"stopped": True})


def main() -> None:
    data, shards, patience = Path(sys.argv[1]), int(sys.argv[2]), Patience(**json.loads(sys.argv[3]))
    settings = Settings(listen=["127.0.0.1:0"])
    zygote = Zygote.begin(main_of(settings))
    with logging_to_stderr(), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run(zygote, settings, data, shards, patience))


if __name__ == "__main__":
    main()
