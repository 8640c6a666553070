"""Start of a connection: protocol headers, users, negotiated limits, virtual hosts."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pamqp import commands

from tests.support.raw_client import CAPABILITIES, GREETING, METHOD, GoneError, Peer, open_peer, peer_of, raw_frame

NO_HEADERS = [b"AMQP\x00\x00\x08\x00", b"AMQP\x00\x00\x09\x02", b"GET / HT"]
AMQPLAIN = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"


def refuses(peer: Peer) -> tuple[int, str] | None:
    """Why the connection is refused; None if its socket is closed without a word."""
    try:
        close = peer.expect(0, commands.Connection.Close)
    except GoneError:
        return None
    return close.reply_code or 0, close.reply_text or ""


def start(peer: Peer, mechanism: str, response: bytes, properties: dict[str, Any] | None = None) -> None:
    peer.greet()
    ok = commands.Connection.StartOk(properties or {"capabilities": CAPABILITIES}, mechanism, "?", "en_US")
    said = ok.marshal().replace(b"\x00\x00\x00\x01?", len(response).to_bytes(4, "big") + response)
    peer.say(raw_frame(METHOD, 0, b"\x00\x0a\x00\x0b" + said))


@pytest.mark.parametrize("greeting", NO_HEADERS)
def test_client_of_another_protocol_gets_our_protocol_header_and_is_closed(
    at: tuple[str, int], greeting: bytes
) -> None:
    with peer_of(at) as peer:
        peer.say(greeting)
        received = b""
        try:
            while data := peer.socket.recv(100):
                received += data
        except ConnectionResetError:
            pass
        assert received == GREETING


def test_announced_version_mechanisms_and_capabilities_equal_rabbitmqs(at: tuple[str, int], ours: bool) -> None:
    with peer_of(at) as peer:
        begun = peer.greet()
        assert (begun.version_major, begun.version_minor) == (0, 9)
        assert set(str(begun.mechanisms).split()) - ({"ANONYMOUS"} if ours else set()) == {"PLAIN", "AMQPLAIN"}
        assert begun.locales == "en_US"
        capabilities = begun.server_properties["capabilities"]
        assert isinstance(capabilities, dict)
        assert {name for name, true in capabilities.items() if true is True} >= {
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "authentication_failure_close",
            "consumer_priorities",
            "per_consumer_qos",
            "direct_reply_to",
        }


def test_tune_offers_the_limits_of_rabbitmq(at: tuple[str, int]) -> None:
    with open_peer(at) as peer:
        assert (peer.tune.channel_max, peer.tune.frame_max, peer.tune.heartbeat) == (2047, 131072, 60)


@pytest.mark.parametrize("response", [b"\0guest\0wrong", b"\0nobody\0guest"])
@pytest.mark.parametrize("hears", [True, False])
def test_refused_login_is_answered_if_the_client_announced_the_capability(
    at: tuple[str, int], response: bytes, hears: bool
) -> None:
    with peer_of(at) as peer:
        start(peer, "PLAIN", response, {"capabilities": {"authentication_failure_close": hears}})
        expected = "Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
        assert refuses(peer) == ((403, f"ACCESS_REFUSED - {expected}") if hears else None)


def test_amqplain_is_spoken_too(at: tuple[str, int]) -> None:
    with peer_of(at) as peer:
        start(peer, "AMQPLAIN", AMQPLAIN)
        peer.expect(0, commands.Connection.Tune)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("GSSAPI", b"x"), ("", b""), ("PLAIN", b""), ("PLAIN", b"\0guest"), ("PLAIN", b"\0a\0b\0c"), ("AMQPLAIN", b"xyz")],
)
def test_invalid_mechanism_or_response_ends_the_connection(
    at: tuple[str, int], mechanism: str, response: bytes, ours: bool
) -> None:
    """RabbitMQ closes the socket after three seconds without a word; we say why."""
    with peer_of(at) as peer:
        start(peer, mechanism, response)
        said = refuses(peer)
        if ours:
            assert said[0] == (501 if mechanism.endswith("PLAIN") else 503)
        else:
            assert said is None


@pytest.mark.parametrize(
    ("channel_max", "frame_max"), [(2047, 4095), (2047, 100), (2047, 131073), (2048, 131072)], ids=str
)
def test_tune_ok_beyond_the_offered_limits_is_refused(
    at: tuple[str, int], channel_max: int, frame_max: int, ours: bool
) -> None:
    """RabbitMQ closes the socket after three seconds without a word; we say why."""
    with peer_of(at) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, commands.Connection.TuneOk(channel_max, frame_max, 0))
        said = refuses(peer)
        assert (said is not None and said[0] == 530) if ours else said is None


def test_smallest_frames_are_enough_for_everything(at: tuple[str, int]) -> None:
    with open_peer(at, frame_max=4096) as peer:
        assert peer.is_well()


@pytest.mark.parametrize("vhost", ["moon", ""])
def test_missing_virtual_host_is_530(at: tuple[str, int], vhost: str) -> None:
    with peer_of(at) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, commands.Connection.TuneOk(2047, 131072, 0), commands.Connection.Open(vhost))
        assert refuses(peer) == (530, f"NOT_ALLOWED - vhost {vhost} not found")


@pytest.mark.parametrize("method", [commands.Connection.TuneOk(0, 0, 0), commands.Channel.Open()])
def test_negotiation_out_of_order_ends_the_connection(
    at: tuple[str, int], method: commands.Channel.Open, ours: bool
) -> None:
    with peer_of(at) as peer:
        peer.greet()
        peer.send(0 if isinstance(method, commands.Connection.TuneOk) else 1, method)
        said = refuses(peer)
        assert (said is not None and said[0] == 503) if ours else said is None


def test_login_cut_off_leaves_other_connections_alone(at: tuple[str, int], peer: Peer) -> None:
    for said in (b"", b"AMQP", GREETING, GREETING + b"\x01\x00"):
        with socket.create_connection(at) as gone:
            gone.sendall(said)
    assert peer.is_well()
