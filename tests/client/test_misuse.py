"""Misuse of the client and unusual input: one sentence each, and the connection stays usable."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import penstock
import penstock.sync
from tests.client.conversations import both_protocols, depth_of, fresh, received, until, url_of
from tests.support.brokers import BrokerProcess, serving

BLOCKING_FORK = """
import os, penstock, penstock.sync
with penstock.sync.connect({url!r}) as connection:
    connection.declare_queue({queue!r}, exclusive=True)
    publisher = connection.publisher({queue!r})
    publisher.send(b"before")
    child = os.fork()
    if child == 0:
        for call in (lambda: publisher.send(b"child"), lambda: connection.declare_queue("other")):
            try:
                call()
            except penstock.ConnectionLost as error:
                print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(publisher.send(b"after").state, connection.delete_queue({queue!r}))
"""
ASYNCHRONOUS_FORK = """
import asyncio, os, penstock
async def main():
    async with penstock.connect({url!r}) as connection:
        await connection.declare_queue({queue!r}, exclusive=True)
        publisher = connection.publisher({queue!r})
        await publisher.send(b"before")
        child = os.fork()
        if child == 0:
            for call in (lambda: publisher.try_publish(b"child"), lambda: publisher.try_publish(b"again")):
                try:
                    call()
                except penstock.ConnectionLost as error:
                    print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print((await publisher.send(b"after")).state, await connection.delete_queue({queue!r}))
asyncio.run(main())
"""


@both_protocols
@pytest.mark.parametrize("program", [BLOCKING_FORK, ASYNCHRONOUS_FORK], ids=["blocking", "asyncio"])
def test_connection_ends_in_a_forked_process_and_continues_in_the_parent(
    broker_url: str, protocol: str, program: str
) -> None:
    text = program.format(url=url_of(broker_url, protocol), queue=fresh())
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert all("it belongs to the process that opened it; connect again after a fork" in line for line in lines[:2])
    assert lines[2] == "confirmed 2"


async def test_connection_of_another_event_loop_is_refused(connection: penstock.Connection, queue: str) -> None:
    publisher = connection.publisher(queue)
    errors: list[str] = []

    async def elsewhere() -> None:
        for call in (publisher.send(b"x"), connection.declare_queue("other")):
            try:
                await call
            except RuntimeError as error:
                errors.append(str(error))

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert errors == ["a connection belongs to the event loop in which it was opened"] * 2
    assert (await publisher.send(b"here")).state == "confirmed"
    assert await received(connection, queue) == [b"here"]


@both_protocols
@pytest.mark.parametrize("module", ["uvloop", "anyio"])
def test_connection_works_under_other_loops(broker_url: str, protocol: str, module: str) -> None:
    found = pytest.importorskip(module)

    async def main() -> str:
        async with penstock.connect(url_of(broker_url, protocol)) as connection:
            queue = await connection.declare_queue(fresh(), exclusive=True)
            result = await connection.publisher(queue).send_many(b"x" for _ in range(3000))
            assert result.ok
            return (await connection.publisher(queue).send(b"last")).state

    assert found.run(main()) == "confirmed" if module == "uvloop" else found.run(main) == "confirmed"


@both_protocols
async def test_message_larger_than_the_window_passes_alone(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, producerWindowSize=10)) as connection:
        queue = await connection.declare_queue(fresh(), exclusive=True)
        publisher = connection.publisher(queue)
        first, second = await publisher.publish(b"x" * 100), publisher.try_publish(b"y")
        assert isinstance(second, penstock.Blocked)
        assert second.cause == "producerWindowSize"
        await first
        await publisher.send(b"y")
        assert await depth_of(connection, queue) == 2


async def test_message_larger_than_the_broker_takes_is_not_sent(broker_url: str) -> None:
    async with penstock.connect(url_of(broker_url, "amqp10", producerWindowSize=-1)) as connection:
        queue = await connection.declare_queue(fresh(), exclusive=True)
        publisher = connection.publisher(queue)
        await publisher.send(b"small")
        with pytest.raises(penstock.MessageTooLarge, match=r"bytes is larger than the \d+ that the broker takes"):
            await publisher.send(bytes(128 * 1024 * 1024 + 1))
        assert (await publisher.send(b"small")).state == "confirmed"


@both_protocols
async def test_callback_that_raises_is_logged(broker_url: str, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(receipt: penstock.Receipt) -> None:
        raise RuntimeError(f"this callback fails: {receipt.state}")

    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        publisher = connection.publisher(await connection.declare_queue(fresh(), exclusive=True))
        receipt = await publisher.publish(b"x")
        receipt.add_callback(fail)
        await publisher.send(b"y")
        assert (await receipt).state == "confirmed"
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.name for record in failed] == ["penstock"]
    assert "this callback fails: confirmed" in str(failed[0].exc_info[1])


@both_protocols
async def test_send_after_close_is_refused(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        publisher = connection.publisher(await connection.declare_queue(fresh(), exclusive=True))
        await publisher.close()
        with pytest.raises(penstock.LinkClosed, match="the publisher is closed"):
            await publisher.send(b"x")
        other = connection.publisher(await connection.declare_queue(fresh(), exclusive=True))
    with pytest.raises((penstock.LinkClosed, penstock.ConnectionLost), match="closed"):
        await other.send(b"x")


async def test_publisher_whose_channel_is_closed_during_a_send_reports_the_reason(
    connection: penstock.Connection,
) -> None:
    publisher = connection.publisher(exchange="nowhere", routing_key="k")
    with pytest.raises((penstock.LinkClosed, penstock.ConnectionLost), match="nowhere"):
        await publisher.send(b"x")
    queue = await connection.declare_queue(fresh(), exclusive=True)
    assert (await connection.publisher(queue).send(b"y")).state == "confirmed"


async def test_hundred_thousand_refused_messages_are_listed(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=1, overflow="reject")
    publisher = connection.publisher(queue)
    await publisher.send(b"the only one")
    result = await publisher.send_many(b"x" for _ in range(100_000))
    assert (result.confirmed, result.refused_count, result.unknown) == (0, 100_000, 0)
    assert [item.index for item in result.refused] == list(range(100_000))
    assert await connection.delete_queue(queue) == 1


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("own")) as process:
        yield process


BODY = bytes(10_000)
PILE = 3000
"""Messages that together are more than sockets and client hold for a broker that does not read."""
WIDE = {"window": PILE, "producerWindowSize": -1}


@both_protocols
async def test_broker_that_stops_reading_stops_publishers(own_broker: BrokerProcess, protocol: str) -> None:
    async with penstock.connect(url_of(own_broker.url, protocol, **WIDE)) as connection:
        publisher = connection.publisher(await connection.declare_queue(fresh(), exclusive=True))
        await publisher.send(b"first")
        result = penstock.SendResult()
        os.kill(own_broker.pid, signal.SIGSTOP)
        async with asyncio.TaskGroup() as group:
            group.create_task(publisher.send_many((BODY for _ in range(PILE)), result=result))
            try:
                await until(lambda: (found := publisher.blocked) is not None and found.cause in ("socket", "credit"))
                assert result.taken < PILE
                with pytest.raises(penstock.FlowControlTimeout):
                    await publisher.send(b"x", timeout=0.1)
            finally:
                os.kill(own_broker.pid, signal.SIGCONT)
        assert (result.confirmed, result.taken) == (PILE, PILE)


@both_protocols
def test_broker_that_stops_reading_stops_blocking_calls(own_broker: BrokerProcess, protocol: str) -> None:
    with penstock.sync.connect(url_of(own_broker.url, protocol, **WIDE)) as connection:
        publisher = connection.publisher(connection.declare_queue(fresh(), exclusive=True))
        publisher.send(b"first")
        receipts = []
        os.kill(own_broker.pid, signal.SIGSTOP)
        try:
            while isinstance(found := publisher.try_publish(BODY), penstock.Receipt):
                receipts.append(found)
            assert found.cause in ("socket", "credit")
            assert len(receipts) < PILE
            with pytest.raises(penstock.FlowControlTimeout):
                publisher.send(b"x", timeout=0.1)
        finally:
            os.kill(own_broker.pid, signal.SIGCONT)
        assert publisher.drain()
        assert {receipt.state for receipt in receipts} == {"confirmed"}
