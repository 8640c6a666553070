"""A message published before a method on the same channel goes to the consumers of that moment.

Each publish is sent together with the method, in one piece.
"""

from __future__ import annotations

import pytest
from pamqp import base, commands

from tests.support.raw_client import Peer, method_frame, numbered_publishes, publish_frames

Consume, ConsumeOk = commands.Basic.Consume, commands.Basic.ConsumeOk
Cancel, CancelOk = commands.Basic.Cancel, commands.Basic.CancelOk
Get, GetOk, GetEmpty = commands.Basic.Get, commands.Basic.GetOk, commands.Basic.GetEmpty
Deliver = commands.Basic.Deliver
Tx = commands.Tx


def together(peer: Peer, queue: str, *methods: base.Frame, count: int = 1, channel: int = 1) -> None:
    """Publish to a queue and send methods, in one piece."""
    peer.say(numbered_publishes(channel, queue, count) + b"".join(method_frame(channel, method) for method in methods))


def heard(peer: Peer) -> tuple[list[tuple[str, bytes]], list[base.Frame]]:
    """Everything that comes until now: who was delivered what, and the answers; RabbitMQ may tell both in any order."""
    deliveries: list[tuple[str, bytes]] = []
    answers: list[base.Frame] = []
    for _ in range(2):  # The second one is asked when all that came of the methods waits in RabbitMQ's channel.
        peer.send(1, Cancel("nobody"))
        while not isinstance(method := peer.read_method()[1], CancelOk) or method.consumer_tag != "nobody":
            if isinstance(method, Deliver):
                deliveries.append((method.consumer_tag or "", peer.content()[1]))
            else:
                answers.append(method)
                if isinstance(method, GetOk):
                    peer.content()
    return deliveries, answers


def test_cancelled_consumer_gets_messages_published_before(peer: Peer, queue: str) -> None:
    peer.consume(queue, "c")
    together(peer, queue, Cancel("c"), count=3)
    assert [body for _, body in heard(peer)[0]] == [b"0", b"1", b"2"]
    peer.ask(1, Get(queue=queue), GetEmpty)


def test_consumer_of_highest_priority_gets_the_message_though_cancelled_next(peer: Peer, queue: str) -> None:
    peer.ask(1, commands.Basic.Qos(prefetch_count=1), commands.Basic.QosOk)
    peer.consume(queue, "low")
    peer.consume(queue, "high", arguments={"x-priority": 5})
    together(peer, queue, Cancel("high"), count=2)
    assert sorted(heard(peer)[0]) == [("high", b"0"), ("low", b"1")]


def test_consumer_cancelled_by_another_connection_leaves_this_one_its_messages(
    peer: Peer, other: Peer, name: str
) -> None:
    peer.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
    other.consume(name, "other", no_ack=True)
    peer.consume(name, "c", no_ack=True)
    together(peer, name, Cancel("c"), count=2)
    assert heard(peer)[0] == [("c", b"1")]
    assert heard(other)[0] == [("other", b"0")]
    peer.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)


def test_get_takes_nothing_that_a_consumer_should_have_had(peer: Peer, queue: str) -> None:
    peer.consume(queue, "c")
    together(peer, queue, Get(queue=queue))
    deliveries, answers = heard(peer)
    assert deliveries == [("c", b"0")]
    assert [type(answer) for answer in answers] == [GetEmpty]


def test_get_takes_messages_that_no_consumer_has_room_for(peer: Peer, queue: str) -> None:
    peer.ask(1, commands.Basic.Qos(prefetch_count=1), commands.Basic.QosOk)
    peer.consume(queue, "c")
    together(peer, queue, Get(queue=queue), count=2)
    deliveries, answers = heard(peer)
    assert deliveries == [("c", b"0")]
    assert [type(answer) for answer in answers] == [GetOk]


@pytest.mark.parametrize(
    ("method", "answer"),
    [(commands.Queue.Purge, commands.Queue.PurgeOk), (commands.Queue.Delete, commands.Queue.DeleteOk)],
)
def test_purge_or_deletion_leaves_messages_with_their_consumers(
    peer: Peer, queue: str, method: type[base.Frame], answer: type[base.Frame]
) -> None:
    peer.consume(queue, "c")
    together(peer, queue, method(queue=queue), count=2)
    deliveries, answers = heard(peer)
    assert deliveries == [("c", b"0"), ("c", b"1")]
    (told,) = [found for found in answers if isinstance(found, answer)]
    assert dict(told)["message_count"] == 0


def test_declaration_counts_waiting_messages_only(peer: Peer, queue: str) -> None:
    peer.consume(queue, "c")
    together(peer, queue, commands.Queue.Declare(queue=queue, passive=True), count=2)
    (told,) = [found for found in heard(peer)[1] if isinstance(found, commands.Queue.DeclareOk)]
    assert (told.message_count, told.consumer_count) == (0, 1)


def test_later_consumer_gets_no_earlier_message_whatever_its_priority(peer: Peer, queue: str) -> None:
    peer.consume(queue, "there", no_ack=True)
    together(peer, queue, Consume(queue=queue, consumer_tag="later", arguments={"x-priority": 9}), count=2)
    assert heard(peer)[0] == [("there", b"0"), ("there", b"1")]


def test_committed_message_is_with_the_consumers_before_the_next_method(peer: Peer, queue: str) -> None:
    peer.consume(queue, "c", peer.channel(2), no_ack=True)
    peer.ask(1, Tx.Select(), Tx.SelectOk)
    together(peer, queue, Tx.Commit())
    while not isinstance(method := peer.read_method()[1], Tx.CommitOk):  # RabbitMQ takes no other method before.
        assert isinstance(method, Deliver)
        peer.content()
    peer.send(1, Get(queue=queue))
    while not isinstance(method := peer.read_method()[1], GetEmpty):
        assert isinstance(method, Deliver)
        peer.content()


@pytest.mark.parametrize("method", [Tx.Select, Tx.Commit, Tx.Rollback])
def test_message_published_before_a_tx_method_is_with_the_consumers(
    peer: Peer, other: Peer, name: str, method: type[base.Frame]
) -> None:
    peer.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
    if method is not Tx.Select:
        peer.ask(1, Tx.Select(), Tx.SelectOk)
    peer.consume(name, "c", peer.channel(2), no_ack=True)
    publish = publish_frames(2, "", name, b"0")
    peer.say(publish + method_frame(1, method()) + method_frame(1, Get(queue=name)))
    deliveries, answers = heard(peer)
    assert deliveries == [("c", b"0")]
    assert GetEmpty in [type(answer) for answer in answers]
    other.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)


@pytest.mark.parametrize("no_ack", [True, False])
def test_delivery_to_a_closed_channel_counts_as_delivered(peer: Peer, other: Peer, name: str, no_ack: bool) -> None:
    other.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
    channel = peer.channel(2)
    peer.consume(name, "c", channel, no_ack=no_ack)
    together(peer, name, commands.Channel.Close(200, "", 0, 0), channel=channel)
    heard(peer)  # RabbitMQ's channel may be gone before it has written the delivery.
    check_had(other, name, no_ack)


@pytest.mark.parametrize("no_ack", [True, False])
def test_delivery_to_a_closed_connection_counts_as_delivered(peer: Peer, other: Peer, name: str, no_ack: bool) -> None:
    other.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
    peer.consume(name, "c", no_ack=no_ack)
    close = method_frame(0, commands.Connection.Close(200, "", 0, 0))
    peer.say(publish_frames(1, "", name, b"0") + close)
    while not isinstance(method := peer.read_method()[1], commands.Connection.CloseOk):
        assert isinstance(method, Deliver)
        peer.content()
    peer.close()
    check_had(other, name, no_ack)


def check_had(peer: Peer, queue: str, no_ack: bool) -> None:
    """A queue's only message has been with a consumer that is gone."""
    if no_ack:
        peer.ask(1, Get(queue=queue), GetEmpty)
    else:
        assert peer.ask(1, Get(queue=queue, no_ack=True), GetOk).redelivered
        peer.content()
    peer.ask(1, commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)


def test_direct_reply_arrives_before_the_cancellation_of_its_consumer(peer: Peer, ours: bool) -> None:
    if not ours:
        pytest.skip("RabbitMQ sends an answer from channel to channel, and the cancel is quicker")
    peer.ask(1, Consume(queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True), ConsumeOk)
    queue = peer.declare()
    peer.say(publish_frames(1, "", queue, b"question", {"reply_to": "amq.rabbitmq.reply-to"}))
    peer.ask(1, Get(queue=queue, no_ack=True), GetOk)
    address = peer.content()[0].reply_to
    assert address
    peer.say(publish_frames(1, "", address, b"answer") + method_frame(1, Cancel("r")))
    assert heard(peer)[0] == [("r", b"answer")]
