"""Internal errors of a whole broker: waiting clients get an answer, and others are unaffected.

The exceptions come from a protocol that the tests add: it fails when it is asked for its details, and cannot read what
is no UTF-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http.client import IncompleteRead

import pytest
from typing_extensions import override

import penstock
from penstock import sync
from penstock.client.errors import ControlError
from penstock.connections.connection import Connection as Served
from penstock.connections.engine import ProtocolEngine
from penstock.protocols import standard_protocols
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from tests.line_protocol.protocol import HEADER, LineEngine, LineProtocol
from tests.support.http_client import Web


class FailingEngine(LineEngine):
    """An engine that cannot tell its details, once it is told so."""

    failing = False

    @override
    def details(self) -> dict[str, object]:
        if FailingEngine.failing:
            raise LookupError("hush")
        return super().details()


class FailingProtocol(LineProtocol):
    @override
    def engine(self, connection: Served) -> ProtocolEngine:
        return FailingEngine(connection)


@pytest.fixture
async def broker() -> AsyncIterator[penstock.Broker]:
    settings = Settings(flow_log=NO_LOG, http="127.0.0.1:0")
    protocols = [*standard_protocols(), FailingProtocol()]
    async with penstock.Broker(listen="127.0.0.1:0", settings=settings, protocols=protocols) as broker:
        yield broker
        FailingEngine.failing = False


async def connect(broker: penstock.Broker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*broker.addresses[0])
    writer.write(HEADER + b"PUT q\n")
    await reader.readline()
    return reader, writer


async def test_control_and_http_answer_with_an_internal_error(
    broker: penstock.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock")
    _, writer = await connect(broker)
    FailingEngine.failing = True
    await asyncio.to_thread(ask, broker.url, broker.http_url)
    writer.close()
    FailingEngine.failing = False
    assert caplog.text.count("LookupError: hush") == 1, "one traceback for each place"


def ask(url: str, http_url: str) -> None:
    web = Web(http_url)
    for _ in range(3):
        with sync.connect(url, protocol="amqp091") as control:
            with pytest.raises(ControlError, match="broke off with an internal error \\(LookupError\\)") as failed:
                control.request("list", kind="connections")
            assert failed.value.code == 541
            assert control.request("list", kind="vhosts")
        answer = web.ask("GET", "/connections?page=1")
        assert (answer.status, answer.json["error"]) == (500, "internal_error")
        assert "broke off with an internal error (LookupError)" in answer.reason
        assert "hush" not in answer.reason
        with pytest.raises(IncompleteRead):
            web.ask("GET", "/connections")  # Its answer has begun with a good status.
        assert web.ask("GET", "/queues").status == 200


async def test_connection_whose_input_fails_gets_an_internal_error_and_is_closed(broker: penstock.Broker) -> None:
    reader, writer = await connect(broker)
    other, others = await connect(broker)
    writer.write(b"PUT \xff\n")
    told = await reader.read()
    assert b"ERROR amqp:internal-error input of [con:1(guest@127.0.0.1:" in told
    assert b"(UnicodeDecodeError)" in told
    writer.close()
    assert not other.at_eof()
    others.close()
