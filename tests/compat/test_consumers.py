"""Consumers: tags, exclusive use, cancellation by both sides, and prefetch."""

from __future__ import annotations

import pytest
from pamqp import base, commands

from tests.support.raw_client import Peer, open_peer

Consume, ConsumeOk = commands.Basic.Consume, commands.Basic.ConsumeOk
Cancel, CancelOk = commands.Basic.Cancel, commands.Basic.CancelOk
Qos, QosOk, Ack = commands.Basic.Qos, commands.Basic.QosOk, commands.Basic.Ack


def next_delivery(peer: Peer, channel: int = 1) -> tuple[str, int, bytes]:
    """Consumer, tag and body of the delivery that must come next."""
    found = peer.expect(channel, commands.Basic.Deliver)
    return found.consumer_tag or "", found.delivery_tag or 0, peer.content()[1]


def test_broker_makes_a_tag_where_none_is_given(peer: Peer, queue: str) -> None:
    tags = {peer.ask(1, Consume(queue=queue), ConsumeOk).consumer_tag or "" for _ in range(3)}
    assert len(tags) == 3
    assert all(tag.startswith("amq.ctag-") and len(tag) == 31 for tag in tags)


def test_tag_is_in_use_on_its_channel_and_free_on_other_channels(peer: Peer, queue: str) -> None:
    peer.consume(queue, "c")
    peer.consume(queue, "c", peer.channel(2))
    peer.send(1, Consume(queue=queue, consumer_tag="c"))
    assert peer.refused(0) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'c'")


def test_tag_that_was_cancelled_is_free_again(peer: Peer, queue: str) -> None:
    for _ in range(3):
        peer.consume(queue, "c")
        assert peer.ask(1, Cancel("c"), CancelOk).consumer_tag == "c"


def test_cancelling_an_unknown_consumer_is_answered(peer: Peer) -> None:
    assert peer.ask(1, Cancel("nobody"), CancelOk).consumer_tag == "nobody"


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_exclusive_consumer_excludes_other_consumers(
    peer: Peer, other: Peer, name: str, first: bool, second: bool
) -> None:
    peer.ask(1, commands.Queue.Declare(queue=name, auto_delete=True), commands.Queue.DeclareOk)
    peer.consume(name, "c", exclusive=first)
    other.send(1, Consume(queue=name, exclusive=second))
    assert other.refused(1) == (403, f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use")


def test_exclusive_use_ends_with_its_consumer(peer: Peer, other: Peer, name: str) -> None:
    peer.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
    peer.consume(name, "c", exclusive=True)
    peer.ask(1, Cancel("c"), CancelOk)
    other.consume(name, "c", exclusive=True)
    peer.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)


@pytest.mark.parametrize(
    "method", [Consume(queue="no-such-queue"), commands.Basic.Get(queue="no-such-queue")], ids=lambda one: one.name
)
def test_missing_queue_is_404(peer: Peer, method: base.Frame) -> None:
    peer.send(1, method)
    assert peer.refused(1) == (404, "NOT_FOUND - no queue 'no-such-queue' in vhost '/'")


def test_delivery_of_a_cancelled_consumer_is_still_its_channels(peer: Peer, queue: str) -> None:
    peer.put(queue, 1)
    peer.consume(queue, "c")
    assert next_delivery(peer) == ("c", 1, b"0")
    peer.ask(1, Cancel("c"), CancelOk)
    peer.ask(1, commands.Basic.Get(queue=queue), commands.Basic.GetEmpty)
    peer.send(1, Ack(1))
    assert peer.is_well()


def test_consume_and_cancel_with_nowait_have_no_answer(peer: Peer, queue: str) -> None:
    peer.send(1, Consume(queue=queue, consumer_tag="c", nowait=True))
    peer.put(queue, 1)
    assert next_delivery(peer) == ("c", 1, b"0")
    peer.send(1, Cancel("c", nowait=True))
    peer.is_well()
    peer.put(queue, 1)
    assert peer.ask(1, commands.Basic.Get(queue=queue), commands.Basic.GetOk).delivery_tag == 2


def test_consumer_of_a_deleted_queue_is_notified_if_supported(at: tuple[str, int], name: str) -> None:
    with open_peer(at) as hears, open_peer(at, properties={"product": "old"}) as deaf, open_peer(at) as third:
        hears.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
        hears.consume(name, "a")
        deaf.consume(name, "b")
        assert third.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk).message_count == 0
        cancelled = hears.expect(1, Cancel)
        assert (cancelled.consumer_tag, cancelled.nowait) == ("a", True)
        assert deaf.is_well(), "nothing but the answer comes"
        hears.consume(hears.declare(), "a")


# Prefetch


def given(peer: Peer, count: int, channel: int = 1) -> list[tuple[str, bytes]]:
    """Who gets what of so many deliveries; and nothing more comes."""
    found = [next_delivery(peer, channel) for _ in range(count)]
    assert peer.is_well(channel)
    assert peer.is_well(channel)
    return [(tag, body) for tag, _, body in found]


def qos(peer: Peer, count: int, channel: int = 1, globally: bool = False) -> None:
    peer.ask(channel, Qos(prefetch_count=count, global_=globally), QosOk)


@pytest.fixture
def quiet(peer: Peer) -> Peer:
    """`is_well` asks with basic.qos, which would change what is tested: here with a cancel that cancels nobody."""
    peer.is_well = lambda channel=1: bool(peer.ask(channel, Cancel("nobody"), CancelOk))  # type: ignore[method-assign]
    return peer


def test_prefetch_applies_to_later_consumers(quiet: Peer) -> None:
    queue = quiet.declare()
    quiet.put(queue, 7)
    qos(quiet, 1)
    quiet.consume(queue, "one")
    assert given(quiet, 1) == [("one", b"0")]
    qos(quiet, 3)
    assert given(quiet, 0) == []
    quiet.consume(queue, "three")
    assert given(quiet, 3) == [("three", b"1"), ("three", b"2"), ("three", b"3")]
    quiet.send(1, Ack(1))
    assert given(quiet, 1) == [("one", b"4")]
    quiet.send(1, Ack(0, multiple=True))
    assert sorted(body for _, body in given(quiet, 2)) == [b"5", b"6"]


def test_global_prefetch_is_shared_and_its_change_counts_at_once(quiet: Peer) -> None:
    queue = quiet.declare()
    quiet.put(queue, 9)
    qos(quiet, 2, globally=True)
    quiet.consume(queue, "c")
    assert given(quiet, 2) == [("c", b"0"), ("c", b"1")]
    quiet.consume(queue, "d")
    assert given(quiet, 0) == []
    quiet.send(1, Qos(prefetch_count=3, global_=True))
    quiet.expect(1, QosOk)
    assert [body for _, body in given(quiet, 1)] == [b"2"]
    quiet.send(1, Ack(0, multiple=True))
    assert [body for _, body in given(quiet, 3)] == [b"3", b"4", b"5"]
    qos(quiet, 1, globally=True)
    quiet.send(1, Ack(5, multiple=True))
    assert given(quiet, 0) == []
    quiet.send(1, Ack(6))
    assert [body for _, body in given(quiet, 1)] == [b"6"]
    quiet.send(1, Qos(prefetch_count=0, global_=True))
    quiet.expect(1, QosOk)
    assert [body for _, body in given(quiet, 2)] == [b"7", b"8"]


def test_narrower_of_both_counts(quiet: Peer) -> None:
    queue = quiet.declare()
    quiet.put(queue, 6)
    qos(quiet, 2)
    qos(quiet, 3, globally=True)
    quiet.consume(queue, "c")
    assert [body for _, body in given(quiet, 2)] == [b"0", b"1"]
    quiet.consume(queue, "d")
    assert given(quiet, 1) == [("d", b"2")]


def test_prefetch_for_consumers_takes_the_place_of_the_channels(quiet: Peer) -> None:
    queue = quiet.declare()
    quiet.put(queue, 6)
    qos(quiet, 3, globally=True)
    quiet.consume(queue, "c")
    assert len(given(quiet, 3)) == 3
    quiet.send(1, Qos(prefetch_count=2))
    quiet.expect(1, QosOk)
    assert len(given(quiet, 3)) == 3


def test_consumer_without_acknowledgements_has_no_prefetch(quiet: Peer) -> None:
    queue = quiet.declare()
    quiet.put(queue, 5)
    qos(quiet, 1, globally=True)
    quiet.consume(queue, "c", no_ack=True)
    assert len(given(quiet, 5)) == 5


def test_getting_needs_no_room_and_takes_none(quiet: Peer) -> None:
    queue = quiet.declare()
    quiet.put(queue, 4)
    qos(quiet, 1, globally=True)
    for _ in range(2):
        quiet.ask(1, commands.Basic.Get(queue=queue), commands.Basic.GetOk)
        quiet.content()
    quiet.consume(queue, "c")
    assert given(quiet, 1) == [("c", b"2")]
    quiet.send(1, Ack(2, multiple=True))
    assert given(quiet, 0) == []
    quiet.send(1, Ack(3))
    assert given(quiet, 1) == [("c", b"3")]


def test_consumers_take_turns(quiet: Peer) -> None:
    queue = quiet.declare()
    qos(quiet, 1)
    for tag in ("a", "b", "c"):
        quiet.consume(queue, tag)
    quiet.put(queue, 3)
    assert sorted(given(quiet, 3)) == [("a", b"0"), ("b", b"1"), ("c", b"2")]
