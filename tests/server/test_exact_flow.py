"""Exact flow on the wire: channel.flow with confirms at once, and publishes that are withdrawn."""

from __future__ import annotations

import json

from pamqp import commands

from tests.support.brokers import BrokerProcess
from tests.support.raw_client import CAPABILITIES, Peer, open_peer, publish_frames

EXACT = {"product": "exact", "capabilities": CAPABILITIES | {"penstock.exact-flow": True}}
SMALL = {"capacity-messages": 2, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0}


def ready(peer: Peer) -> str:
    """Select confirms on channel 1, open channel 2 for control, and return a small queue."""
    peer.channel(2)
    peer.confirm()
    return peer.declare(**SMALL)


def test_exact_flow_is_announced_and_confirms_admitted_publishes_at_once(broker: BrokerProcess) -> None:
    with open_peer(broker, properties=EXACT) as peer:
        queue = ready(peer)
        peer.say(publish_frames(1, "", queue, b"1") + publish_frames(1, "", queue, b"2"))
        found = [peer.read_method() for _ in range(3)]
        named = [method.name for _, method in found]
        assert sorted(named) == ["Basic.Ack", "Channel.Flow", "Connection.Blocked"]
        assert named.index("Channel.Flow") < named.index("Basic.Ack")
        ack = next(method for _, method in found if isinstance(method, commands.Basic.Ack))
        assert (ack.delivery_tag, ack.multiple) == (2, True)
        peer.ask(2, commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk)
        assert peer.expect(1, commands.Channel.Flow).active


def test_held_publish_is_withdrawn_with_a_nack_and_is_in_no_queue(broker: BrokerProcess) -> None:
    with open_peer(broker, properties=EXACT) as peer:
        queue = ready(peer)
        peer.say(b"".join(publish_frames(1, "", queue, body) for body in (b"1", b"2", b"3", b"4")))
        for _ in range(3):
            peer.read_method()
        answers = peer.declare(channel=2)
        ask = json.dumps({"channel": 1, "number": 3}).encode()
        peer.say(publish_frames(2, "penstock.control", "publish.withdraw", ask, {"reply_to": answers}))
        nack = peer.expect(1, commands.Basic.Nack)
        assert (nack.delivery_tag, nack.multiple) == (3, False)
        peer.ask(2, commands.Basic.Get(queue=answers, no_ack=True), commands.Basic.GetOk)
        peer.read_frame()
        assert json.loads(peer.read_frame()[2]) == {"withdrawn": True}
        assert peer.control("publish.withdraw", channel=1, number=1) == {"withdrawn": False}
        assert peer.control("publish.withdraw", channel=1, number=5)["code"] == 406
        assert peer.control("publish.withdraw", channel=9, number=1)["code"] == 404
        assert peer.control("publish.withdraw", channel=2, number=1)["code"] == 406
        peer.send(2, commands.Queue.Purge(queue=queue))
        found = [method for _, method in (peer.read_method() for _ in range(4))]
        (purged,) = [method for method in found if isinstance(method, commands.Queue.PurgeOk)]
        (ack,) = [method for method in found if isinstance(method, commands.Basic.Ack)]
        assert (purged.message_count, ack.delivery_tag) == (2, 4), "the other one that was held is in the queue now"
        assert peer.ask(2, commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk).message_count == 1
