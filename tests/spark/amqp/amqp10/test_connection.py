"""Logins, opens and idle time-outs, with scripts and with a real broker; every failure is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.client import ConnectError, ConnectionClosed, LoginRefused, Parameters
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.frames import AMQP_HEADER, HEADER_OCTETS, frame
from pyspark_amqp.amqp10.connection import Connection
from pyspark_amqp.amqp10.errors import EndedByBroker
from pyspark_amqp.amqp10.login import chosen
from tests.support.amqp_peers import Peer as Broker
from tests.support.certificates import localhost, serving_tls
from tests.support.scripted_amqp10 import Amqp10Peer
from tests.support.scripted_server import Peer, played


def fails(script: Callable[[Amqp10Peer], None], user: str = "guest") -> ConnectError:
    """Return the error of connecting to a peer that plays `script`."""
    with played(lambda peer: script(Amqp10Peer(peer))) as where, pytest.raises(ConnectError) as caught:
        Connection(where._replace(user=user))
    return caught.value


def until_its_end(parameters: Parameters, pause: float) -> None:
    """Connect, say that the connection is open, and read until an error."""
    connection = Connection(parameters)
    try:
        connection.send(frame(0))
        while True:
            connection.read(min(connection.beat(), pause))
    finally:
        connection.close()


def where(broker: Broker) -> Parameters:
    return Parameters(port=broker.port)


@pytest.mark.parametrize(
    ("offered", "user", "certificate", "mechanism"),
    [
        ("EXTERNAL PLAIN ANONYMOUS", "ada", False, "PLAIN"),
        ("EXTERNAL PLAIN ANONYMOUS", "ada", True, "PLAIN"),
        ("EXTERNAL ANONYMOUS", "ada", True, "EXTERNAL"),
        ("EXTERNAL PLAIN ANONYMOUS", "", True, "EXTERNAL"),
        ("EXTERNAL PLAIN ANONYMOUS", "", False, "ANONYMOUS"),
        ("EXTERNAL ANONYMOUS", "ada", False, None),
        ("PLAIN", "", True, None),
    ],
)
def test_mechanism_follows_from_user_and_certificate(
    offered: str, user: str, certificate: bool, mechanism: str | None
) -> None:
    assert chosen(offered.split(), user, certificate) == mechanism


def test_login_as_user_and_as_nobody(ours: Broker) -> None:
    for user in ("guest", ""):
        connection = Connection(where(ours)._replace(user=user))
        assert connection.session.links == []
        connection.close()
        connection.close()
        with pytest.raises(ConnectionClosed, match="the client closed it"):
            connection.read(0)


def test_login_by_a_certificate(tmp_path: Path) -> None:
    authority = localhost(tmp_path)
    authority.issue("visitor", "guest@example.org", common_name="guest")
    with serving_tls(tmp_path) as broker:
        parameters = Parameters("localhost", broker.tls_port, user="", tls=authority.trusting("visitor"))
        Connection(parameters, certificate=True).close()


def test_wrong_password_and_virtual_host_are_refused(ours: Broker) -> None:
    with pytest.raises(LoginRefused, match="the broker refuses guest; check user and password"):
        Connection(where(ours)._replace(password="wrong"))
    with pytest.raises(LoginRefused, match="nowhere"):
        Connection(where(ours)._replace(virtual_host="nowhere"))


def test_logins_that_do_not_fit_are_told() -> None:
    error = fails(lambda peer: peer.offer("GSSAPI"))
    assert "offers the logins GSSAPI, and here only PLAIN would do" in error.text
    error = fails(lambda peer: peer.offer("GSSAPI"), user="")
    assert "only EXTERNAL with a certificate and ANONYMOUS would do" in error.text
    assert "cannot log anybody in now (outcome 4 of SASL)" in fails(lambda peer: peer.greet(4)).text


def test_server_of_another_protocol_is_told() -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.peer.hear(HEADER_OCTETS)
        peer.peer.socket.sendall(b"AMQP\x00\x00\x09\x01")

    assert "does not speak AMQP 1.0, but answers b'AMQP\\x00\\x00\\t\\x01'" in fails(script).text
    assert "the broker sends sasl-outcome where sasl-mechanisms was due" in fails(out_of_turn).text
    assert "hung up before the login was done" in fails(lambda peer: None).text


def out_of_turn(peer: Amqp10Peer) -> None:
    peer.peer.hear(HEADER_OCTETS)
    peer.peer.socket.sendall(b"AMQP\x03\x01\x00\x00")
    peer.say(spec.SASL_OUTCOME, code=0)
    peer.hear_goodbye()


def test_broker_that_closes_says_why() -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.greet()
        assert not peer.frame()
        error = composite(spec.ERROR, condition="amqp:connection:forced", description="a new version")
        peer.say(spec.CLOSE, error=error)
        peer.hear_goodbye()

    text = r"ended the connection: a new version \(amqp:connection:forced\)"
    with played(lambda peer: script(Amqp10Peer(peer))) as parameters, pytest.raises(EndedByBroker, match=text):
        until_its_end(parameters, 1)


def test_broker_that_wants_signs_of_life_gets_them() -> None:
    heard: list[int] = []

    def script(peer: Amqp10Peer) -> None:
        peer.greet(idle_time_out=100)
        while peer.heartbeats < 3:
            assert not peer.frame()
            peer.heartbeats += 1
        heard.append(peer.heartbeats)
        peer.say(spec.CLOSE)

    text = "it gives no reason"
    with played(lambda peer: script(Amqp10Peer(peer))) as parameters, pytest.raises(EndedByBroker, match=text):
        until_its_end(parameters, 1)
    assert heard == [3], "one was sent by the test itself"


def test_broker_that_falls_silent_is_given_up_after_two_heartbeats() -> None:
    def script(peer: Peer) -> None:
        Amqp10Peer(peer).greet()
        while peer.socket.recv(4096):
            pass

    text = "nothing has come for two heartbeats of 1 s"
    with played(script) as parameters, pytest.raises(ConnectionClosed, match=text):
        until_its_end(parameters._replace(heartbeat=1), 1)


@pytest.mark.parametrize(
    "octets", [b"\x00\x00\x00\x07\x02\x00\x00\x00", b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x99\x45", AMQP_HEADER]
)
def test_broken_protocol_ends_the_connection(octets: bytes) -> None:
    def script(peer: Peer) -> None:
        script = Amqp10Peer(peer)
        script.greet()
        assert not script.frame()
        peer.socket.sendall(octets)
        while peer.socket.recv(4096):
            pass

    with played(script) as parameters, pytest.raises(ConnectionClosed, match="the broker broke the protocol: "):
        until_its_end(parameters, 1)
