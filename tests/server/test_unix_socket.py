"""Listeners at Unix sockets: clients of this machine, files that stay behind, and paths that cannot be used."""

from __future__ import annotations

import base64
import socket
import stat
from http.client import HTTPConnection
from pathlib import Path

import pytest
from typing_extensions import override

import penstock
from penstock.client.errors import ConnectError
from penstock.errors import StartError
from penstock.server.unix_socket import UnixSocket
from penstock.settings.config import Settings
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, serving

GUEST = {"Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}"}


class UnixConnection(HTTPConnection):
    """HTTP at a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def answer_at(path: Path, wanted: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """Return status and body of the answer to a GET."""
    connection = UnixConnection(path)
    connection.request("GET", wanted, headers=headers)
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, body


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_client_of_a_unix_socket_is_guest_of_this_machine_and_is_named(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "amqp here.sock"
    with (
        serving(tmp_path, listen=(f"unix:{path}",)) as broker,
        connect(broker.url, protocol=protocol) as client,
        connect(broker.url) as onlooker,
    ):
        client.declare_queue("q")
        client.publisher("q").send(b"x")
        (row,) = [each for each in onlooker.request("list", kind="connections")["items"] if each["protocol"]]
        assert row["host"] == f"unix:{path}"
        assert row["peer_host"] == "unix"
        assert row["name"] == f"unix:{row['peer_port']} -> unix:{path}"
        delivery = client.receiver("q").receive(10)
        assert delivery is not None
        assert delivery.body == b"x"


async def test_asynchronous_client_and_http_and_probes_share_unix_sockets(tmp_path: Path) -> None:
    import asyncio

    amqp, http, probes = (tmp_path / name for name in ("amqp", "http", "probes"))
    settings = Settings(metrics_listen=f"unix:{probes}")
    async with penstock.Broker(listen=f"unix:{amqp}", http=f"unix:{http}", settings=settings) as broker:
        async with penstock.connect(broker.url) as client:
            await client.declare_queue("q")
        status, body = await asyncio.to_thread(answer_at, http, "/api/queues/%2F/q", GUEST)
        assert status == 200, body
        status, body = await asyncio.to_thread(answer_at, probes, "/metrics", {})
        assert status == 200, body
        status, body = await asyncio.to_thread(answer_at, http, "/api/overview", {})
        assert status == 401, body
    assert [path.exists() for path in (amqp, http, probes)] == [False, False, False]


def test_socket_of_a_killed_broker_is_replaced_and_that_of_a_living_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "amqp"
    with serving(tmp_path, listen=(f"unix:{path}",)) as killed:
        killed.process.kill()
        killed.process.wait()
        assert path.exists()
        with serving(tmp_path, listen=(f"unix:{path}",)) as broker:
            assert _is_served(broker)
            with pytest.raises(StartError, match="another program listens there"):
                UnixSocket(str(path), "listen").open(1)
            assert _is_served(broker)


def test_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(StartError, match=f"cannot listen on unix:{path}: there is a file that is no socket"):
        UnixSocket(str(path), "listen").open(1)
    assert path.read_text() == "mine"


def test_path_that_another_listener_has_taken_over_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "amqp"
    first, second = UnixSocket(str(path), "listen"), UnixSocket(str(path), "listen")
    first.open(1).close()
    with second.open(1):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        first.remove()
        assert path.exists()
        second.remove()
        assert not path.exists()


def test_missing_socket_and_missing_directory_are_told_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"unix:/.*/none: .*start the broker or correct the path"):
        connect(f"amqp://{str(tmp_path / 'none').replace('/', '%2F')}/")
    with pytest.raises(StartError, match=r"cannot listen on unix:.*/no/where: No such file or directory"):
        UnixSocket(str(tmp_path / "no" / "where"), "listen").open(1)


def _is_served(broker: BrokerProcess) -> bool:
    with connect(broker.url) as client:
        return client.protocol is not None
