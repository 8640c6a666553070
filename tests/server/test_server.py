"""A broker in one process or two: its resources, and its end."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from pathlib import Path

import pytest
from pamqp import commands
from typing_extensions import override

import penstock
import pyspark_amqp
import pyspark_penstock
from penstock.access.password_hash import file_password
from penstock.access.user import FILE, User
from penstock.connections.engine import Protocol
from penstock.errors import StartError, StoreError
from penstock.server.addresses import parse_address
from penstock.server.node import node_name, whole_machine
from penstock.server.shard import Shard
from penstock.settings.config import Settings
from penstock.settings.start import DEFAULT_HTTP
from tests.support.brokers import GRACE, BrokerProcess, in_process, serving
from tests.support.commands import refused
from tests.support.raw_client import Peer, open_peer, publish_frames


def test_input_after_a_close_does_not_cost_the_client_the_answer(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker) as peer:
        peer.send(0, commands.Connection.Close(200, "", 0, 0))
        peer.expect(0, commands.Connection.CloseOk)
        assert peer.is_closed()
        for _ in range(100):  # A socket that was closed altogether would be reset by the first of them.
            peer.say(publish_frames(1, "", "q", b"x" * 10_000))


def test_second_broker_on_the_same_port_says_so_and_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        place = f"127.0.0.1:{broker.port}"
        assert refused("serve", "--memory", "--listen", place).startswith(
            f"cannot listen on {place}: the port is in use"
        )
        assert broker.alive()


def test_second_broker_on_the_same_data_names_the_owner_and_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker:
        said = refused("serve", "--listen", "127.0.0.1:0", "--data", str(data))
        assert said == f"data directory '{data}' is in use by another broker (process {broker.pid})"
        assert broker.alive()


def test_data_directory_is_free_again_when_its_broker_is_gone(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker:
        broker.process.kill()
        broker.process.wait(GRACE)
    with serving(tmp_path, "--data", data) as broker:
        assert broker.alive()


def test_stopping_broker_accepts_no_new_connection(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as deaf:
        broker.process.terminate()
        assert deaf.expect(0, commands.Connection.Close).reply_code == 320
        with pytest.raises(ConnectionRefusedError):
            Peer(broker)


def test_broker_that_stops_writes_no_traceback(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as peer:
        broker.process.terminate()
        assert peer.refused(0)[0] == 320
        assert broker.process.wait(GRACE) == 0
        assert "Traceback" not in broker.log()


async def test_broker_in_process_starts_and_leaves_without_a_trace() -> None:
    async with in_process() as broker:
        assert re.fullmatch(r"amqp://127\.0\.0\.1:\d+/", broker.url)
        address = broker.addresses[0]
        connected = socket.create_connection(address)
        connected.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@pytest.mark.parametrize(
    ("listen", "settings", "warned"),
    [
        ("0.0.0.0:0", Settings(), True),
        ("127.0.0.1:0", Settings(), False),
        ("0.0.0.0:0", Settings(users=[User("ada", file_password("a"), (), FILE)]), False),
    ],
)
async def test_broker_for_other_machines_without_users_says_so(
    listen: str, settings: Settings, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        async with penstock.Broker(listen, settings=settings) as broker:
            port = broker.addresses[0][1]
    sentence = (
        f"listening on 0.0.0.0:{port}, but the only user is guest, who can log in from this machine only; "
        "add one for others: penstock users add NAME"
    )
    assert [record.getMessage() for record in caplog.records] == ([sentence] if warned else [])


async def test_broker_starts_without_a_console_when_its_port_is_in_use(caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as held, socket.socket() as free:
        with contextlib.suppress(OSError):  # Somebody else has it.
            held.enter_context(socket.create_server(parse_address(DEFAULT_HTTP)))
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with caplog.at_level(logging.INFO, "penstock"):
            async with penstock.Broker(listen=f"127.0.0.1:{port}") as broker:
                assert broker.http_addresses == []
                assert broker.console_problem == "cannot serve HTTP on 127.0.0.1:15672: the port is in use"
        assert "the console is not served: cannot serve HTTP on 127.0.0.1:15672: the port is in use" in caplog.text


class FailingShard(Shard):
    """A shard whose store cannot be closed."""

    @override
    async def close(self) -> None:
        await super().close()
        raise StoreError("the store cannot be closed")


class FailingBroker(penstock.Broker):
    @override
    def _make_shard(
        self, settings: Settings, data: str | Path | None, standby: bool, protocols: list[Protocol] | None
    ) -> Shard:
        return FailingShard(node_name(), settings, data, whole_machine(), standby, protocols)


async def test_error_of_a_stop_is_raised_after_everything_is_released(tmp_path: Path) -> None:
    broker = FailingBroker("127.0.0.1:0", tmp_path)
    await broker.start()
    with pytest.raises(StoreError, match="the store cannot be closed"):
        await broker.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(broker.addresses[0])
    async with penstock.Broker("127.0.0.1:0", tmp_path) as again:
        assert again.storage_location == broker.storage_location


def test_url_of_an_unstarted_broker_raises_with_advice() -> None:
    broker = penstock.Broker(listen="127.0.0.1:0")
    for read in (lambda: broker.url, lambda: broker.http_url):
        with pytest.raises(StartError, match="has no URL before it is started: use `async with broker:`"):
            read()


async def test_url_of_an_api_that_is_off_says_how_to_have_one() -> None:
    async with in_process(http="off") as broker:
        with pytest.raises(StartError, match="has no HTTP API: give it http="):
            _ = broker.http_url


def test_names_that_are_imported_when_asked_for_are_listed() -> None:
    for package in (penstock, pyspark_penstock, pyspark_amqp):
        assert {*package.__all__} <= {*dir(package)}
