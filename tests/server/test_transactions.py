"""tx.* at a broker: returns before commit-ok, reading during a commit, and stored commits that are repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pamqp import commands

from penstock.core.publish.commit_delta import SIZE_MOST
from tests.support.brokers import serving
from tests.support.raw_client import CAPABILITIES, HEADER, Peer, open_peer, publish_frames

MIB = 1024 * 1024
TX = commands.Tx


def select(peer: Peer, channel: int = 1) -> None:
    peer.ask(channel, TX.Select(), TX.SelectOk)


def test_unroutable_message_of_a_transaction_is_returned_before_commit_ok(peer: Peer, queue: str) -> None:
    select(peer)
    mandatory = commands.Basic.Publish(routing_key="no-such-queue", mandatory=True)
    body = publish_frames(1, "", queue, b"lost")
    header_at = 7 + int.from_bytes(body[3:7], "big") + 1
    peer.send(1, mandatory)
    peer.say(body[header_at:] + publish_frames(1, "", queue, b"found"))
    assert peer.depth(queue) == 0, "nothing comes before the commit, not even a return"
    peer.send(1, TX.Commit())
    assert peer.expect(1, commands.Basic.Return).reply_code == 312
    peer.read_frame()
    assert peer.read_frame()[2] == b"lost"
    peer.expect(1, TX.CommitOk)
    assert peer.depth(queue) == 1


def test_connection_with_a_transaction_is_never_paused(peer: Peer, queue: str) -> None:
    """Twelve MiB are kept; in the pulses of a paused connection they would take a minute and a half."""
    select(peer)
    peer.say(publish_frames(1, "", queue, bytes(MIB)) * 12)
    assert peer.depth(queue) == 0
    peer.ask(1, TX.Rollback(), TX.RollbackOk)
    peer.ask(1, TX.Commit(), TX.CommitOk)
    assert peer.depth(queue) == 0


def test_settlements_past_the_bound_close_the_channel_and_return_their_deliveries(tmp_path: Path) -> None:
    most = SIZE_MOST // 2  # A requeued delivery counts twice.
    with serving(tmp_path) as broker, open_peer(broker) as peer:
        peer.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
        peer.say(publish_frames(1, "", "q", b"m") * (most + 1))
        select(peer)
        peer.send(1, commands.Basic.Consume(queue="q", consumer_tag="c"))
        peer.expect(1, commands.Basic.ConsumeOk)
        for _ in range(most + 1):
            peer.expect(1, commands.Basic.Deliver)
            peer.read_frame()
            peer.read_frame()
        peer.send(1, commands.Basic.Nack(most, multiple=True, requeue=True))
        peer.send(1, commands.Basic.Ack(most + 1))
        closed = peer.expect(1, commands.Channel.Close)
        assert closed.reply_code == 506
        assert f"would pass the limit of {SIZE_MOST:,}" in closed.reply_text
        peer.send(1, commands.Channel.CloseOk())
        peer.ask(1, commands.Channel.Open(), commands.Channel.OpenOk)
        assert peer.depth("q") == most + 1


# Commits that may be repeated

RETRIES = {"product": "retrying", "capabilities": CAPABILITIES | {"penstock.tx_commit_retry": True}}
ROOM_FOR_ONE = {"capacity-messages": 2, "stop-messages": 2, "resume-messages": 2, "hold-deadline": 1}


def refused_commit(peer: Peer) -> str:
    """Commit, and return the reason of the refusal, after which the channel is open."""
    peer.send(1, TX.Commit())
    found = peer.answer()
    assert isinstance(found, commands.Basic.Return)
    assert found.reply_code == 506
    assert peer.read_frame()[0] == HEADER
    nack = peer.expect(1, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple) == (0, True)
    return str(found.reply_text)


@pytest.mark.parametrize("committed", [False, True])
def test_refused_commit_is_in_the_store_once_its_repetition_succeeds(tmp_path: Path, committed: bool) -> None:
    data, durable = str(tmp_path / "data"), {"delivery_mode": 2}
    with serving(tmp_path, "--data", data) as broker, open_peer(broker, properties=RETRIES) as peer:
        for name, arguments in (("full", ROOM_FOR_ONE), ("source", {})):
            declare = commands.Queue.Declare(queue=name, durable=True, arguments=arguments)
            peer.ask(1, declare, commands.Queue.DeclareOk)
            peer.say(publish_frames(1, "", name, b"before", durable))
        select(peer)
        peer.send(1, commands.Basic.Ack(peer.get("source", no_ack=False)[0]))
        peer.say(publish_frames(1, "", "full", b"one", durable) + publish_frames(1, "", "full", b"two", durable))
        refused_commit(peer)
        if committed:
            peer.channel(2)
            peer.send(2, commands.Queue.Purge(queue="full"))
            peer.send(1, TX.Commit())
            assert isinstance(peer.answer(2), commands.Queue.PurgeOk)
            assert isinstance(peer.answer(), TX.CommitOk)
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, open_peer(broker) as peer:
        left = [broker.depth(name) for name in ("full", "source")]
        assert left == ([2, 0] if committed else [1, 1])
        assert peer.get("full")[1] == (b"one" if committed else b"before")
