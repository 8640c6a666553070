"""Ends of a connection, as its socket gives them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from penstock.server.socket_ends import Ends, ends_of


async def accepted_ends(listening: socket.socket, client: socket.socket) -> Ends:
    """Return the ends of the connection that a listening socket accepts from a client."""
    with listening, client:
        client.connect(listening.getsockname())
        sock, _ = listening.accept()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, sock)
        ends = ends_of(transport)
        transport.close()
    return ends


async def test_ends_of_a_port_are_host_and_port() -> None:
    listening, client = socket.create_server(("127.0.0.1", 0)), socket.socket()
    own = listening.getsockname()
    ends = await accepted_ends(listening, client)
    assert ends.own == own
    assert ends.peer[0] == "127.0.0.1"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name the process in other ways")
async def test_ends_of_a_unix_socket_are_the_process_and_the_path(tmp_path: Path) -> None:
    listening, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "amqp"))
    listening.listen(1)
    ends = await accepted_ends(listening, client)
    assert ends == (("unix", os.getpid()), (f"unix:{tmp_path / 'amqp'}", 0))
