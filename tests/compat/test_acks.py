"""Acknowledgements, rejections, recoveries and confirmations: tags, ranges, order, and unknown tags."""

from __future__ import annotations

import struct

import pytest
from pamqp import base, commands

from tests.compat.test_reply_to import mandatory
from tests.support.raw_client import METHOD, Peer, publish_frames, raw_frame

RECOVER, RECOVER_ASYNC = 110, 100
Ack, Nack, Reject = commands.Basic.Ack, commands.Basic.Nack, commands.Basic.Reject


def filled(peer: Peer, count: int) -> str:
    """A queue with messages 0, 1, 2 ..."""
    queue = peer.declare()
    peer.put(queue, count)
    assert peer.is_well()
    return queue


def got(peer: Peer, queue: str, no_ack: bool = False) -> tuple[int, bool, bytes]:
    """Tag, whether it was delivered before, and body of a message that must be there."""
    found = peer.ask(1, commands.Basic.Get(queue=queue, no_ack=no_ack), commands.Basic.GetOk)
    return found.delivery_tag or 0, bool(found.redelivered), peer.content()[1]


def delivered(peer: Peer) -> tuple[int, bool, bytes]:
    found = peer.expect(1, commands.Basic.Deliver)
    return found.delivery_tag or 0, bool(found.redelivered), peer.content()[1]


def taken(peer: Peer, count: int) -> str:
    """A queue whose messages are all out, under tags 1, 2, 3 ..."""
    queue = filled(peer, count)
    assert [got(peer, queue)[0] for _ in range(count)] == list(range(1, count + 1))
    return queue


def recover(peer: Peer, method: int, requeue: bool) -> None:
    """Send basic.recover or recover-async, which pamqp makes under protest only."""
    peer.say(raw_frame(METHOD, 1, struct.pack(">HHB", 60, method, requeue)))


def unknown(peer: Peer, method: base.Frame, tag: int) -> None:
    peer.send(1, method)
    close = peer.expect(1, commands.Channel.Close)
    assert (close.reply_code, close.reply_text) == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}")
    assert (close.class_id << 16 | close.method_id) == method.index


@pytest.mark.parametrize("tag", [0, 1, 5, 2**63 - 1])
@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.parametrize("method", [Ack, Nack])
def test_tag_that_was_never_given_closes_the_channel(peer: Peer, method: type[Ack], multiple: bool, tag: int) -> None:
    if tag == 0 and multiple:
        peer.send(1, method(0, multiple))
        assert peer.is_well(), "0 stands for all, be there any or not"
    else:
        unknown(peer, method(tag, multiple), tag)


def test_reject_of_a_tag_that_was_never_given_closes_the_channel(peer: Peer) -> None:
    unknown(peer, Reject(5), 5)


@pytest.mark.parametrize("again", [Ack(1), Ack(1, multiple=True), Nack(1), Nack(1, multiple=True), Reject(1)])
def test_tag_is_known_until_it_is_settled(peer: Peer, again: base.Frame) -> None:
    taken(peer, 3)
    peer.send(1, Ack(1))
    unknown(peer, again, 1)


def test_multiple_ack_is_checked_by_its_own_tag_only(peer: Peer) -> None:
    taken(peer, 3)
    peer.send(1, Ack(2))
    unknown(peer, Ack(2, multiple=True), 2)


def test_multiple_ack_beyond_the_last_delivery_settles_nothing(peer: Peer) -> None:
    queue = taken(peer, 3)
    unknown(peer, Ack(7, multiple=True), 7)
    peer.send(1, commands.Channel.CloseOk())
    peer.channel(1)
    assert peer.depth(queue) == 3


def test_delivery_without_acknowledgement_has_no_tag_to_settle(peer: Peer) -> None:
    got(peer, filled(peer, 1), no_ack=True)
    unknown(peer, Ack(1), 1)


def test_tags_belong_to_their_channel(peer: Peer) -> None:
    taken(peer, 1)
    peer.channel(2)
    peer.send(2, Ack(1))
    assert peer.refused(2) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_multiple_ack_settles_the_unsettled_rest_of_its_range(peer: Peer) -> None:
    queue = taken(peer, 5)
    peer.send(1, Ack(2), Ack(4, multiple=True), Nack(0, multiple=True))
    assert peer.is_well()
    assert got(peer, queue) == (6, True, b"4")


def test_refused_messages_come_back_in_their_old_order_and_are_marked(peer: Peer) -> None:
    queue = filled(peer, 5)
    for _ in range(4):
        got(peer, queue)
    peer.send(1, Nack(3), Reject(1), Nack(4, multiple=True))
    peer.ask(1, commands.Basic.Consume(queue=queue, consumer_tag="c"), commands.Basic.ConsumeOk)
    expected = [(5, True, b"0"), (6, True, b"1"), (7, True, b"2"), (8, True, b"3"), (9, False, b"4")]
    assert [delivered(peer) for _ in range(5)] == expected


def test_message_with_a_time_to_live_returns_after_each_nack(peer: Peer, queue: str) -> None:
    peer.say(publish_frames(1, "", queue, b"0", {"expiration": "600000"}))
    for tag in range(1, 6):
        peer.is_well()
        assert got(peer, queue) == (tag, tag > 1, b"0")
        peer.send(1, Nack(tag))


def test_message_rejected_without_requeue_is_gone(peer: Peer) -> None:
    queue = taken(peer, 3)
    peer.send(1, Reject(1, requeue=False), Nack(3, multiple=True, requeue=False))
    peer.ask(1, commands.Basic.Get(queue=queue), commands.Basic.GetEmpty)


def test_deliveries_of_a_closed_channel_come_back(peer: Peer) -> None:
    queue = taken(peer, 2)
    peer.ask(1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    peer.channel(1)
    assert [got(peer, queue) for _ in range(2)] == [(1, True, b"0"), (2, True, b"1")]


def test_recover_delivers_again_and_is_answered_before(peer: Peer) -> None:
    queue = filled(peer, 2)
    peer.ask(1, commands.Basic.Consume(queue=queue, consumer_tag="c"), commands.Basic.ConsumeOk)
    assert [delivered(peer) for _ in range(2)] == [(1, False, b"0"), (2, False, b"1")]
    peer.ask(1, commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    assert [delivered(peer) for _ in range(2)] == [(3, True, b"0"), (4, True, b"1")]
    recover(peer, RECOVER_ASYNC, requeue=True)
    assert [delivered(peer) for _ in range(2)] == [(5, True, b"0"), (6, True, b"1")]
    unknown(peer, Ack(4), 4)


@pytest.mark.parametrize("method", [RECOVER, RECOVER_ASYNC])
def test_recover_to_the_same_consumer_is_not_implemented(peer: Peer, method: int) -> None:
    recover(peer, method, requeue=False)
    assert peer.refused(0) == (540, "NOT_IMPLEMENTED - requeue=false")


# Confirmations and returns


def await_confirms(peer: Peer, count: int) -> None:
    """Wait until the first so many publishes are confirmed, each once."""
    waiting = set(range(1, count + 1))
    while waiting:
        ack = peer.expect(1, Ack)
        tag = ack.delivery_tag or 0
        assert tag in waiting
        waiting = {number for number in waiting if number != tag and not (ack.multiple and number < tag)}


def test_publish_is_confirmed_once_whether_routed_or_not(peer: Peer, queue: str) -> None:
    peer.confirm()
    peer.say(b"".join(publish_frames(1, "", key, b"x") for key in [queue, "nowhere"] * 20))
    await_confirms(peer, 40)
    peer.confirm()
    peer.say(publish_frames(1, "", queue, b"x"))
    assert peer.expect(1, Ack).delivery_tag == 41, "selecting again does not begin anew"


def test_return_comes_before_its_confirmation(peer: Peer) -> None:
    peer.confirm()
    for number in range(1, 4):
        mandatory(peer, "nowhere", b"body")
        returned = peer.expect(1, commands.Basic.Return)
        assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
        assert (returned.exchange, returned.routing_key) == ("", "nowhere")
        assert peer.content()[1] == b"body"
        assert peer.expect(1, Ack).delivery_tag == number


def test_mandatory_message_is_returned_without_confirms(peer: Peer) -> None:
    mandatory(peer, "nowhere", b"")
    peer.expect(1, commands.Basic.Return)
    assert peer.content()[1] == b""


def test_missing_exchange_closes_the_channel_with_and_without_confirms(peer: Peer) -> None:
    peer.send(1, commands.Confirm.Select(nowait=True))
    peer.say(publish_frames(1, "no-such-exchange", "key", b"x"))
    assert peer.refused(1) == (404, "NOT_FOUND - no exchange 'no-such-exchange' in vhost '/'")


def test_immediate_is_not_implemented(peer: Peer) -> None:
    peer.send(1, commands.Basic.Publish(routing_key="x", immediate=True))
    peer.say(publish_frames(1, "", "x", b"x").partition(b"\xce")[2])
    assert peer.refused(0) == (540, "NOT_IMPLEMENTED - immediate=true")


# Transactions


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ([commands.Tx.Select(), commands.Confirm.Select()], "cannot switch from tx to confirm mode"),
        ([commands.Confirm.Select(), commands.Tx.Select()], "cannot switch from confirm to tx mode"),
        ([commands.Tx.Commit()], "channel is not transactional"),
        ([commands.Tx.Rollback()], "channel is not transactional"),
        ([commands.Confirm.Select(), commands.Tx.Commit()], "channel is not transactional"),
    ],
)
def test_confirms_and_transactions_exclude_each_other(peer: Peer, methods: list[base.Frame], said: str) -> None:
    peer.send(1, *methods)
    for _ in methods[1:]:
        peer.read_method()
    assert peer.refused(1) == (406, f"PRECONDITION_FAILED - {said}")


def test_transaction_is_there_when_it_is_committed_and_not_before(peer: Peer, queue: str) -> None:
    for _ in range(2):
        peer.ask(1, commands.Tx.Select(), commands.Tx.SelectOk)
    mandatory(peer, "nowhere", b"back")
    peer.say(publish_frames(1, "", queue, b"x"))
    peer.ask(1, commands.Basic.Get(queue=queue), commands.Basic.GetEmpty)
    peer.send(1, commands.Tx.Commit())
    peer.expect(1, commands.Basic.Return)
    peer.content()
    peer.expect(1, commands.Tx.CommitOk)
    assert got(peer, queue) == (1, False, b"x")
    peer.send(1, Ack(1))
    peer.ask(1, commands.Tx.Rollback(), commands.Tx.RollbackOk)
    peer.send(1, Nack(1))
    peer.ask(1, commands.Basic.Get(queue=queue), commands.Basic.GetEmpty)
    peer.ask(1, commands.Tx.Commit(), commands.Tx.CommitOk)
    assert got(peer, queue) == (2, True, b"x")


@pytest.mark.parametrize("again", [Ack(1), Ack(1, multiple=True), Reject(1)])
def test_delivery_settled_in_a_transaction_is_unknown_to_the_rest(peer: Peer, again: base.Frame) -> None:
    taken(peer, 2)
    peer.ask(1, commands.Tx.Select(), commands.Tx.SelectOk)
    peer.send(1, Ack(1))
    unknown(peer, again, 1)


# The property user_id


def test_user_id_must_be_the_users(peer: Peer, queue: str) -> None:
    peer.say(publish_frames(1, "", queue, b"mine", {"user_id": "guest", "headers": {"a": 1}, "priority": 1}))
    peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
    assert peer.content()[0].user_id == "guest"
    peer.say(publish_frames(1, "", queue, b"not mine", {"user_id": "ada", "app_id": "app"}))
    assert peer.refused(1) == (
        406,
        "PRECONDITION_FAILED - user_id property set to 'ada' but authenticated user was 'guest'",
    )


@pytest.mark.parametrize("tag", [(1 << 64) - 1, 1 << 63])
@pytest.mark.parametrize(("method", "bits"), [(80, 0), (80, 1), (90, 0), (90, 1), (120, 0), (120, 3)])
def test_tag_as_large_as_one_may_be_is_no_better_known(peer: Peer, method: int, bits: int, tag: int) -> None:
    """Acknowledged, rejected, refused; multiple and requeue."""
    taken(peer, 1)
    peer.say(raw_frame(METHOD, 1, struct.pack(">HHQB", 60, method, tag, bits)))
    close = peer.expect(1, commands.Channel.Close)
    assert (close.reply_code, close.reply_text) == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}")
