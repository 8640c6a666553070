"""Channels: numbers, order, and errors that close the channel or the connection."""

from __future__ import annotations

import struct

import pytest
from pamqp import base, commands

from tests.support.brokers import PATIENCE
from tests.support.raw_client import METHOD, Peer, open_peer, publish_frames, raw_frame
from tests.support.stalls import undisturbed

Open, OpenOk = commands.Channel.Open, commands.Channel.OpenOk
Close, CloseOk = commands.Channel.Close, commands.Channel.CloseOk
CLOSE = Close(200, "bye", 0, 0)
QOS = commands.Basic.Qos()


def test_number_may_be_used_again_when_its_channel_is_closed(peer: Peer) -> None:
    for _ in range(3):
        peer.ask(1, CLOSE, CloseOk)
        peer.ask(1, Open(), OpenOk)
    assert peer.is_well()


@pytest.mark.parametrize(
    ("channel", "method", "said"),
    [
        (1, Open(), "second 'channel.open' seen"),
        (7, QOS, "expected 'channel.open'"),
        (7, commands.Basic.Ack(1), "expected 'channel.open'"),
        (7, CLOSE, "expected 'channel.open'"),
        (7, CloseOk(), "expected 'channel.open'"),
        (2, commands.Connection.Open("/"), "expected 'channel.open'"),
        (0, QOS, "unexpected method in connection state running"),
        (0, Open(), "unexpected method in connection state running"),
        (0, commands.Connection.Open("/"), "unexpected method in connection state running"),
        (0, commands.Connection.TuneOk(0, 0, 0), "unexpected method in connection state running"),
    ],
)
def test_method_that_its_channel_does_not_expect_is_504(
    peer: Peer, channel: int, method: base.Frame, said: str
) -> None:
    peer.send(channel, method)
    assert peer.close_of(0) == (504, f"CHANNEL_ERROR - {said}", method.index)


@pytest.mark.parametrize(
    "method",
    [
        CloseOk(),
        OpenOk(),
        commands.Queue.DeclareOk("q", 0, 0),
        commands.Basic.GetEmpty(),
        commands.Basic.CancelOk("c"),
        commands.Confirm.SelectOk(),
        commands.Connection.Close(200, "", 0, 0),
        commands.Connection.Open("/"),
    ],
    ids=lambda method: method.name,
)
def test_method_that_no_client_sends_on_a_channel_is_503(peer: Peer, method: base.Frame) -> None:
    peer.send(1, method)
    assert peer.close_of(0) == (503, "COMMAND_INVALID - unimplemented method", method.index)


def test_channel_after_an_error_ignores_methods_until_close_ok(peer: Peer, name: str) -> None:
    peer.send(1, commands.Basic.Ack(9), commands.Queue.Declare(queue=name, exclusive=True), QOS)
    peer.say(publish_frames(1, "", name, b"x"))
    assert peer.close_of(1) == (406, "PRECONDITION_FAILED - unknown delivery tag 9", commands.Basic.Ack.index)
    peer.send(1, CloseOk())
    peer.channel(1)
    peer.send(1, commands.Queue.Declare(queue=name, passive=True))
    assert peer.close_of(1) == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'", commands.Queue.Declare.index)


def test_channel_may_be_closed_by_both_sides_at_once(peer: Peer) -> None:
    peer.send(1, commands.Basic.Ack(9), CLOSE)
    peer.expect(1, Close)
    peer.expect(1, CloseOk)
    peer.send(1, CloseOk())
    peer.channel(1)
    assert peer.is_well()


def test_channel_that_waits_for_close_ok_cannot_be_opened(peer: Peer) -> None:
    peer.send(1, commands.Basic.Ack(9))
    peer.expect(1, Close)
    peer.send(1, Open())
    assert peer.close_of(0) == (504, "CHANNEL_ERROR - second 'channel.open' seen", Open.index)


def test_error_of_a_channel_leaves_other_channels_open(peer: Peer) -> None:
    peer.channel(2)
    queue = peer.declare(channel=2)
    peer.send(1, commands.Basic.Ack(9))
    assert peer.refused(1)[0] == 406
    peer.say(publish_frames(2, "", queue, b"x"))
    peer.ask(2, commands.Basic.Get(queue=queue), commands.Basic.GetOk)
    assert peer.content()[1] == b"x"


def test_channels_beyond_the_negotiated_maximum_close_the_connection(at: tuple[str, int]) -> None:
    with open_peer(at, channel_max=3) as peer:
        for number in (2, 3):
            peer.channel(number)
        peer.send(4, Open())
        code, text, _ = peer.close_of(0)
        assert (code, "number of channels opened (3) has reached the negotiated channel_max (3)" in text) == (530, True)


def test_channel_may_have_any_number_and_one_that_is_closed_makes_room(at: tuple[str, int]) -> None:
    with open_peer(at, channel_max=3) as peer:
        for number in (65535, 4):
            peer.channel(number)
        peer.ask(4, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
        assert peer.channel(5) == 5


def test_access_request_of_amqp_0_8_is_answered(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, struct.pack(">HH", 30, 10) + b"\x05/data\x1f"))
    kind, channel, payload = peer.read_frame()
    assert (kind, channel, payload) == (METHOD, 1, struct.pack(">HHH", 30, 11, 1))


def test_secret_is_updated(peer: Peer) -> None:
    peer.ask(0, commands.Connection.UpdateSecret("new", "rotation"), commands.Connection.UpdateSecretOk)
    assert peer.is_well()


@pytest.mark.parametrize("asked", [0, 1])
def test_heartbeats_come_as_the_client_asks(at: tuple[str, int], asked: int) -> None:
    def listen() -> None:
        with open_peer(at, heartbeat=asked) as peer:
            try:
                frames = {peer.read_frame(PATIENCE if asked else 2.5)}
            except TimeoutError:
                frames = set()
            assert frames == ({(8, 0, b"")} if asked else set())

    undisturbed(listen, at)
