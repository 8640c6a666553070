"""tx.* on the wire: answers in order, errors by their codes, and no trace of who goes away with a commit that waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.raw_client import CAPABILITIES, HEADER, Peer, open_peer, publish_frames

MIB = 1024 * 1024
TX = commands.Tx


def select(peer: Peer, channel: int = 1) -> None:
    peer.ask(channel, TX.Select(), TX.SelectOk)


@pytest.mark.parametrize("multiple", [True, False])
def test_delivery_that_is_not_known_is_406_at_once_and_so_is_one_that_was_settled(
    peer: Peer, queue: str, multiple: bool
) -> None:
    peer.say(publish_frames(1, "", queue, b"x"))
    select(peer)
    tag = peer.get(queue, no_ack=False)[0]
    peer.send(1, commands.Basic.Ack(tag, multiple))
    assert peer.depth(queue) == 0
    peer.send(1, commands.Basic.Reject(tag, requeue=True))
    code, text = peer.refused(1)
    assert (code, f"unknown delivery tag {tag}" in text) == (406, True), text
    peer.channel(2)
    assert peer.depth(queue, 2) == 1, "the acknowledgement was rolled back with the channel"


def test_what_reaches_no_queue_comes_back_before_commit_ok(peer: Peer, queue: str) -> None:
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


def test_exchange_that_is_not_there_is_404_and_nothing_is_applied(peer: Peer, queue: str) -> None:
    select(peer)
    peer.say(publish_frames(1, "", queue, b"x") + publish_frames(1, "no-such-exchange", "k", b"x"))
    peer.send(1, TX.Commit())
    code, text = peer.refused(1)
    assert (code, "no exchange 'no-such-exchange'" in text) == (404, True), text
    peer.channel(2)
    assert peer.depth(queue, 2) == 0


def test_what_is_kept_has_a_bound_and_past_it_the_channel_is_closed_with_506(peer: Peer, queue: str) -> None:
    select(peer)
    peer.say(publish_frames(1, "", queue, bytes(MIB)) * 20)
    code, text = peer.refused(1)
    assert (code, "15 publishes" in text, "held for this connection already" in text) == (506, True, True), text
    peer.channel(2)
    assert peer.depth(queue, 2) == 0
    select(peer, 2)
    peer.say(publish_frames(2, "", queue, bytes(MIB)) * 15)
    peer.ask(2, TX.Commit(), TX.CommitOk)
    assert peer.depth(queue, 2) == 15


def test_connection_with_a_transaction_is_never_paused(peer: Peer, queue: str) -> None:
    """Twelve MiB are kept; in the pulses of a paused connection they would take a minute and a half."""
    select(peer)
    peer.say(publish_frames(1, "", queue, bytes(MIB)) * 12)
    assert peer.depth(queue) == 0
    peer.ask(1, TX.Rollback(), TX.RollbackOk)
    peer.ask(1, TX.Commit(), TX.CommitOk)
    assert peer.depth(queue) == 0


def test_commit_waits_for_room_and_what_comes_after_it_is_answered_after_it(peer: Peer) -> None:
    full = peer.declare(**{"capacity-messages": 3, "resume-messages": 2, "hold-deadline": 0})
    peer.say(publish_frames(1, "", full, b"first") * 2)
    select(peer)
    peer.say(publish_frames(1, "", full, b"x") * 3)
    peer.send(1, TX.Commit())
    blocked = peer.expect(0, commands.Connection.Blocked)
    assert full in blocked.reason
    peer.say(publish_frames(1, "", full, b"next"))
    peer.send(1, TX.Rollback())
    peer.channel(2)
    for _ in range(2):
        assert peer.depth(full, 2) in (1, 2)
        peer.get(full, 2)
    peer.send(2, commands.Basic.Get(queue=full, no_ack=True))  # Three are in, above stop: the answer is withheld.
    said = [peer.read_method()[1].name]
    peer.read_frame()
    peer.read_frame()
    while said[-1] != "Tx.RollbackOk":
        said.append(peer.read_method()[1].name)
    assert [name for name in said if name.startswith("Tx")] == ["Tx.CommitOk", "Tx.RollbackOk"]
    assert peer.depth(full) == 2


@pytest.mark.parametrize("how", ["killed", "closed", "channel closed"])
def test_who_goes_away_with_a_commit_that_waits_leaves_no_trace(broker: BrokerProcess, how: str, name: str) -> None:
    arguments = {"capacity-messages": 2, "hold-deadline": 0}
    with open_peer(broker) as keeper:
        keeper.ask(1, commands.Queue.Declare(queue=name, arguments=arguments), commands.Queue.DeclareOk)
        keeper.say(publish_frames(1, "", name, b"x") * 2)
        with open_peer(broker) as peer:
            select(peer)
            tag = peer.get(name, no_ack=False)[0]
            peer.send(1, commands.Basic.Ack(tag))
            peer.say(publish_frames(1, "", name, b"y") * 2)
            peer.send(1, TX.Commit())
            eventually(lambda: broker.queue(name)["gate"]["waiting"] == 1, "the commit waits")
            if how == "killed":
                peer.socket.close()
            elif how == "closed":
                peer.send(0, commands.Connection.Close(200, "", 0, 0))
            else:
                peer.send(1, commands.Channel.Close(200, "", 0, 0))
            eventually(lambda: broker.queue(name)["gate"]["waiting"] == 0, "it is gone")
        view = broker.queue(name)
        assert (view["depth"]["messages"], len(view["blocked"])) == (2, 1), "the keeper's own message closed the gate"
        assert [keeper.get(name, no_ack=False)[0] for _ in range(2)] == [1, 2], "what it had taken is there again"
        keeper.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)


# Commits that may be tried again

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


def test_refused_commit_may_be_tried_again_with_its_publishes_and_acknowledgements(
    broker: BrokerProcess, name: str
) -> None:
    with open_peer(broker, properties=RETRIES) as peer:
        full, source = f"{name}-full", f"{name}-source"
        for queue, arguments in ((full, ROOM_FOR_ONE), (source, {})):
            peer.ask(1, commands.Queue.Declare(queue=queue, arguments=arguments), commands.Queue.DeclareOk)
        peer.say(publish_frames(1, "", full, b"before") + publish_frames(1, "", source, b"handled"))
        select(peer)
        peer.send(1, commands.Basic.Ack(peer.get(source, no_ack=False)[0]))
        peer.say(publish_frames(1, "", full, b"one") + publish_frames(1, "", full, b"two"))
        for _ in range(2):
            assert f"not rolled back; queue '{full}' holds 1 message" in refused_commit(peer)
        assert broker.depth(source) == 1, "its acknowledgement waits for the commit"
        peer.channel(2)
        peer.get(full, 2)
        peer.send(1, TX.Commit())
        assert isinstance(peer.answer(), TX.CommitOk)
        assert [broker.depth(queue) for queue in (full, source)] == [2, 0]
        assert [peer.get(full)[1] for _ in range(2)] == [b"one", b"two"]
        for queue in (full, source):
            assert peer.ask(1, commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk).message_count == 0


def test_refused_commit_may_be_rolled_back_on_the_same_channel(broker: BrokerProcess) -> None:
    with open_peer(broker, properties=RETRIES) as peer:
        full = peer.declare(**ROOM_FOR_ONE)
        peer.say(publish_frames(1, "", full, b"before"))
        select(peer)
        peer.say(publish_frames(1, "", full, b"one") + publish_frames(1, "", full, b"two"))
        refused_commit(peer)
        peer.send(1, TX.Rollback())
        assert isinstance(peer.answer(), TX.RollbackOk)
        assert peer.depth(full) == 1


@pytest.mark.parametrize("committed", [False, True])
def test_refused_commit_is_in_the_store_when_it_is_tried_again_with_success_and_not_before(
    tmp_path: Path, committed: bool
) -> None:
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
