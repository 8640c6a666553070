"""Addresses that the broker listens on."""

from __future__ import annotations

import select
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from tests.support.brokers import serving
from tests.support.raw_client import open_peer


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_broker_listens_on_ipv6_if_configured(tmp_path: Path) -> None:
    with serving(tmp_path, listen=("[::1]:0", "127.0.0.1:0")) as broker:
        assert broker.addresses[0].startswith("amqp://[::1]:")
        for address, host in zip(broker.addresses, ("::1", "127.0.0.1"), strict=True):
            with open_peer((host, int(address.rpartition(":")[2]))) as peer:
                assert peer.is_well(), "guest may log in from this machine"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
async def test_url_of_a_broker_has_an_ipv6_address_in_brackets() -> None:
    async with penstock.Broker(listen="[::1]:0") as broker:
        assert broker.url == f"amqp://[::1]:{broker.addresses[0][1]}/"


CROWD = 400


@pytest.mark.skipif(
    int(Path("/proc/sys/net/core/somaxconn").read_text()) < CROWD if sys.platform == "linux" else True,
    reason="the kernel queues fewer sockets",
)
def test_clients_that_connect_while_the_broker_is_busy_are_queued_and_served(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, ExitStack() as stack:
        broker.pause()
        clients = [stack.enter_context(socket.socket()) for _ in range(CROWD)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex((broker.host, broker.port))
        for client in clients:
            poll = select.poll()
            poll.register(client, select.POLLOUT)
            assert poll.poll(10_000), "it is not queued: the kernel tries again after seconds"
        broker.go_on()
        for client in clients:
            client.settimeout(30)
            client.sendall(b"AMQP\x00\x00\x09\x01")
        assert all(client.recv(1) == b"\x01" for client in clients)
