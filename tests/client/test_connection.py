"""A connection: against a real broker, and against a peer that does what a real one seldom does."""

from __future__ import annotations

import ssl
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from penstock.client import ClientError, ConnectError, Connection, ConnectionClosed, Parameters, Timeout
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.scripted_server import PATIENCE, Peer, played
from tests.support.stalls import undisturbed
from tests.support.tls_relay import TlsRelay, make_certificate


def test_closed_connection_says_so(broker_url: str) -> None:
    connection = Connection(broker_url)
    channel = connection.channel()
    connection.close()
    connection.close()
    channel.close()
    with pytest.raises(ConnectionClosed, match="the client closed it"):
        channel.queue_declare()
    with pytest.raises(ConnectionClosed, match="the client closed it"):
        connection.channel()


def test_channel_numbers_are_used_again_and_run_out() -> None:
    def script(peer: Peer) -> None:
        peer.greet(channel_max=2)
        for number in (1, 2, 1, 2):
            kind, channel, payload = peer.frame()
            assert (kind, channel, payload[:4]) == (1, number, spec.CHANNEL_OPEN.to_bytes(4, "big"))
            peer.say(spec.CHANNEL_OPEN_OK, number)
            if number == 1:
                continue
            assert peer.frame()[1] == 1
            peer.say(spec.CHANNEL_CLOSE_OK, 1)
            break
        assert peer.frame()[1] == 1
        peer.say(spec.CHANNEL_OPEN_OK, 1)
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        first = connection.channel()
        connection.channel()
        with pytest.raises(ClientError, match="all 2 channels"):
            connection.channel()
        first.close()
        assert connection.channel().number == 1


def test_broker_that_closes_the_connection_is_heard_with_its_reason() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.say(spec.CONNECTION_CLOSE, 0, reply_code=320, reply_text="CONNECTION_FORCED - shutdown")
        while peer.frame()[2] != spec.CONNECTION_CLOSE_OK.to_bytes(4, "big"):
            pass

    with played(script) as where:
        connection = Connection(where)
        channel = connection.channel()
        with pytest.raises(ConnectionClosed, match=r"CONNECTION_FORCED - shutdown \(320\)"):
            channel.queue_declare()
        assert "closed" in repr(connection)


def test_connection_that_breaks_is_told_from_one_that_is_closed() -> None:
    with played(Peer.open_channel) as where:
        channel = Connection(where).channel()
        with pytest.raises(ConnectionClosed) as caught:
            channel.receive(PATIENCE)
        assert caught.value.code is None


DELIVER = method_frame(1, spec.BASIC_DELIVER, consumer_tag="c", delivery_tag=1).hex()


@pytest.mark.parametrize(
    "octets",
    [
        "01 0001 00000004 00630001 ce",  # an unknown method
        "01 0001 00000003 003c00 ce",  # half a method
        "03 0001 00000001 00 ce",  # a body without a message
        "07 0001 00000000 ce",  # an unknown kind of frame
        "02 0000 00000000 ce",  # a header on channel 0
        "01 0001 00000000 00",  # no end mark
        "01 0001 ffffffff",  # larger than agreed
        "01 0001 00000004 0032001f ce",  # queue.purge-ok without its field
        "01 0001 00000004 005a000b ce",  # the answer to another question
        DELIVER + " 01 0001 00000004 005a000b ce",  # a method within a message
        DELIVER + " 03 0001 00000001 00 ce",  # a body before its header
        DELIVER + " 02 0001 0000000e 003c 0000 0000000000000001 0000 ce 03 0001 00000002 0000 ce",  # too long a body
        DELIVER + 2 * " 02 0001 0000000e 003c 0000 0000000000000001 0000 ce",  # two headers
        DELIVER + " 02 0001 0000000e 003c 0000 00000000ffffffff 0000 ce",  # a body larger than is taken
        DELIVER + " 07 0001 00000000 ce",  # an unknown kind of frame within a message
    ],
)
def test_broker_that_breaks_the_protocol_is_left_with_a_reason(octets: str) -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.expect(spec.QUEUE_PURGE)
        peer.socket.sendall(bytes.fromhex(octets))

    with played(script) as where:
        channel = Connection(where).channel()
        with pytest.raises(ConnectionClosed, match="the broker broke the protocol") as caught:
            channel.queue_purge("q")
        assert caught.value.code == 501


def test_why_the_broker_blocks_the_connection_is_known_while_it_does() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.say(spec.CONNECTION_BLOCKED, 0, reason="low on memory")
        peer.expect(spec.QUEUE_PURGE)
        peer.say(spec.QUEUE_PURGE_OK, message_count=7)
        peer.expect(spec.QUEUE_PURGE)
        peer.socket.sendall(bytes.fromhex("08 0000 00000000 ce"))  # a heartbeat that nobody asked for
        peer.say(spec.CONNECTION_UNBLOCKED, 0)
        peer.say(spec.QUEUE_PURGE_OK, message_count=8)
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        channel = connection.channel()
        assert channel.queue_purge("q") == 7
        assert connection.blocked == "low on memory"
        assert "blocked" in repr(connection)
        assert channel.queue_purge("q") == 8
        assert connection.blocked is None


def test_broker_that_stops_reading_is_told_with_its_reason() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.say(spec.CONNECTION_BLOCKED, 0, reason="low on memory")
        assert left.wait(PATIENCE)

    left = threading.Event()

    def give_up() -> None:
        left.clear()
        with played(script) as where, Connection(where, timeout=0.5) as connection:
            try:
                channel = connection.channel()
                with pytest.raises(Timeout, match=r"for 0\.5 s, for the broker blocks this connection: low on memory"):
                    channel.publish(bytes(16 << 20), routing_key="q")
            finally:
                left.set()

    undisturbed(give_up)


def test_connection_shows_where_it_goes_but_not_the_password(broker_url: str) -> None:
    with Connection(broker_url) as connection:
        where = Parameters.from_url(broker_url)
        assert repr(connection) == f"<Connection open <guest at {where.host}:{where.port}, virtual host />>"


def test_heartbeats_are_sent_when_they_were_asked_for() -> None:
    heard = threading.Event()

    def script(peer: Peer) -> None:
        assert peer.greet().args["heartbeat"] == 1, "the shorter of the two"
        assert peer.frame() == (spec.FRAME_HEARTBEAT, 0, b"")
        heard.set()
        peer.hear_goodbye()

    with played(script) as where, Connection(where._replace(heartbeat=1)) as connection:
        while not heard.is_set():
            assert 0 < connection.beat() <= 1
            connection.read(0.05)


def test_broker_that_is_silent_for_two_heartbeats_is_given_up() -> None:
    done = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        done.wait(PATIENCE)

    with played(script) as where:
        connection = Connection(where._replace(heartbeat=1))
        start = monotonic()
        while connection.closed is None:
            with suppress(ConnectionClosed):
                connection.read(connection.beat())
        assert str(connection.closed) == "the connection is closed: nothing has come for two heartbeats of 1 s"
        assert monotonic() - start >= 2
        done.set()


def test_connection_by_tls_to_a_certificate_that_is_trusted_and_to_none_other(broker_url: str, tmp_path: Path) -> None:
    here = Parameters.from_url(broker_url)
    certificate, key = make_certificate(tmp_path)
    relay = TlsRelay(certificate, key, here.host, here.port)
    trusting = ssl.create_default_context(cafile=str(certificate))
    by_tls = here._replace(host="localhost", port=relay.port, tls=trusting)
    with Connection(by_tls) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True)[0]
        body = bytes(range(256)) * 4096  # 1 MiB: many records, in both directions
        channel.publish(body, routing_key=queue)
        got = channel.get(queue)
        assert got is not None
        assert got.body == body
    with pytest.raises(ConnectError, match="its certificate is not trusted"):
        Connection(by_tls._replace(tls=ssl.create_default_context()))
    with pytest.raises(ConnectError, match="check that the port speaks TLS"):
        Connection(here._replace(host="localhost", tls=trusting))
