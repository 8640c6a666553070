"""Where the broker listens, and the virtual hosts that it has."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pamqp import commands

import penstock
from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving
from tests.support.raw_client import Peer, open_peer, peer_of


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_it_listens_on_ipv6_as_well_where_that_is_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path, listen=("[::1]:0", "127.0.0.1:0")) as broker:
        assert broker.addresses[0].startswith("amqp://[::1]:")
        for address, host in zip(broker.addresses, ("::1", "127.0.0.1"), strict=True):
            with open_peer((host, int(address.rpartition(":")[2]))) as peer:
                assert peer.is_well(), "guest may log in from this machine"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
async def test_its_url_names_an_ipv6_address_in_brackets() -> None:
    async with penstock.Broker(listen="[::1]:0") as broker:
        assert broker.url == f"amqp://[::1]:{broker.addresses[0][1]}/"


def enter(peer: Peer, vhost: str) -> tuple[int, str]:
    """Try to work in a virtual host; code and text of the refusal, 0 if there is none."""
    peer.log_in()
    peer.expect(0, commands.Connection.Tune)
    peer.send(0, commands.Connection.TuneOk(2047, 131072, 0), commands.Connection.Open(vhost))
    found = peer.read_method()[1]
    return (found.reply_code or 0, found.reply_text or "") if isinstance(found, commands.Connection.Close) else (0, "")


def test_a_virtual_host_comes_and_goes_by_command_and_its_connections_with_it(own_broker: BrokerProcess) -> None:
    with peer_of(own_broker) as early:
        assert enter(early, "/moon") == (530, "NOT_ALLOWED - vhost /moon not found")
    declared = penstock_command("declare", "vhost", "/moon", "--url", own_broker.url)
    assert declared.returncode == 0, declared.stderr
    with open_peer(own_broker, vhost="/moon") as inside, open_peer(own_broker) as outside:
        inside.declare()
        deleted = penstock_command("delete", "vhost", "/moon", "--url", own_broker.url)
        assert deleted.returncode == 0, deleted.stderr
        assert inside.refused(0) == (320, "CONNECTION_FORCED - vhost '/moon' is deleted")
        assert outside.is_well()
    with peer_of(own_broker) as late:
        assert enter(late, "/moon")[0] == 530


def test_an_argument_without_effect_is_said_once(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker) as peer:
        for _ in range(3):
            peer.declare(**{"x-queue-mode": "lazy", "x-queue-version": 2})
    said = eventually(lambda: own_broker.logged("argument x-queue-mode of a queue"), "the line")
    assert len(said) == 1
    assert len(own_broker.logged("argument x-queue-version of a queue")) == 1
