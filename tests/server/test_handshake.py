"""Handshakes, complete and broken off; tests/compat/test_login.py has those of RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually, in_process, serving, settings_file
from tests.support.raw_client import GREETING, GoneError, Peer, open_peer, peer_of


@pytest.fixture
def neighbour(broker: BrokerProcess) -> Iterator[Peer]:
    """Another connection, which must notice nothing."""
    with open_peer(broker) as peer:
        yield peer
        assert peer.is_well()


def test_protocol_header_may_come_byte_by_byte(broker: BrokerProcess) -> None:
    with peer_of(broker) as peer:
        for octet in GREETING:
            peer.say(bytes([octet]))
        start = peer.expect(0, commands.Connection.Start)
        assert (start.version_major, start.version_minor) == (0, 9)
        assert start.server_properties["product"] == "Penstock"
        assert str(start.server_properties["cluster_name"]).startswith("penstock@")
        assert start.server_properties["penstock:hold-deadline"] == 25_000
        capabilities = start.server_properties["capabilities"]
        assert isinstance(capabilities, dict)
        assert {"publisher_confirms", "basic.nack", "connection.blocked", "consumer_cancel_notify"} <= set(capabilities)


def test_client_that_does_not_know_of_refusals_has_its_socket_closed(broker: BrokerProcess) -> None:
    def refused_and_told() -> bool:
        with peer_of(broker) as peer:
            peer.log_in(user="nobody", properties={"product": "old"})
            with pytest.raises(GoneError):
                peer.read_frame()
        return bool(broker.logged("login refused: user 'nobody' is not known"))

    eventually(refused_and_told, "the refusal in the log, which has one line a second for all of them")


def test_password_is_never_written_to_the_log(broker: BrokerProcess) -> None:
    def refused_and_told() -> bool:
        with peer_of(broker) as peer:
            peer.log_in(user="guest", password="hush-hush")
            assert peer.refused(0)[0] == 403
        return bool(broker.logged("user 'guest' gave a wrong password"))

    eventually(refused_and_told, "the refusal in the log, which has one line a second for all of them")
    assert "hush-hush" not in broker.log()


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "named"),
    [(60000, 131072, "channel_max=60000"), (0, 131073, "frame_max=131073"), (0, 100, "frame_max=100")],
)
def test_tune_ok_beyond_the_offered_limits_is_refused_with_530(
    broker: BrokerProcess, channel_max: int, frame_max: int, named: str
) -> None:
    with peer_of(broker) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, commands.Connection.TuneOk(channel_max, frame_max, 0))
        code, text = peer.refused(0)
        assert (code, named in text) == (530, True), text


@pytest.mark.parametrize(
    ("channel", "method", "said"),
    [
        (0, commands.Connection.TuneOk(0, 0, 0), "not expected"),
        (0, commands.Connection.Open("/"), "not expected"),
        (1, commands.Channel.Open(), "before the connection was open"),
    ],
)
def test_method_out_of_turn_in_the_negotiation_is_503(
    broker: BrokerProcess, channel: int, method: commands.Connection.Open, said: str
) -> None:
    with peer_of(broker) as peer:
        peer.greet()
        peer.send(channel, method)
        code, text = peer.refused(0)
        assert (code, said in text) == (503, True), text


async def test_handshake_that_is_never_finished_is_dropped() -> None:
    broker = in_process()
    limits = broker.driver.connection_limits
    limits.change(handshake_s=600)

    def wait_for_the_end() -> None:
        with peer_of(broker) as silent, peer_of(broker) as halfway, open_peer(broker) as neighbour:
            halfway.log_in()
            halfway.expect(0, commands.Connection.Tune)
            limits.change(handshake_s=1)  # Not before all are as far as they get, however long that took.
            assert silent.is_closed()
            assert halfway.is_closed()
            assert neighbour.is_well()

    async with broker:
        await asyncio.to_thread(wait_for_the_end)


async def test_sockets_without_a_login_are_closed_beyond_their_bound() -> None:
    broker = in_process()
    broker.driver.connection_limits.change(handshakes_address_max=2)
    broker.driver.connection_limits.change(handshake_s=600)  # None of them is closed for its time.

    def crowd() -> None:
        with open_peer(broker) as neighbour, peer_of(broker) as first, peer_of(broker) as second:
            with peer_of(broker) as third, peer_of(broker) as fourth:
                sockets = (first, second, third, fourth)  # Which ones is a matter of how long they have been there.
                eventually(lambda: sum(each.is_closed(0.1) for each in sockets) == 2, "two of them are closed")
            assert neighbour.is_well()
        with open_peer(broker) as late:
            assert late.is_well()

    async with broker:
        await asyncio.to_thread(crowd)


def test_configured_user_logs_in_and_guest_does_not(tmp_path: Path) -> None:
    options = settings_file(tmp_path, '[broker]\nvhosts = ["/", "moon"]\n\n[users]\nada = "lovelace"\n')
    with serving(tmp_path, *options) as broker:
        with peer_of(broker) as peer:
            peer.open(user="ada", password="lovelace", vhost="moon")
        with peer_of(broker) as peer:
            peer.log_in()
            assert peer.refused(0)[0] == 403
