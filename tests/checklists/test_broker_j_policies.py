"""Broker-J's checklist, second part: reject, ring, and queues without a policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from penstock.client.errors import ChannelClosed
from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.checklist_clients import OVERHEAD, Board, Producer, Taker
from tests.support.raw_channel import Connection

pytestmark = pytest.mark.clients

S = 300
"""Bytes of a message in these tests, which is all that counts in `maximumQueueDepthBytes`."""
CHARGE = OVERHEAD + S
LIMITS = [{"maximumQueueDepthBytes": S}, {"maximumQueueDepthMessages": 1}]
BY = ["by-bytes", "by-messages"]


@pytest.mark.parametrize("limit", LIMITS, ids=BY)
def test_second_message_is_refused_and_fits_when_the_first_is_consumed(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    limit: dict[str, object],
) -> None:
    """Broker-J, reject policy: over bytes and over messages; after one is consumed a new session can send."""
    name = queue(limit | {"overflowPolicy": "REJECT"})
    publishing = producer(name).send(2, CHARGE).confirmed()
    assert (publishing.acked, publishing.nacked) == (1, 1)
    assert taker(name).take(1) == [0]
    assert producer(name).send(1, CHARGE).confirmed().acked == 1


@pytest.mark.parametrize("limit", LIMITS, ids=BY)
def test_commit_that_would_pass_the_limit_is_refused(
    queue: Callable[..., str], taker: Callable[..., Taker], board: Board, limit: dict[str, object]
) -> None:
    """Broker-J, reject policy, transacted: the commit fails, and nothing of it is there."""
    name = queue(limit | {"overflowPolicy": "REJECT"})
    channel = taker(name).channel
    channel.tx_select()
    channel.basic_publish("", name, b"0".ljust(S - 2))
    channel.tx_commit()
    channel.basic_publish("", name, b"1".ljust(S - 2))
    with pytest.raises(ChannelClosedByBroker, match="refused and rolled back") as told:
        channel.tx_commit()
    assert (told.value.reply_code, board.depth(name)) == (506, 1)


def test_pending_publishes_of_a_transaction_take_no_room_before_its_commit(
    queue: Callable[..., str], taker: Callable[..., Taker]
) -> None:
    """Broker-J, reject policy's pending counters: of two transactions that each fit alone the second is refused, and is
    accepted again when the first one's message is gone. (There what is pending counts, and refuses at once.)"""
    name = queue({"maximumQueueDepthMessages": 1, "overflowPolicy": "REJECT"})
    first, second, third = (taker(name) for _ in range(3))
    for each in (first, second, third):
        each.channel.tx_select()
        each.channel.basic_publish("", name, b"1")
    first.channel.tx_commit()
    with pytest.raises(ChannelClosedByBroker):
        second.channel.tx_commit()
    assert taker(name).rest() == [1]
    third.channel.tx_commit()


@pytest.mark.parametrize("limit", [{"maximumQueueDepthBytes": 2 * S}, {"maximumQueueDepthMessages": 2}], ids=BY)
def test_ring_keeps_the_last_two(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], limit: dict[str, object]
) -> None:
    """Broker-J, ring policy: the last two stay, by bytes and by count."""
    name = queue(limit | {"overflowPolicy": "RING"})
    producer(name).send(10, CHARGE).confirmed()
    assert taker(name).rest() == [8, 9]


def test_ring_skips_messages_that_a_consumer_has(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, ring policy: an acquired head is not dropped, the next one is. There the depth may pass the limit for
    it, and it is deleted when it is released; here it never does, and the released one is still there."""
    name = queue({"maximumQueueDepthMessages": 3, "overflowPolicy": "RING"})
    publishing, taking = producer(name).send(3).confirmed(), taker(name)
    ((tag, _),) = taking.hold(1)
    publishing.send(2).confirmed()
    assert (publishing.nacked, board.depth(name)) == (0, 3)
    taking.channel.basic_nack(tag, requeue=True)
    taking.settled()
    assert taking.rest() == [0, 3, 4]


def test_limit_without_a_policy_blocks(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """Broker-J, no policy: limits are ignored there by default. Here a limit that is given acts."""
    name = queue({"maximumQueueDepthMessages": 1})
    publishing = producer(name).send(2).settled()
    assert (board.depth(name), publishing.waiting) == (1, 2)


def test_queue_that_ignores_its_limits_is_refused_with_the_reason(broker: BrokerProcess) -> None:
    """Broker-J, no policy: refused (406), and nothing is created."""
    with Connection(broker.url) as connection:
        with pytest.raises(ChannelClosed, match="would ignore its capacity") as told:
            connection.channel().queue_declare(some_name("q"), arguments={"overflowPolicy": "NONE"})
        assert told.value.code == 406


def test_flow_to_disk_and_back(tmp_path: Path) -> None:
    """Broker-J, flow to disk: what is over the limit goes to the disk, and comes back in order."""
    arguments = {"overflowPolicy": "FLOW_TO_DISK", "maximumQueueDepthMessages": 1}
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        name = channel.queue_declare(some_name("q"), arguments=arguments).method.queue
        for number in range(10):
            channel.basic_publish("", name, b"%d" % number)
        assert "of which 9" in broker.why(name)
        assert [channel.basic_get(name, auto_ack=True)[2] for _ in range(10)] == [b"%d" % each for each in range(10)]
        connection.close()


def test_flow_to_disk_needs_a_disk(refused: Callable[[dict[str, object]], str]) -> None:
    """Broker-J, flow to disk: a broker that keeps nothing refuses it (406)."""
    assert "needs a data directory" in refused({"overflowPolicy": "FLOW_TO_DISK", "maximumQueueDepthMessages": 1})


def test_resume_above_the_limit_is_refused(refused: Callable[[dict[str, object]], str]) -> None:
    """Broker-J, arguments: a resume capacity above the capacity is refused, with the rule."""
    said = refused({"x-qpid-capacity": 1000, "x-qpid-flow-resume-capacity": 2000})
    assert "x-qpid-flow-resume-capacity=2000" in said
    assert "resume must be at or below stop" in said


def test_minus_one_is_no_limit(queue: Callable[..., str], board: Board) -> None:
    """Broker-J, arguments: -1 is unlimited, 0 is a limit of zero."""
    assert board.marks(queue({"maximumQueueDepthBytes": -1, "maximumQueueDepthMessages": 4}))[0] == (4, None)
    assert board.marks(queue({"maximumQueueDepthMessages": 0}))[0] == (0, None)
