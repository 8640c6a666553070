"""A broker in the test's process, and bridges of it that run there or in its worker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import penstock
from penstock.bridges.runs import Bridge
from penstock.core.settings.table import Parameter
from penstock.operations.parameters import drop_parameter, put_parameter
from tests.support.brokers import PATIENCE

CLUSTER = "house"
Row = dict[str, Any]


async def seen(look: Callable[[], object], what: str = "the state", within: float = PATIENCE) -> None:
    """Let the loop turn until a condition is true."""
    try:
        async with asyncio.timeout(within):
            while not look():  # noqa: ASYNC110 - the condition has no event.
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {within:g} s: {what}") from None


class RunningBridge:
    """A bridge that runs in the test's process, and what it reports."""

    def __init__(self) -> None:
        self.reports: list[Row] = []
        self.dialled = 0
        """Connections to its own broker."""

    @property
    def last(self) -> Row:
        return self.reports[-1] if self.reports else {"state": "", "reason": "", "carried": 0, "refused": 0}

    @property
    def states(self) -> list[str]:
        """States in the order in which they were reported, each change once."""
        found: list[str] = []
        for row in self.reports:
            if not found or found[-1] != row["state"]:
                found.append(row["state"])
        return found


class BridgeHouse:
    """A broker in the test's process."""

    def __init__(self, broker: penstock.Broker) -> None:
        self.broker = broker
        self.url = broker.url

    def spec(self, component: str, value: Mapping[str, Any], run_as: str = "guest", vhost: str = "/") -> Row:
        """Return the spec of a bridge with the name `test`."""
        key = f"{component}:{vhost}:test"
        return {
            "key": key, "component": component, "vhost": vhost, "name": "test", "run_as": run_as, "revision": 1,
            "value": dict(value),
        }  # fmt: skip

    @asynccontextmanager
    async def running(self, spec: Row) -> AsyncIterator[RunningBridge]:
        """Run a bridge until the block ends; it must end in order."""
        found = RunningBridge()

        async def dial() -> socket.socket:
            found.dialled += 1
            ours, theirs = socket.socketpair()
            for each in (ours, theirs):
                each.setblocking(False)
            await self.broker.shard.take_internal(ours, spec["run_as"], f"bridge:{found.dialled}")
            return theirs

        bridge = Bridge(spec, CLUSTER, dial, found.reports.append)
        task = asyncio.create_task(bridge.run())
        try:
            yield found
        finally:
            bridge.stop()
            await asyncio.wait_for(task, PATIENCE)

    def define(self, component: str, name: str, value: Mapping[str, Any], run_as: str = "guest") -> None:
        """Define a bridge of the virtual host /, which the worker of the broker runs."""
        put_parameter(self.broker.driver, Parameter(component, "/", name, dict(value), run_as))

    def clear(self, component: str, name: str) -> None:
        """Delete the definition of a bridge."""
        drop_parameter(self.broker.driver, (component, "/", name))

    def row(self, name: str) -> Row:
        """Return a bridge as the broker lists it."""
        (found,) = [row for row in self.broker.driver.bridges.rows() if row["name"] == name]
        return found

    def depth(self, queue: str) -> int:
        """Return how many messages are in a queue of the virtual host /."""
        return int(self.broker.driver.broker.vhosts["/"].queues[queue].messages)

    def has(self, queue: str) -> bool:
        return queue in self.broker.driver.broker.vhosts["/"].queues


@asynccontextmanager
async def house(**settings: Any) -> AsyncIterator[BridgeHouse]:
    """Run a broker in this process."""
    async with penstock.Broker("127.0.0.1:0", **settings) as broker:
        yield BridgeHouse(broker)


async def filled(url: str, queue: str, count: int, start: int = 0) -> None:
    """Publish numbers to a queue, which is declared."""
    async with penstock.connect(url, protocol="amqp091") as connection:
        await connection.declare_queue(queue)
        await connection.publisher(queue).send_many(b"%d" % number for number in range(start, start + count))


async def emptied(url: str, queue: str) -> list[int]:
    """Take all messages of a queue, which are numbers."""
    found: list[int] = []
    async with (
        penstock.connect(url, protocol="amqp091") as connection,
        connection.receiver(queue, consumerWindowSize=0) as receiver,
    ):
        while (delivery := await receiver.get()) is not None:
            found.append(int(delivery.body))
            delivery.accept()
    return found
