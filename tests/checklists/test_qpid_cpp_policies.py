"""Qpid C++'s checklist, third part: what the overflow policies keep, drop and refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pika.exceptions import ChannelClosedByBroker

from penstock.client.errors import ChannelClosed
from tests.support.checklist_clients import OVERHEAD, Board, Producer, Taker

pytestmark = pytest.mark.clients

REJECT_5 = {"qpid.max_count": 5, "qpid.policy_type": "reject", "qpid.flow_stop_count": 5}
"""With the stop at the capacity, so that the limit itself acts."""


def ring(**limits: object) -> dict[str, object]:
    return {f"qpid.{name}": value for name, value in limits.items()} | {"qpid.policy_type": "ring"}


def test_ring_by_count_keeps_the_last(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Qpid C++, ring: by count it keeps the last n, and never blocks."""
    name = queue(ring(max_count=4))
    producer(name).send(20).confirmed()
    assert taker(name).rest() == [16, 17, 18, 19]


def test_ring_by_size_keeps_messages_that_fit(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Qpid C++, ring: 500 bytes and six messages of 100 keep 1 to 5."""
    name = queue(ring(max_size=500))
    producer(name).send(6, OVERHEAD + 100).confirmed()
    assert taker(name).rest() == [1, 2, 3, 4, 5]


def test_large_message_displaces_four_small_ones_in_a_ring(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Qpid C++, ring: one of 400 bytes makes four of 100 go."""
    name = queue(ring(max_size=500))
    producer(name).send(5, OVERHEAD + 100).send(1, OVERHEAD + 400).confirmed()
    assert taker(name).rest() == [4, 5]


def test_message_larger_than_the_ring_is_refused_and_displaces_nothing(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Qpid C++, ring: 1000 bytes into 500 are refused. (Only that message is refused; nothing ends.)"""
    name = queue(ring(max_size=500))
    publishing = producer(name).send(5, OVERHEAD + 100).send(1, OVERHEAD + 1000).confirmed()
    assert (publishing.acked, publishing.nacked) == (5, 1)
    assert taker(name).rest() == [0, 1, 2, 3, 4]


def test_strict_ring_refuses_the_sixth_while_the_oldest_is_with_a_consumer(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Qpid C++, ring-strict: the sixth is refused. Gone there, so that the name means reject; here it is what it was:
    refused while a message is with a consumer, else the oldest goes."""
    name = queue({"qpid.max_count": 5, "qpid.policy_type": "ring_strict"})
    publishing, taking = producer(name).send(5).confirmed(), taker(name)
    ((tag, _),) = taking.hold(1)
    assert publishing.send().confirmed().nacked == 1
    taking.channel.basic_nack(tag, requeue=True)
    taking.settled()
    assert publishing.send().confirmed().nacked == 1
    assert taking.rest() == [1, 2, 3, 4, 6]


def test_reject_policy_frees_room_at_the_commit_of_an_acknowledgement(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """Qpid C++, reject after 5 with transactions: room is freed by the commit and not before. (There by the commit of
    a distributed transaction and not its prepare; here only local ones exist.)"""
    name = queue(REJECT_5)
    publishing = producer(name).send(6).confirmed()
    assert (publishing.acked, publishing.nacked) == (5, 1)
    taking = taker(name)
    taking.channel.tx_select()
    ((tag, _),) = taking.hold(1)
    taking.channel.basic_ack(tag)
    taking.settled()
    assert publishing.send().confirmed().nacked == 2
    taking.channel.tx_commit()
    assert publishing.send().confirmed().nacked == 2


@pytest.mark.parametrize(("policy", "code"), [("reject", 506), ("block", 311)])
def test_transaction_of_ten_into_five_fails_at_its_commit(
    queue: Callable[..., str], taker: Callable[..., Taker], board: Board, policy: str, code: int
) -> None:
    """Qpid C++, reject with transactions: ten into five fail at the commit, and none of them is there. So it is where
    a commit would wait, for no waiting would help."""
    name = queue({"qpid.max_count": 5, "overflow": policy})
    committing = taker(name)
    committing.channel.tx_select()
    for _ in range(10):
        committing.channel.basic_publish("", name, b"x")
    committing.settled()
    with pytest.raises(ChannelClosedByBroker) as told:
        committing.channel.tx_commit()
    assert told.value.reply_code == code
    assert board.depth(name) == 0


def test_queue_destroys_itself_at_its_limit(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """Qpid C++, self-destruct: what would pass the limit deletes the queue. The publisher sees success there; here its
    message is refused, for it is nowhere."""
    name = queue({"qpid.max_count": 5, "qpid.policy_type": "self-destruct"})
    publishing = producer(name).send(6).confirmed()
    assert (publishing.acked, publishing.nacked) == (5, 1)
    with pytest.raises(ChannelClosed) as absent:
        board.connection.channel().queue_declare(name, passive=True)
    assert absent.value.code == 404


@pytest.mark.parametrize("policy", ["ring", "RING"])
def test_ring_is_never_flow_controlled(queue: Callable[..., str], board: Board, policy: str) -> None:
    """Qpid C++, how thresholds are computed: a ring has no stop and no resume, whatever patterns say."""
    assert board.marks(queue({"qpid.max_count": 5, "qpid.policy_type": policy}))[1:] == ((None, None), (None, None))


def test_unknown_policy_is_refused(refused: Callable[[dict[str, object]], str]) -> None:
    """Qpid C++, arguments: a misspelt policy is a warning there, and reject; here nothing is created."""
    assert "qpid.policy_type=rign" in refused({"qpid.max_count": 5, "qpid.policy_type": "rign"})
