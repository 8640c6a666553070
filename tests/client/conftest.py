"""A broker in a process of its own, one for all tests of the client.

`PENSTOCK_TEST_URL` names a running broker instead, which may be another one: what is Penstock's own is skipped then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

import penstock
import penstock.sync
from tests.client.conversations import PROTOCOLS, fresh, url_of


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("PENSTOCK_TEST_URL")
    if given:
        yield given
        return
    data = tmp_path_factory.mktemp("data")
    command = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        ready = process.stdout.readline().split()
        assert ready[:1] == ["ready"], f"the broker said {ready} and ended with {process.poll()}"
        yield ready[1]
        process.terminate()
        assert process.wait(60) == 0


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """Each protocol of the client."""
    return str(request.param)


@pytest.fixture
async def connection(broker_url: str, protocol: str) -> AsyncIterator[penstock.Connection]:
    """A connection with asyncio, over each protocol."""
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        yield connection


@pytest.fixture
async def queue(connection: penstock.Connection) -> str:
    """A queue of that connection, which no other test has."""
    return await connection.declare_queue(fresh())


@pytest.fixture(params=["amqp091", "amqp10"])
def client(broker_url: str, request: pytest.FixtureRequest) -> Iterator[penstock.sync.Connection]:
    """A connection with blocking calls, over each protocol."""
    with penstock.sync.connect(url_of(broker_url, request.param)) as connection:
        yield connection


@pytest.fixture
def client_queue(client: penstock.sync.Connection) -> Iterator[str]:
    """A queue of ten messages, declared by the connection with blocking calls."""
    queue = client.declare_queue(fresh(), capacity_messages=10)
    yield queue
    client.delete_queue(queue)
