"""Rows of the table "What each call reports" of docs/how-to/client.md that no other test has.

The connection is offline for a minute after it was cut off: its first pause before another attempt is that long.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

import penstock
import penstock.sync
from penstock.client.aio import Connection
from penstock.client.blocking import Connection as BlockingConnection
from penstock.client.options import Options
from tests.client.conversations import both_protocols, fill, fresh, received, until, url_of
from tests.support.tcp_proxy import proxied

OFFLINE = {"reconnect_delay": 60, "reconnect_delay_max": 60}
FOR_GOOD = {"reconnect": "false"}


def cut(connection: Connection) -> None:
    """Cut the connection off."""
    connection._transport.abort()


async def cut_off(connection: Connection) -> None:
    """Cut the connection off, and wait until it has noticed."""
    cut(connection)
    await until(lambda: connection._transport is None)


@both_protocols
async def test_try_publish_is_blocked_while_the_connection_is_lost(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, **OFFLINE)) as connection:
        publisher = connection.publisher(await connection.declare_queue(fresh()))
        await publisher.send(b"x")
        await cut_off(connection)
        found = publisher.try_publish(b"y")
        assert isinstance(found, penstock.Blocked)
        assert found.cause == "offline"
        with pytest.raises(penstock.FlowControlTimeout, match="was not sent"):
            await publisher.send(b"y", timeout=0.05)


@both_protocols
async def test_calls_of_a_connection_lost_for_good_raise(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, **FOR_GOOD)) as connection:
        queue = await connection.declare_queue(fresh(), capacity_messages=2, hold_deadline=60)
        publisher = await fill(connection, queue)
        receiver = await connection.receiver(await connection.declare_queue(fresh()))
        waiting = [asyncio.create_task(call) for call in (publisher.send(b"w"), publisher.publish(b"w"))]
        receiving = asyncio.create_task(receiver.receive())
        await asyncio.sleep(0)
        await cut_off(connection)
        for task in (*waiting, receiving):
            with pytest.raises(penstock.ConnectionLost) as failure:
                await task
            assert failure.value.receipt is None
        with pytest.raises(penstock.ConnectionLost):
            publisher.try_publish(b"x")


@both_protocols
async def test_message_under_way_is_unknown_when_the_connection_is_lost_for_good(
    broker_url: str, protocol: str
) -> None:
    with proxied(urlsplit(broker_url).netloc) as proxy:
        connection = await penstock.connect(url_of(f"amqp://{proxy.address}", protocol, **FOR_GOOD))
        publisher = connection.publisher(await connection.declare_queue(fresh()))
        await publisher.send(b"first")
        proxy.forget(requests=False)
        receipt = await publisher.publish(b"x")
        sending = asyncio.create_task(publisher.send(b"y"))
        result = penstock.SendResult()
        many = asyncio.create_task(publisher.send_many([b"1", b"2"], result=result))
        await asyncio.sleep(0)
        await cut_off(connection)
        with pytest.raises(penstock.ConnectionLost) as failure:
            await sending
        assert failure.value.receipt.state == receipt.state == "unknown"
        with pytest.raises(penstock.ConnectionLost):
            await receipt
        await many
        assert (result.taken, result.unknown, result.confirmed) == (2, 2, 0)
        await connection.close()


async def test_cancelled_wait_for_a_receipt_changes_nothing(connection: penstock.Connection, queue: str) -> None:
    receipt = await connection.publisher(queue).publish(b"x")

    async def wait() -> None:
        await receipt

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await receipt).state == "confirmed"


async def test_send_many_that_times_out_reports_taken_and_confirmed_messages(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=10, hold_deadline=60)
    publisher, result = connection.publisher(queue), penstock.SendResult()
    with pytest.raises((penstock.FlowControlTimeout, penstock.ConfirmTimeout)):
        await publisher.send_many((b"%d" % i for i in range(100)), timeout=0.2, result=result)
    assert result.taken == result.confirmed + result.under_way
    bodies = await received(connection, queue)
    await publisher.drain()
    bodies += await received(connection, queue)
    assert bodies == [b"%d" % i for i in range(result.taken)]
    assert result.confirmed == result.taken


@both_protocols
async def test_receive_goes_on_after_a_loss_and_accepted_messages_may_come_again(
    broker_url: str, protocol: str
) -> None:
    async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01)) as connection:
        queue = await connection.declare_queue(fresh())
        await connection.publisher(queue).send(b"x")
        async with connection.receiver(queue) as receiver:
            first = await receiver.receive(5)
            cut(connection)
            first.accept()
            again = await receiver.receive(5)
            assert (again.body, again.redelivered) == (b"x", True)
            first.accept()  # It is another delivery's now: left alone.
            again.accept()


@both_protocols
async def test_drain_and_close_that_time_out_return_unfinished_messages(broker_url: str, protocol: str) -> None:
    with proxied(urlsplit(broker_url).netloc) as proxy:
        connection = await penstock.connect(url_of(f"amqp://{proxy.address}", protocol, **OFFLINE))
        publisher = connection.publisher(await connection.declare_queue(fresh()))
        await publisher.send(b"first")
        proxy.forget(requests=False)
        receipt = await publisher.publish(b"x")
        cut(connection)
        assert await publisher.drain(timeout=0.05) is False
        assert receipt.state == "on the wire"
        assert await publisher.close(timeout=0.05) == [receipt]
        assert receipt.state == "unknown"
        await connection.close()


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps."""

    jump = 0.0

    def time(self) -> float:
        return super().time() + self.jump


@both_protocols
@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_clock_that_jumps_does_no_harm_with_asyncio(broker_url: str, protocol: str, jump: float) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01)) as connection:
            queue = await connection.declare_queue(fresh())
            publisher = connection.publisher(queue)
            await publisher.send_many([b"1", b"2"])
            loop.jump = jump
            await publisher.send_many([b"3", b"4"])
            loop.jump = 0.0
            await publisher.send(b"5")
            assert await received(connection, queue) == [b"1", b"2", b"3", b"4", b"5"]

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())


@both_protocols
@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_clock_that_jumps_does_no_harm_with_blocking_calls(broker_url: str, protocol: str, jump: float) -> None:
    import time

    now = [0.0]
    with BlockingConnection(Options(url_of(broker_url, protocol), {}), lambda: time.monotonic() + now[0]) as connection:
        queue = connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        publisher.send(b"1")
        now[0] = jump
        assert publisher.send(b"2").state == "confirmed"
        now[0] = 0.0
        assert publisher.send_many([b"3", b"4"]).confirmed == 2
        with connection.receiver(queue) as receiver:
            assert [next(receiver).body for _ in range(4)] == [b"1", b"2", b"3", b"4"]
