"""Heartbeats, both ways: an idle client that beats stays, a silent client is closed."""

from __future__ import annotations

import time

from pamqp import commands

from tests.support.brokers import BrokerProcess
from tests.support.raw_client import BODY, HEARTBEAT, open_peer, publish_frames, raw_frame
from tests.support.stalls import undisturbed

BEAT = raw_frame(HEARTBEAT, 0, b"")


def test_idle_client_that_beats_stays_and_gets_heartbeats(broker: BrokerProcess) -> None:
    def beat() -> None:
        with open_peer(broker, heartbeat=1) as peer:
            start = time.monotonic()
            beats = 0
            while beats < 3 or time.monotonic() < start + 3.5:
                kind, channel, payload = peer.read_frame()
                assert (kind, channel, payload) == (HEARTBEAT, 0, b"")
                beats += 1
                peer.say(BEAT)
            assert peer.is_well()

    undisturbed(beat, broker)


def test_client_that_stops_is_dropped_after_two_beats(broker: BrokerProcess) -> None:
    def stop() -> str:
        with open_peer(broker, heartbeat=1) as peer:
            start = time.monotonic()
            queue = peer.declare()
            assert peer.is_closed()
            assert time.monotonic() - start >= 1.5
            return queue

    queue = undisturbed(stop, broker)
    with open_peer(broker) as peer:
        peer.send(1, commands.Queue.Declare(queue=queue, passive=True))
        assert peer.refused(1)[0] == 404, "an exclusive queue goes with its connection"


def test_traffic_of_any_kind_counts_as_a_heartbeat(broker: BrokerProcess) -> None:
    def publish() -> None:
        with open_peer(broker, heartbeat=1) as peer:
            start = time.monotonic()
            while time.monotonic() < start + 3.5:
                peer.say(publish_frames(1, "", "nowhere", b"x"))
                kind, _, _ = peer.read_frame()
                assert kind == HEARTBEAT
            assert peer.is_well()

    undisturbed(publish, broker)


def test_half_a_body_is_no_reason_to_drop_a_client_that_still_sends(broker: BrokerProcess) -> None:
    def send_slowly() -> None:
        with open_peer(broker, heartbeat=1) as peer:
            queue = peer.declare()
            body = publish_frames(1, "", queue, bytes(100))
            peer.say(body[:-20])
            assert body[-108] == BODY
            start = time.monotonic()
            for at in range(len(body) - 20, len(body)):
                assert peer.read_frame()[0] == HEARTBEAT
                if time.monotonic() > start + 3.5:
                    peer.say(body[at:])
                    break
                peer.say(body[at : at + 1])
            peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)

    undisturbed(send_slowly, broker)


def test_silent_client_without_heartbeats_is_not_dropped(broker: BrokerProcess) -> None:
    with open_peer(broker, heartbeat=0) as peer:
        assert not peer.is_closed(2.5)
        assert peer.is_well()
