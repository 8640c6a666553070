"""Logins and idle time-outs of AMQP 1.0, with scripted peers and with a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock.sync
from penstock.client.errors import ConnectionClosed, LoginRefused
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.client.conversations import url_of
from tests.support.certificates import localhost, serving_tls
from tests.support.scripted_amqp10 import Amqp10Peer
from tests.support.scripted_server import Peer, played


def until_its_end(port: int, **options: Any) -> None:
    """Connect, and read until an error."""
    url = f"amqp://127.0.0.1:{port}?protocol=amqp10&reconnect=false"
    with penstock.sync.connect(url, **options) as connection:
        while True:
            connection.poll(1)


def test_login_without_a_user_is_anonymous(broker_url: str) -> None:
    with penstock.sync.connect(url_of(broker_url, "amqp10"), user="") as connection:
        assert connection.protocol == "amqp10"


def test_login_by_a_certificate(tmp_path: Path) -> None:
    authority = localhost(tmp_path)
    authority.issue("visitor", "guest@example.org", common_name="guest")
    with serving_tls(tmp_path) as broker:
        tls = authority.trusting("visitor")
        url = f"amqps://localhost:{broker.tls_port}?protocol=amqp10"
        penstock.sync.connect(url, user="", tls=tls, mechanism="EXTERNAL").close()


def test_virtual_host_that_does_not_exist_is_a_refused_login(broker_url: str) -> None:
    with pytest.raises(LoginRefused, match="nowhere"):
        penstock.sync.connect(url_of(broker_url, "amqp10"), virtual_host="nowhere")


def test_broker_that_closes_reports_the_reason() -> None:
    def script(peer: Peer) -> None:
        far = Amqp10Peer(peer)
        far.greet()
        error = composite(spec.ERROR, condition="amqp:connection:forced", description="a new version")
        far.say(spec.CLOSE, error=error)
        far.hear_goodbye()

    text = r"a new version( \(amqp:connection:forced\))?$"
    with played(script) as where, pytest.raises(ConnectionClosed, match=text):
        until_its_end(where.port)


def test_broker_that_wants_heartbeats_gets_heartbeats() -> None:
    heard: list[int] = []

    def script(peer: Peer) -> None:
        far = Amqp10Peer(peer)
        far.greet(idle_time_out=100)
        while len(heard) < 3:
            assert not far.frame()
            heard.append(1)
        far.say(spec.CLOSE)

    with played(script) as where, pytest.raises(ConnectionClosed):
        until_its_end(where.port)
    assert len(heard) == 3


def test_broker_that_falls_silent_is_given_up_after_two_heartbeats() -> None:
    def script(peer: Peer) -> None:
        Amqp10Peer(peer).greet()
        while peer.socket.recv(4096):
            pass

    with played(script) as where, pytest.raises(ConnectionClosed, match="nothing has come for 2 s"):
        until_its_end(where.port, heartbeat=1)
