"""Every way in which a connection can fail to come about is one clear sentence, in bounded time."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from penstock.client import ConnectError, Connection, Parameters
from penstock.wire.amqp091 import spec
from tests.support.scripted_server import Peer, played
from tests.support.stalls import undisturbed


def fails(script: Callable[[Peer], None], **options: float) -> str:
    """The error of connecting to a peer that plays `script`."""
    with played(script) as where:
        with pytest.raises(ConnectError) as caught:
            Connection(where, **options)
        assert (caught.value.host, caught.value.port) == (where.host, where.port)
    return caught.value.text


def test_broker_decides_the_frame_size_and_there_are_no_heartbeats() -> None:
    def script(peer: Peer) -> None:
        tuned = peer.greet(frame_max=8192, channel_max=3)
        assert tuned.args == {"channel_max": 3, "frame_max": 8192, "heartbeat": 0}
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        assert connection.frame_max == 8192


def test_broker_without_bounds_gets_those_of_the_client() -> None:
    def script(peer: Peer) -> None:
        assert peer.greet(frame_max=0, channel_max=0).args["frame_max"] == 131072
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        assert connection.frame_max == 131072


def test_client_says_who_it_is_and_what_it_can_do() -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.say(spec.CONNECTION_START, 0, mechanisms=b"PLAIN")
        args = peer.expect(spec.CONNECTION_START_OK).args
        assert args["response"] == b"\0guest\0guest"
        properties = args["client_properties"]
        assert isinstance(properties, dict)
        assert properties["product"] == "penstock-client"
        assert properties["capabilities"]["connection.blocked"] is True

    fails(script)


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody else gets the port meanwhile.
        port = taken.getsockname()[1]
        with pytest.raises(ConnectError, match=rf"cannot connect to 127.0.0.1:{port}: nothing listens there"):
            Connection(Parameters(port=port))


def test_name_that_is_none() -> None:
    with pytest.raises(ConnectError, match=r"cannot be resolved .* correct the host"):
        Connection("amqp://no-such-host.invalid")


def test_broker_that_stays_silent_is_given_up_in_time() -> None:
    text = fails(lambda peer: peer.hear_goodbye() if peer.hear(8) else None, connect_timeout=0.05)
    assert text.startswith("the broker is silent where an answer to the protocol header was due")


def test_broker_that_goes_silent_later_is_told_by_what_was_due() -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.say(spec.CONNECTION_START, 0, mechanisms=b"PLAIN")
        peer.hear_goodbye()

    def give_up() -> None:
        assert "where an answer to the credentials of guest was due" in fails(script, connect_timeout=1.0)

    undisturbed(give_up)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"220 mail ESMTP\r\n"]
)
def test_something_that_speaks_another_protocol(answer: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.socket.sendall(answer)

    assert fails(script).startswith("the server there does not speak AMQP 0-9-1; check the port")


def test_somebody_who_hangs_up_at_once() -> None:
    assert fails(lambda peer: None).startswith(
        "the server there closed the connection at once: it is full, no AMQP broker, or needs amqps://"
    )


def test_broker_without_plain() -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.say(spec.CONNECTION_START, 0, mechanisms=b"EXTERNAL SCRAM-SHA-256")

    assert fails(script) == "the broker offers only EXTERNAL SCRAM-SHA-256, and this client speaks only PLAIN"


@pytest.mark.parametrize("says_why", [True, False])
def test_refused_credentials(says_why: bool) -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.say(spec.CONNECTION_START, 0, mechanisms=b"PLAIN")
        peer.expect(spec.CONNECTION_START_OK)
        if says_why:
            peer.say(spec.CONNECTION_CLOSE, 0, reply_code=403, reply_text="ACCESS_REFUSED")
            peer.expect(spec.CONNECTION_CLOSE_OK)

    text = fails(script)
    assert text.startswith(
        "the broker refuses guest; check" if says_why else "the broker hung up where an answer to the"
    )


def test_virtual_host_that_is_none() -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.say(spec.CONNECTION_START, 0, mechanisms=b"PLAIN")
        peer.expect(spec.CONNECTION_START_OK)
        peer.say(spec.CONNECTION_TUNE, 0)
        peer.expect(spec.CONNECTION_TUNE_OK)
        assert peer.expect(spec.CONNECTION_OPEN).args["virtual_host"] == "/"
        peer.say(spec.CONNECTION_CLOSE, 0, reply_code=530, reply_text="NOT_ALLOWED - no such virtual host")

    assert fails(script) == "no such virtual host (530)"


def test_frame_size_below_what_every_peer_must_take() -> None:
    def script(peer: Peer) -> None:
        peer.hear(8)
        peer.say(spec.CONNECTION_START, 0, mechanisms=b"PLAIN")
        peer.expect(spec.CONNECTION_START_OK)
        peer.say(spec.CONNECTION_TUNE, 0, frame_max=1000)

    assert "frames of 1000 octets" in fails(script)


def test_real_broker_refuses_a_wrong_password_and_an_unknown_virtual_host(broker_url: str) -> None:
    where = Parameters.from_url(broker_url)
    with pytest.raises(ConnectError, match="the broker refuses guest"):
        Connection(where._replace(password="wrong"))
    with pytest.raises(ConnectError, match=r"no-such-vhost|530"):
        Connection(where._replace(virtual_host="no-such-vhost"))
