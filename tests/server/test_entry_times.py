"""Uncounted work: its client is named, and served later than others, through sockets.

The work comes from a protocol that the tests add: `BURN seconds` takes processor time and counts nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

import penstock
from penstock.connections.connection import Connection as Served
from penstock.connections.engine import ProtocolEngine
from penstock.driver.entry_times import KINDS, REST
from penstock.logs.ids import LONG_ENTRY
from penstock.protocols import standard_protocols
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from tests.line_protocol.protocol import HEADER, LineEngine, LineProtocol
from tests.support.brokers import eventually
from tests.support.http_client import Web
from tests.support.metrics import Samples, samples_of

BURNT_S = 0.12


def burn(seconds: float) -> None:
    """Take processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class BurningEngine(LineEngine):
    """An engine whose details take long, once it is told so."""

    slow = False

    @override
    def read(self, data: bytes) -> int:
        if not data.startswith(b"BURN"):
            return super().read(data)
        line, _, rest = data.partition(b"\n")
        burn(float(line.split()[1]))
        return len(line) + 1 + super().read(rest)

    @override
    def details(self) -> dict[str, object]:
        if BurningEngine.slow:
            burn(BURNT_S)
        return super().details()


class BurningProtocol(LineProtocol):
    @override
    def engine(self, connection: Served) -> ProtocolEngine:
        return BurningEngine(connection)


@pytest.fixture
async def broker() -> AsyncIterator[penstock.Broker]:
    settings = Settings(flow_log=NO_LOG, http="127.0.0.1:0")
    protocols = [*standard_protocols(), BurningProtocol()]
    async with penstock.Broker(listen="127.0.0.1:0", settings=settings, protocols=protocols) as broker:
        await asyncio.to_thread(Web(broker.http_url).ask, "PUT", "/queues/%2F/q", {})
        yield broker
        BurningEngine.slow = False


async def connect(broker: penstock.Broker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*broker.addresses[0])
    writer.write(HEADER + b"PUT q 1\n")
    await reader.readline()
    return reader, writer


def ask(url: str) -> tuple[list[int], Samples]:
    """Ask twice for the connections; return the statuses and the metrics."""
    web = Web(url)
    found = [web.ask("GET", "/connections?page=1").status for _ in range(2)]
    return found, samples_of(web.fetch("/metrics").text)


async def test_connection_with_uncounted_work_is_named_and_goes_on_after_a_rest(
    broker: penstock.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "penstock")
    reader, writer = await connect(broker)
    other, others = await connect(broker)
    queues = broker.driver.broker.vhosts["/"].queues
    writer.write(b"BURN %f\n" % BURNT_S)
    served = broker.driver.connections[1]
    await asyncio.to_thread(eventually, lambda: served.busy > 0, "the rest begins")
    began = time.monotonic()
    writer.write(b"PUT q later\n")
    others.write(b"PUT q now\n")
    assert (await other.readline()).startswith(b"OK")
    assert queues["q"].messages == 3
    assert served.busy == 1
    assert (await reader.readline()).startswith(b"OK")
    assert time.monotonic() - began > BURNT_S
    (record,) = [each for each in caplog.records if getattr(each, "id", "") == LONG_ENTRY]
    assert served.name() in record.getMessage()
    for each in (writer, others):
        each.close()


async def test_request_over_http_with_uncounted_work_is_counted_and_its_user_rests(
    broker: penstock.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "penstock")
    _, writer = await connect(broker)
    BurningEngine.slow = True
    began = time.monotonic()
    statuses, found = await asyncio.to_thread(ask, broker.http_url)
    assert statuses == [200, 200]
    assert time.monotonic() - began > BURNT_S * REST
    kinds = [kind for kind in KINDS if found["penstock_long_entries_total", f"kind={kind}"] > 0]
    assert len(kinds) == 1
    assert found["penstock_long_entries_seconds_total", f"kind={kinds[0]}"] > BURNT_S
    records = [each for each in caplog.records if getattr(each, "id", "") == LONG_ENTRY]
    assert records
    assert all("guest GET /api/connections" in each.getMessage() for each in records)
    writer.close()
