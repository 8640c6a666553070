"""Replay without doubles: a broker is killed in the middle of 10,000 sends, and each message is there once, in order.

`--kill-rounds 100` repeats it as often with each protocol; the suite does a few rounds.
"""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import penstock
from bench.processes import free_port
from tests.client.conversations import both_protocols, url_of
from tests.support.brokers import PATIENCE, BrokerProcess, serving, some_name
from tests.support.postgres import cluster, needs_postgres

MESSAGES = 10_000
WINDOW = 1000
QUICK = {"reconnect_delay": "0.01", "reconnect_delay_max": "0.05"}


class Killed:
    """A broker with a store that is killed at one message, and started again on the same port.

    With `has_standby` another one waits on a port of its own, and takes over.
    """

    def __init__(self, folder: Path, *options: str, has_standby: bool = False) -> None:
        self.folder = folder
        self.options = options or ("--data", str(folder / "data"))
        self.has_standby = has_standby

    async def run(self, protocol: str, seed: int) -> list[int]:
        """Send all messages, with a kill at the confirm of a random one; return the numbers that are in the queue."""
        chance = random.Random(seed)
        at, after = chance.randrange(MESSAGES // 2), chance.uniform(0.0, 0.02)
        with serving(self.folder, *self.options) as broker, ExitStack() as stack:
            port, options = broker.port, self.options
            if self.has_standby:
                port, options = free_port(), (*options, "--standby")
            begin = partial(stack.enter_context, serving(self.folder, *options, listen=(f"127.0.0.1:{port}",)))
            taking_over = asyncio.create_task(asyncio.to_thread(begin)) if self.has_standby else None
            hosts = ",".join(f"127.0.0.1:{each}" for each in dict.fromkeys((broker.port, port)))
            connection = await penstock.connect(url_of(f"amqp://guest:guest@{hosts}/", protocol, **QUICK))
            await connection.declare_queue("orders")
            publisher = connection.publisher("orders", window=WINDOW)
            sending = asyncio.create_task(self.send(publisher, broker, at, after))
            await asyncio.to_thread(broker.process.wait)
            again = await (taking_over or asyncio.to_thread(begin))
            receipts = await sending
            assert {receipt.state for receipt in receipts} == {"confirmed"}
            await connection.close()
            return await self.left(again, protocol)

    async def send(
        self, publisher: penstock.Publisher, broker: BrokerProcess, at: int, after: float
    ) -> list[penstock.Receipt]:
        receipts: list[penstock.Receipt] = []
        kill = threading.Timer(after, broker.process.send_signal, (signal.SIGKILL,))
        for number in range(MESSAGES):
            receipts.append(await publisher.publish(b"%d" % number))
            if number == at:  # Its confirm has come from the disk: the next ones are on their way there.
                receipts[at].add_callback(lambda receipt: kill.start())
        for receipt in receipts:
            await receipt
        return receipts

    async def left(self, broker: BrokerProcess, protocol: str) -> list[int]:
        found = []
        async with (
            penstock.connect(url_of(broker.url, protocol)) as connection,
            connection.receiver("orders") as receiver,
        ):
            while (message := await receiver.receive(timeout=PATIENCE if len(found) < MESSAGES else 1)) is not None:
                found.append(int(message.body))
                await message.accept()
        return found


@pytest.mark.slow
@both_protocols
async def test_messages_around_a_kill_are_there_once_and_in_order(
    tmp_path: Path, protocol: str, kill_rounds: int
) -> None:
    for round in range(kill_rounds):
        folder = tmp_path / str(round)
        folder.mkdir()
        assert await Killed(folder).run(protocol, round) == list(range(MESSAGES)), f"round {round}"


@pytest.mark.slow
@needs_postgres
@pytest.mark.parametrize(
    "has_standby", [pytest.param(False, id="restart", marks=pytest.mark.long), pytest.param(True, id="standby")]
)
@both_protocols
async def test_messages_around_a_kill_are_in_postgresql_once_and_in_order(
    tmp_path: Path, protocol: str, has_standby: bool, kill_rounds: int
) -> None:
    with cluster() as server:
        for round in range(kill_rounds):
            store = server.url(schema=some_name("store"))
            found = await Killed(tmp_path, "--store", store, has_standby=has_standby).run(protocol, round)
            assert found == list(range(MESSAGES)), f"round {round}"
