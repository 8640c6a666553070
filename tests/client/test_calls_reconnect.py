"""Lost connections of both protocols: waiting calls go on, unconfirmed messages are sent again, ends are final."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
import penstock.sync
from bench.processes import free_port
from tests.client.conversations import both_protocols, fresh, until, url_of


async def opened(url: str, is_async: bool) -> None:
    """Connect with one of the two shells."""
    if is_async:
        await penstock.connect(url)
    else:
        penstock.sync.connect(url)


class Brokers:
    """A broker on one port that is killed and started again with its data."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        command = [sys.executable, "-m", "penstock", "serve", "--listen", f"127.0.0.1:{self.port}", "--http", "off"]
        self.process = subprocess.Popen([*command, "--data", str(self.data)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().split()[:1] == ["ready"]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    found.start()
    yield found
    found.kill()


@both_protocols
async def test_sends_go_on_after_the_broker_was_killed(brokers: Brokers, protocol: str) -> None:
    async with penstock.connect(url_of(brokers.url, protocol, reconnect_delay=0.05, window=50)) as connection:
        queue = await connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        result = penstock.SendResult()
        sending = asyncio.create_task(publisher.send_many((b"%d" % i for i in range(5000)), result=result))
        await until(lambda: result.confirmed > 500)
        brokers.kill()
        brokers.start()
        await sending
        assert (result.confirmed, result.unknown) == (5000, 0)
        bodies: list[bytes] = []
        async with connection.receiver(queue) as receiver:
            while (message := await receiver.receive(0.5)) is not None:
                bodies.append(message.body)
                message.accept()
        firsts = list(dict.fromkeys(bodies))
        assert firsts == [b"%d" % i for i in range(5000)]  # At least once, and in order.


@both_protocols
async def test_send_waits_for_the_connection_and_then_reports_that_nothing_was_sent(
    brokers: Brokers, protocol: str
) -> None:
    options = {"reconnect_delay": 0.05, "flow_control_wait_failure": 0.3}
    async with penstock.connect(url_of(brokers.url, protocol, **options)) as connection:
        queue = await connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        await publisher.send(b"before")
        brokers.kill()
        await until(lambda: publisher.blocked is not None)
        with pytest.raises(penstock.FlowControlTimeout, match="the connection is lost") as failure:
            await publisher.send(b"lost")
        assert failure.value.blocked.cause == "offline"
        waiting = asyncio.create_task(publisher.send(b"waits", timeout=30))
        await asyncio.sleep(0)
        brokers.start()
        assert (await waiting).state == "confirmed"
        async with connection.receiver(queue) as receiver:
            for body in (b"before", b"waits"):
                message = await receiver.receive(5)
                assert message.body == body
                message.accept()


@both_protocols
async def test_receiver_goes_on_after_the_broker_was_killed(brokers: Brokers, protocol: str) -> None:
    async with penstock.connect(url_of(brokers.url, protocol, reconnect_delay=0.05)) as connection:
        queue = await connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        await publisher.send(b"0")
        async with connection.receiver(queue) as receiver:
            first = await receiver.receive(5)
            assert first is not None
            waiting = asyncio.create_task(receiver.receive())
            await asyncio.sleep(0)
            brokers.kill()
            brokers.start()
            again = await waiting
            assert (again.body, again.redelivered) == (b"0", True)
            first.accept()  # It belongs to the lost connection: nothing happens.
            again.accept()


@both_protocols
async def test_connection_lost_for_good_reports_unknown_messages(brokers: Brokers, protocol: str) -> None:
    connection = await penstock.connect(url_of(brokers.url, protocol, reconnect="false"))
    queue = await connection.declare_queue(fresh(), capacity_messages=2, hold_deadline=60)
    publisher = connection.publisher(queue, window=5)
    receipts = [await publisher.publish(b"0")]
    await receipts[0]
    while isinstance(found := publisher.try_publish(b"1"), penstock.Receipt):
        receipts.append(found)
    waiting = asyncio.create_task(publisher.publish(b"2"))
    await asyncio.sleep(0)
    brokers.kill()
    with pytest.raises(penstock.ConnectionLost):
        await waiting
    assert {receipt.state for receipt in receipts} <= {"confirmed", "unknown"}
    for receipt in receipts:
        if receipt.state == "unknown":
            with pytest.raises(penstock.ConnectionLost) as failure:
                await receipt
            assert failure.value.receipt is receipt
    with pytest.raises(penstock.ConnectionLost):
        publisher.try_publish(b"3")
    with pytest.raises(penstock.ConnectionLost):
        await connection.why(queue)
    await connection.close()


@both_protocols
def test_blocking_calls_connect_again(brokers: Brokers, protocol: str) -> None:
    with penstock.sync.connect(url_of(brokers.url, protocol, reconnect_delay=0.05)) as connection:
        queue = connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        publisher.send(b"0")
        brokers.kill()
        brokers.start()
        assert publisher.send(b"1").state == "confirmed"
        with connection.receiver(queue) as receiver:
            for body in (b"0", b"1"):
                message = receiver.receive(5)
                assert message.body == body
                message.accept()


@both_protocols
@pytest.mark.parametrize("is_async", [True, False])
async def test_connection_to_a_port_without_listener_names_host_and_port(protocol: str, is_async: bool) -> None:
    port = free_port()
    with pytest.raises(penstock.ConnectError, match=f"cannot connect to 127.0.0.1:{port}: nothing listens there"):
        await opened(url_of(f"amqp://127.0.0.1:{port}/", protocol), is_async)
