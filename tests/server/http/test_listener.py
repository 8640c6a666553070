"""The HTTP listener: its port, and the first connections."""

from __future__ import annotations

import asyncio
import urllib.request

import penstock
from tests.support.brokers import BrokerProcess, penstock_command
from tests.support.http_client import Web


def test_port_that_is_in_use_is_reported_in_a_sentence(served: BrokerProcess, web: Web) -> None:
    done = penstock_command("serve", "--memory", "--listen", "127.0.0.1:0", "--http", web.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the port is in use" in done.stderr
    wrong = penstock_command("serve", "--memory", "--listen", "127.0.0.1:0", "--http", "8080")
    assert wrong.stderr == "penstock: --http 8080 is not HOST:PORT, such as 127.0.0.1:5672, or unix:PATH\n"


async def test_requests_that_come_while_the_application_is_loaded_are_all_answered() -> None:
    async with penstock.Broker(listen="127.0.0.1:0", http="127.0.0.1:0") as broker:
        asked = [asyncio.to_thread(urllib.request.urlopen, broker.http_url) for _ in range(5)]
        for answer in await asyncio.gather(*asked):
            assert answer.status == 200
            answer.close()


async def test_connection_that_comes_while_the_broker_stops_is_closed() -> None:
    async with penstock.Broker(listen="127.0.0.1:0", http="127.0.0.1:0") as broker:
        reader, writer = await asyncio.open_connection(*broker.http_addresses[0])
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
