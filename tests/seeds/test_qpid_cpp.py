"""The document "Producer Flow Control" of Qpid C++ and Red Hat's MRG, of which there are two editions with one text.

The first line of each docstring is a sentence of the document; after it comes the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.checklist_clients import OVERHEAD, Board, Consumer, Producer, Taker
from tests.support.raw_channel import Connection

if TYPE_CHECKING:
    from tests.support.proton_links import ProtonClient

pytestmark = pytest.mark.clients

TEN = {"qpid.max_count": 10}
RING = TEN | {"qpid.policy_type": "ring"}
STOP_5 = {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 3, "hold-deadline": 0}
EXAMPLE = {"qpid.max_size": 204800, "flow_stop_threshold": 80}
MIB = 1024 * 1024


def test_queue_with_a_limit_is_flow_controlled(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'The broker implements producer flow control on queues that have limits set': yes. A queue without a limit of its
    own has the broker's, 100 MiB."""
    name = queue(TEN)
    publishing = producer(name).send(13).settled()
    assert (publishing.acked, publishing.waiting, board.depth(name), board.held(name)) == (8, 5, 10, 1)
    assert board.marks(queue())[0] == (None, 100 * MIB)


def test_producer_of_a_full_queue_is_blocked_and_its_connection_is_not(
    queue: Callable[..., str], producer: Callable[..., Producer], proton: Callable[[], ProtonClient]
) -> None:
    """'This blocks message producers that risk overflowing a destination queue': yes. A second channel of the same
    connection goes on, and so does a second link."""
    full, free = queue(STOP_5), queue()
    blocked = producer(full).send(6).settled()
    channel = blocked.connection.channel()
    confirms = channel.confirm_select()
    for _ in range(5):
        channel.publish(b"x", routing_key=free)
    blocked.until(lambda: confirms.outstanding == 0, "the confirmations of the other channel")
    assert (confirms.acked, blocked.settled().waiting) == (5, 1)
    client = proton()
    assert client.sender(full).credit == 0
    assert client.sender(free).send(5).accepted == 5


def test_queue_is_unblocked_when_messages_are_acknowledged_and_not_before(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'The queue will become unblocked when enough messages are delivered and acknowledged': yes."""
    name = queue(STOP_5)
    publishing, taking = producer(name).send(6).settled(), taker(name)
    tags = [tag for tag, _ in taking.hold(4)]
    taking.settled()
    assert board.stopped(name), "delivered, and not acknowledged"
    for tag in tags:
        assert publishing.settled().waiting == 1
        taking.channel.basic_ack(tag)
        taking.settled()
    publishing.confirmed()
    assert not board.stopped(name)


def test_flow_control_relies_on_more_than_confirmations(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'Flow control relies on a reliable link between the sender and the broker': yes, and without confirmations too: a
    publisher of AMQP 0-9-1 that waits for nothing is held before the queue, and loses nothing."""
    name = queue(TEN | {"hold-deadline": 0})
    publishing = producer(name, confirms=False).send(100).settled()
    assert board.view(name)["highest"]["messages"] == 10
    assert taker(name).take(100) == list(range(100))
    publishing.settled()


def test_confirmations_are_withheld_in_both_protocols(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    proton: Callable[[], ProtonClient],
    board: Board,
) -> None:
    """'It works by holding off acknowledging sent messages': yes. Confirms of AMQP 0-9-1 and dispositions of AMQP 1.0
    are withheld."""
    name, other = queue(STOP_5), queue(STOP_5 | {"credit-window-messages": 10})
    assert producer(name).send(8).settled().waiting == 3
    sending = proton().sender(other)
    sending.send(6)
    assert (sending.accepted, board.depth(other)) == (5, 6)
    board.keeper.queue_purge(other)
    eventually(lambda: sending.accepted == 6, "the sixth outcome")


@pytest.mark.parametrize("policy", ["ring", "ring_strict"])
def test_ring_has_no_thresholds(queue: Callable[..., str], board: Board, say: Callable[..., None], policy: str) -> None:
    """'Queues that have been configured with a Limit Policy of type ring do not have queue flow thresholds enabled':
    yes, whatever patterns, policies or the broker say."""
    say("queue", "seeds.ring.#", {"stop-percent": 50, "stop-bytes": 1000})
    name = queue(TEN | {"qpid.policy_type": policy}, prefix="seeds.ring.")
    assert board.marks(name)[1:] == ((None, None), (None, None))


@pytest.mark.parametrize("threshold", ["flow_stop_threshold", "qpid.flow_stop_count", "stop-messages"])
def test_threshold_beside_a_ring_is_refused(refused: Callable[[dict[str, object]], str], threshold: str) -> None:
    """'Queues that have been configured with a Limit Policy of type ring do not have queue flow thresholds enabled':
    yes. A threshold beside a ring is refused when the queue is declared."""
    assert threshold in refused(RING | {threshold: 5})


def test_queue_that_becomes_a_ring_opens_its_gate(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, say: Callable[..., None]
) -> None:
    """'Queues that have been configured with a Limit Policy of type ring do not have queue flow thresholds enabled':
    yes, at once when a live queue becomes one: its gate opens, and what was withheld is confirmed."""
    name = queue()
    say("queue", name, {"capacity-messages": 10, "stop-messages": 5, "resume-messages": 3, "hold-deadline": 0})
    publishing = producer(name).send(8).settled()
    assert (board.stopped(name), publishing.waiting) == (True, 3)
    say("queue", name, {"capacity-messages": 10, "overflow": "drop-head"})
    publishing.confirmed()
    assert not board.stopped(name)


def test_ring_drops_its_oldest_and_blocks_no_producer(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """'These queues deal with reaching capacity through the ring mechanism': yes."""
    name = queue(RING)
    assert producer(name).send(15).confirmed().acked == 15
    assert taker(name).rest() == list(range(5, 15))


@pytest.mark.parametrize("policy", [{}, {"qpid.policy_type": "reject"}, {"qpid.policy_type": "self-destruct"}])
def test_queue_with_a_limit_has_two_thresholds(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, policy: dict[str, object]
) -> None:
    """'All other queues with limits have two threshold values': yes, by Qpid's names: 80 and 70 percent, without a
    policy and with reject and self-destruct."""
    name = queue(TEN | policy)
    assert [mark[0] for mark in board.marks(name)] == [10, 8, 6]
    publishing = producer(name).send(10).settled()
    assert (publishing.acked, publishing.nacked, publishing.waiting) == (8, 0, 2)


def test_thresholds_are_those_of_the_declaration_also_after_a_restart(tmp_path: Path) -> None:
    """'... that are set by the broker when the queue is created': yes, and they are there after a restart: the gate of
    a queue that was overfull is closed again."""
    for restarted in (False, True):
        with serving(tmp_path, "--data", str(tmp_path / "data")) as process:
            board = Board(process)
            if not restarted:
                board.keeper.queue_declare("q", durable=True, arguments=STOP_5)
                publishing = Producer(process, "q")
                publishing.send(6, persistent=True).settled()
                publishing.close()
            assert (board.stopped("q"), [mark[0] for mark in board.marks("q")]) == (True, [None, 5, 2])
            board.close()


def test_gate_closes_when_the_stop_threshold_is_exceeded(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'... the queue resource utilization level that enables flow control when exceeded': yes. Five of five are open,
    and the sixth closes."""
    name = queue(STOP_5)
    publishing = producer(name).send(5).confirmed()
    assert not board.stopped(name)
    publishing.send().settled()
    assert board.stopped(name)


def test_broker_ceases_to_acknowledge_until_the_hold_deadline(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'Once crossed, the queue is considered in danger of overflow, and the broker will cease acknowledging sent
    messages': on purpose not for ever (decision 32). By default a withheld message is confirmed after 25 s, for it is
    in the queue, and a held one is refused; `hold-deadline=0` waits for ever."""
    ever, short = queue(STOP_5), queue(STOP_5 | {"qpid.max_count": 6, "hold-deadline": "0.2"})
    waiting, answered = producer(ever).send(6), producer(short).send(8)
    answered.confirmed()
    assert (answered.acked, answered.nacked, board.stopped(short)) == (6, 2, True)
    assert waiting.settled().waiting == 1


@pytest.mark.parametrize("unit", ["size", "count"])
def test_size_or_count_alone_closes_the_gate(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, unit: str
) -> None:
    """'Note that either queue size or message count capacity utilization can trigger this': yes."""
    name = queue({"qpid.flow_stop_count": 3, "qpid.flow_stop_size": 6000})
    publishing = producer(name).send(3, OVERHEAD + 2000).confirmed()
    assert not board.stopped(name), "3 messages, and 6,000 bytes"
    if unit == "size":
        board.keeper.queue_purge(name)
        publishing.send(1, OVERHEAD + 6001).settled()
    else:
        publishing.send().settled()
    assert board.stopped(name)


@pytest.mark.parametrize(
    "arguments",
    [
        STOP_5,
        TEN | {"flow_stop_threshold": 50, "flow_resume_threshold": 30},
        {"qpid.max_count": 5, "flow_stop_threshold": 80},
    ],
    ids=["numbers", "percentages", "defaults"],
)
def test_gate_opens_below_the_resume_threshold(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    arguments: dict[str, object],
) -> None:
    """'... the queue resource utilization level that disables flow control when dropped below': yes, by Qpid's names.
    By our own names the gate opens at the threshold."""
    name = queue(arguments)
    publishing, taking = producer(name).send(6).settled(), taker(name)
    taking.take(2)
    while board.depth(name) > 3:
        taking.take(1)
    assert board.stopped(name), "3 are not below 3"
    taking.take(1)
    assert not board.stopped(name)
    publishing.confirmed()


def test_size_and_count_must_both_be_below(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'Note that once trigger by either, both queue size and message count must fall below this threshold before
    producer flow control is deactivated': yes."""
    stop = {"qpid.flow_stop_count": 8, "qpid.flow_stop_size": 6000}
    name = queue(stop | {"qpid.flow_resume_count": 4, "qpid.flow_resume_size": 4000})
    producer(name).send(1, OVERHEAD + 7000).send(5).settled()
    taking = taker(name)
    taking.take(1)
    assert (board.octets(name) < 4000, board.depth(name), board.stopped(name)) == (True, 5, True)
    taking.take(1)
    assert board.stopped(name), "4 are not below 4"
    taking.take(1)
    assert not board.stopped(name)


def test_percentages_are_of_the_capacity(queue: Callable[..., str], board: Board) -> None:
    """'The values for these two parameters are percentages of the capacity limits': yes, as `flow_stop_threshold` and
    `stop-percent` of a queue, a pattern, a virtual host or the broker."""
    limits = {"qpid.max_count": 1000, "qpid.max_size": 100_000}
    own = board.marks(queue(limits | {"flow_stop_threshold": 60, "flow_resume_threshold": 40}))
    assert own == ((1000, 100_000), (600, 60_000), (399, 39_999))
    half: dict[str, object] = {"default-flow-stop-threshold": 50, "default-flow-resume-threshold": 20}
    for scope, pattern in (("queue", "seeds.percent.#"), ("vhost", "/"), ("broker", "")):
        board.control.set(scope, pattern, half)
        try:
            assert board.marks(queue(limits, prefix="seeds.percent."))[1:] == ((500, 50_000), (199, 19_999))
        finally:
            board.control.unset(scope, pattern)


def test_example_stops_at_163840_bytes_of_enqueued_messages(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'... if a queue has a qpid.max_size of 204800 (200MB), and a flow_stop_threshold of 80 ... the broker will
    initiate producer flow control if the queue reaches 80% of 204800, or 163840 bytes of enqueued messages': yes.
    Properties and bodies count, as there. (204,800 bytes are 200 KiB.)"""
    name = queue(EXAMPLE)
    assert board.marks(name)[1] == (None, 163840)
    publishing = producer(name).send(163, OVERHEAD + 1000).send(1, OVERHEAD + 840).confirmed()
    assert not board.stopped(name), "163,840 bytes"
    publishing.send().settled()
    assert board.stopped(name)


def test_limit_of_200_kib_holds_1000_messages_of_100_bytes(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'... 163840 bytes of enqueued messages': yes. 1,000 messages of 100 bytes fit; the 240 bytes that this broker
    needs for each of them beside are in the accounts of its memory, and not in this limit."""
    name = queue(EXAMPLE)
    assert producer(name).send(1000, OVERHEAD + 2 + 100).confirmed().acked == 1000
    assert not board.stopped(name)


def test_flow_control_ends_below_the_resume_threshold_of_the_example(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'When the resource utilization of the queue falls below the flow_resume_threshold, producer flow control is
    stopped': yes. The default is 70 %, here 143,360 bytes."""
    name = queue(EXAMPLE)
    publishing, taking = producer(name).send(165, OVERHEAD + 1024).settled(), taker(name)
    assert board.stopped(name)
    taking.take(25)
    assert board.stopped(name), "140 KiB are not below 140 KiB"
    taking.take(1)
    assert not board.stopped(name)
    publishing.confirmed()


def test_resume_above_stop_is_refused(refused: Callable[[dict[str, object]], str]) -> None:
    """'Setting the flow_resume_threshold above the flow_stop_threshold has the obvious consequence of locking producer
    flow control on, so don't do it': yes, refused with the names and the rule."""
    said = refused({"qpid.max_count": 10, "flow_stop_threshold": 50, "flow_resume_threshold": 60})
    assert "flow_resume_threshold=60" in said
    assert "flow_stop_threshold=50" in said


def test_depth_never_passes_the_limit(
    queue: Callable[..., str], consumer: Callable[..., Consumer], board: Board, broker: BrokerProcess
) -> None:
    """'Once crossed, the queue is considered in danger of overflow': yes, and it does not come to it: of four producers
    that wait for nothing not one message passes the limit."""
    name = queue(TEN)
    connections = [Connection(broker.url) for _ in range(4)]
    for connection in connections:
        channel = connection.channel()
        channel.confirm_select()
        for _ in range(50):
            channel.publish(b"x", routing_key=name)
        channel.qos(0)
    assert board.view(name)["highest"]["messages"] == 10
    consuming = consumer(name)

    def all_came() -> bool:
        consuming.buffers()
        consuming.ack()
        return len(consuming.bodies) == 200

    eventually(all_came, "what was held")
    for connection in connections:
        connection.close()
