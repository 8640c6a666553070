"""Lanes on the wire of AMQP 0-9-1: `producer.begin`, and a half-open session that is fenced."""

from __future__ import annotations

from pamqp import commands

from tests.support.brokers import BrokerProcess, some_name
from tests.support.raw_client import Peer, open_peer, publish_frames

CHANNEL = 1


def begin(peer: Peer, producer: str, epoch: int, **more: object) -> dict[str, object]:
    """Begin a lane on a new channel with confirms; channel 2 is for control."""
    peer.channel(2)
    peer.confirm(CHANNEL)
    fields = {"channel": CHANNEL, "producer": producer, "lane": "l", "epoch": epoch, "window": 100, **more}
    return peer.control("producer.begin", **fields)


def test_lane_is_continued_by_another_connection_and_the_first_is_closed(broker: BrokerProcess) -> None:
    producer = some_name("producer")
    with open_peer(broker) as first, open_peer(broker) as second:
        assert begin(first, producer, 1) == {"known": False, "taken": 0, "refused": []}
        queue = some_name("orders")
        first.ask(CHANNEL, commands.Queue.Declare(queue=queue), commands.Queue.DeclareOk)
        first.say(publish_frames(CHANNEL, "", queue, b"1") + publish_frames(CHANNEL, "", queue, b"2"))
        tags = 0
        while tags < 2:
            tags = first.expect(CHANNEL, commands.Basic.Ack).delivery_tag
        assert begin(second, producer, 2) == {"known": True, "taken": 2, "refused": []}
        closed = first.expect(CHANNEL, commands.Channel.Close)
        assert "was continued by another session, with epoch 2" in closed.reply_text
        assert second.ask(2, commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk).message_count == 2


def test_lane_is_refused_for_an_epoch_not_above_the_last(broker: BrokerProcess) -> None:
    producer = some_name("producer")
    with open_peer(broker) as first, open_peer(broker) as second:
        begin(first, producer, 1)
        refused = begin(second, producer, 1)
        assert refused["code"] == 409
        assert "another session continues it" in str(refused["text"])


def test_lane_of_a_channel_without_confirms_is_refused(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer:
        peer.channel(2)
        refused = peer.control("producer.begin", channel=CHANNEL, producer="p", lane="l", epoch=1, window=1)
        assert (refused["code"], refused["text"]) == (406, "channel 1 has no confirms: select them first")
