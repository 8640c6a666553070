"""The design page "AMQP0-9 Tactical Producer Flow Control" of the Qpid Java broker.

The first line of each docstring is a sentence of the page; after it comes the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pamqp import commands

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, in_background
from tests.support.checklist_clients import OVERHEAD, Board, Consumer, Producer, Taker
from tests.support.commands import run
from tests.support.raw_channel import Connection
from tests.support.raw_client import CAPABILITIES, Peer, open_peer, publish_frames

pytestmark = pytest.mark.clients

CAPACITY = {"capacity": 1000, "hold-deadline": 0}
STOP_5 = {"stop-messages": 5, "resume-messages": 3, "hold-deadline": 0}
WINDOW = 16 * 1024
"""Bytes between `capacity` and the depth that is never passed, at least."""
OBEYS_FLOW = {"product": "bare socket", "capabilities": CAPABILITIES | {"channel.flow": True}}


def test_queue_does_not_grow_when_its_consumer_is_slower_than_its_producer(
    queue: Callable[..., str], consumer: Callable[..., Consumer], board: Board, broker: BrokerProcess
) -> None:
    """'... then Q will grow at a rate of 90msg/s until such time as the broker runs out of heap space': yes, solved.
    The producer goes at the pace of the consumer."""
    name = queue({"capacity": 20_000, "hold-deadline": 0})
    consuming = consumer(name, prefetch=1)

    def publish() -> None:
        with connect(broker.url, protocol="amqp091", flow_control_wait_failure=0) as connection:
            assert connection.publisher(name, window=50, durable=False).send_many([b"x" * 500] * 100).confirmed == 100

    def all_came() -> bool:
        consuming.buffers()
        consuming.ack()
        return len(consuming.bodies) == 100

    with in_background(publish):
        eventually(all_came, "every message")
    assert board.view(name)["highest"]["messages"] * 502 <= 20_000 + WINDOW


def test_connection_that_floods_is_not_read(
    queue: Callable[..., str], taker: Callable[..., Taker], board: Board, broker: BrokerProcess
) -> None:
    """'There are two mechanisms available to throttle a producing client - the use of TCP flow control ...': yes. Who
    publishes without confirmations is read in pulses only, when what is held for it has reached its bound."""
    name = queue({"max-length-bytes": 100_000, "overflow": "block", "hold-deadline": 0})

    def publish() -> None:
        with Connection(broker.url) as connection:
            channel = connection.channel()
            for number in range(2000):
                channel.publish(str(number).encode().ljust(10_000), routing_key=name)
            channel.qos(0)

    with in_background(publish):
        eventually(
            lambda: [each for each in board.control.list("connections") if each["penstock"]["paused"]], "a pause"
        )
        assert taker(name).take(2000) == list(range(2000))
    assert board.view(name)["highest"]["bytes"] <= 100_000 + 300 * OVERHEAD


def blocked_peer(peer: Peer, name: str, confirms: bool) -> None:
    """Publish until the gate is closed, over a channel that obeys channel.flow."""
    if confirms:
        peer.confirm()
    peer.say(publish_frames(1, "", name, b"x") * 6)


def flow_of(peer: Peer) -> bool:
    """Return what the next channel.flow says; confirmations and connection.blocked may come before it."""
    while True:
        _, method = peer.read_method()
        if isinstance(method, commands.Channel.Flow):
            return bool(method.active)


@pytest.mark.parametrize("confirms", [False, True], ids=["plain", "confirms"])
def test_channel_flow_ceases_and_resumes(
    queue: Callable[..., str], board: Board, broker: BrokerProcess, confirms: bool
) -> None:
    """'The Channel.Flow command instructs the recipient to either cease (or resume) sending messages': yes, to clients
    that have announced the capability `channel.flow`, and to the Java client."""
    name = queue(STOP_5)
    with open_peer(broker, properties=OBEYS_FLOW) as peer:
        blocked_peer(peer, name, confirms)
        assert not flow_of(peer)
        peer.send(1, commands.Channel.FlowOk(False))
        board.keeper.queue_purge(name)
        assert flow_of(peer)


def test_broker_answers_with_flow_ok_and_pauses_its_deliveries(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    consumer: Callable[..., Consumer],
) -> None:
    """'The receiver of the command should send Channel.Flow-ok once the flow command has been received': yes, here as
    the receiver. (A client's flow-ok is not waited for.)"""
    name = queue()
    consuming = consumer(name)
    consuming.channel.flow(False)
    producer(name).send(3).confirmed()
    assert consuming.buffers() == 0
    consuming.channel.flow(True)
    eventually(lambda: consuming.buffers() == 3, "what was paused")


def test_overfill_has_a_bound(queue: Callable[..., str], producer: Callable[..., Producer], board: Board) -> None:
    """'... we cannot guarantee by how much the producer may "overfill" the queue before it ceases publishing': yes,
    better: a quarter of the capacity, at least 16 KiB. What is on the wire beyond that is held before the queue."""
    name = queue(CAPACITY)
    publishing = producer(name).send(400, OVERHEAD + 100).settled()
    depth = board.depth(name)
    assert (depth * 100 <= 1000 + WINDOW, (depth + 1) * 100 > 1000 + WINDOW) == (True, True)
    assert (publishing.acked, board.held(name)) == (10, 1)
    assert str(1000 + WINDOW) in run(board.broker, "show", "queue", name)


def test_publisher_on_a_full_queue_is_asked_to_stop_immediately(
    queue: Callable[..., str], producer: Callable[..., Producer], broker: BrokerProcess
) -> None:
    """'... the publisher of a message which is enqueued on a "full" queue is immediately sent a Channel.Flow command to
    cease publication': yes, in the turn of the publish."""
    name = queue(STOP_5)
    producer(name).send(6).settled()
    with open_peer(broker, properties=OBEYS_FLOW) as peer:
        peer.say(publish_frames(1, "", name, b"x"))
        seen: list[object] = []
        for answers in (1, 2):  # What is due in the turn of the first is there before the second.
            peer.send(1, commands.Basic.Qos(prefetch_count=0))
            while sum(isinstance(each, commands.Basic.QosOk) for each in seen) < answers:
                seen.append(peer.read_method()[1])
    assert [each.active for each in seen if isinstance(each, commands.Channel.Flow)] == [False]


def test_blocked_sessions_are_free_when_the_queue_has_space(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """'... when an "overfull" Queue has available space, then sessions which are blocked waiting for this event are
    free to send messages again': yes, all of them."""
    name = queue(STOP_5)
    producers = [producer(name).send(2).settled() for _ in range(4)]
    assert [each.waiting for each in producers] == [0, 0, 1, 2]
    taker(name).take(5)
    for each in producers:
        each.confirmed()


def test_channel_flow_ends_at_the_hold_deadline(queue: Callable[..., str], board: Board, broker: BrokerProcess) -> None:
    """'Monitor queue sizes such that when an "overfull" Queue has available space, then sessions ... are free': on
    purpose not only then (decision 18). At the hold deadline `channel.flow` ends as well, for what comes then is
    refused by itself; `hold-deadline=0` is theirs."""
    name = queue(STOP_5 | {"hold-deadline": "0.2"})
    with open_peer(broker, properties=OBEYS_FLOW) as peer:
        blocked_peer(peer, name, confirms=False)
        assert not flow_of(peer)
        assert flow_of(peer)
    assert board.stopped(name)


def test_capacity_is_the_size_at_which_publishers_are_blocked(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'capacity: size in bytes at which the queue is thought to be full ... publishes which send messages which take
    the total queue size above this mark will be blocked': yes. The message that passes it goes in."""
    name = queue(CAPACITY)
    publishing = producer(name).send(2, OVERHEAD + 500).confirmed()
    assert not board.stopped(name), "1,000 are not above 1,000"
    publishing.send(1, OVERHEAD + 500).settled()
    assert (board.stopped(name), board.depth(name), publishing.waiting) == (True, 3, 1)


def test_capacity_of_0_is_no_maximum(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'Default 0 (no maximum)': yes, 0 is no maximum. On purpose it is not the default: a queue without arguments has
    100 MiB (decision 92)."""
    name = queue({"capacity": 0})
    assert producer(name).send(20, 10_000).confirmed().acked == 20
    assert board.marks(name) == ((None, None), (None, None), (None, None))


def test_resume_capacity_is_the_capacity_by_default(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'flowResumeCapacity: the queue size at which producers are unflowed (defaulted to capacity)': yes."""
    name = queue(CAPACITY)
    publishing, taking = producer(name).send(4, OVERHEAD + 500).settled(), taker(name)
    taking.take(1)
    assert board.stopped(name), "1,500 are above 1,000"
    taking.take(1)
    assert not board.stopped(name)
    publishing.confirmed()


def test_capacity_of_a_virtual_host_is_that_of_each_of_its_queues(queue: Callable[..., str], board: Board) -> None:
    """'Like other such values these may be set on individual queues in the config, or on a per-virtualhost basis': yes,
    as a policy for `.*`. Scope `vhost` has the sum of all queues, and refuses their name with that advice."""
    run(board.broker, "policies", "set", "seeds", "^seeds[.]vhost", "capacity=20000", "flowResumeCapacity=8000")
    assert board.marks(queue(prefix="seeds.vhost."))[1:] == ((None, 20_000), (None, 8_000))
    run(board.broker, "policies", "clear", "seeds")
    assert "policies set" in run(board.broker, "set", "vhost", "/", "capacity=20000", code=1)


def test_commit_counts_with_its_publishes_and_settlements(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'Update the following two classes ... to call checkCapacity on the queue after they have enqueued a message':
    yes, better: before it. A commit counts with what it takes away, so a full queue can be read and written in one."""
    name = queue({"capacity-messages": 5, "stop-messages": 4, "resume-messages": 4, "hold-deadline": 0})
    committing = taker(name)
    committing.channel.tx_select()
    for number in range(4):
        committing.channel.basic_publish("", name, str(number).encode())
    committing.channel.tx_commit()
    producer(name).send(1).settled()
    assert (board.depth(name), board.stopped(name)) == (5, True)
    ((tag, _),) = committing.hold(1)
    committing.channel.basic_ack(tag)
    committing.channel.basic_publish("", name, b"9")
    answered: list[object] = []
    committing.channel._impl.tx_commit(callback=answered.append)
    eventually(
        lambda: committing.connection.process_data_events(0) or board.view(name)["unacknowledged"]["messages"] == 0,
        "the commit is applied",
    )
    assert (board.depth(name), board.view(name)["highest"]["messages"]) == (5, 5)
    board.keeper.queue_purge(name)
    eventually(lambda: committing.connection.process_data_events(0) or answered, "its answer")


def test_session_is_unblocked_when_no_queue_blocks_it(
    queue: Callable[..., str], board: Board, broker: BrokerProcess
) -> None:
    """'The set of queues on which the session is currently blocking. Only a session blocking on no queues can be
    unblocked': yes."""
    names = [queue(STOP_5) for _ in range(2)]
    with open_peer(broker, properties=OBEYS_FLOW) as peer:
        for name in names:
            peer.say(publish_frames(1, "", name, b"x") * 6)
        assert not flow_of(peer)
        (line,) = board.logged(f"(Queue {names[0]})", 1)
        subject = line.partition("] CHN-")[0].split("[")[-1]
        board.keeper.queue_purge(names[0])
        board.logged(f"{subject}] CHN-1006", 0)
        board.keeper.queue_purge(names[1])
        assert flow_of(peer)
        board.logged(f"{subject}] CHN-1006", 1)


def test_session_is_flowed_once_however_often_it_publishes(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'Add the given queue to the set of those which the session is blocking on (ignore if we are already blocking on
    this queue)': yes."""
    name = queue(STOP_5)
    producer(name).send(20).settled()
    board.logged(f"CHN-1005 : Flow Control Enforced (Queue {name})", 1)


def test_wakeups_between_producers_and_consumers_are_not_lost(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'guard against race condition where consumer takes messages, decreasing queue size message but not seeing that
    the queue was blocked so not issuing unblock': yes: one thread owns the queue, and nobody is left blocked."""
    name = queue({"capacity-messages": 3, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0})
    producers, takers = [producer(name) for _ in range(4)], [taker(name) for _ in range(2)]
    with ThreadPoolExecutor(6) as threads:
        sending = [threads.submit(lambda each=each: each.send(50).confirmed()) for each in producers]
        taken = [number for found in threads.map(lambda each: each.take(100), takers) for number in found]
        for each in sending:
            each.result()
    assert sorted(taken) == sorted(list(range(50)) * 4)
    view = board.view(name)
    assert (view["gate"]["open"], view["highest"]["messages"] <= 3, view["gate"]["blocked"]) == (True, True, 0)


def test_borders_are_above_capacity_and_at_resume_capacity(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'_atomicQueueSize.get() > _capacity' ... '_atomicQueueSize.get() <= _flowResumeCapacity': yes."""
    name = queue({"capacity": 1000, "flowResumeCapacity": 800})
    publishing, taking = producer(name).send(1, OVERHEAD + 200).send(2, OVERHEAD + 400).confirmed(), taker(name)
    assert not board.stopped(name), "1,000"
    publishing.send(1, OVERHEAD + 2).settled()
    assert board.stopped(name), "1,002"
    taking.take(1)
    assert board.stopped(name), "802"
    board.keeper.queue_purge(name)
    publishing.send(3, OVERHEAD + 400).settled()
    taking.take(1)
    assert not board.stopped(name), "800"


@pytest.mark.parametrize("how", ["acknowledge", "get", "purge", "delete", "raise"])
def test_depth_decrease_of_any_kind_unblocks(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    say: Callable[..., None],
    how: str,
) -> None:
    """'Modify SimpleAMQQueue to perform the capacity check, and also to unblock blocked channels when the queue reduces
    in size': yes, at every decrease, and when the queue is deleted or its thresholds are raised."""
    name = queue()
    say("queue", name, STOP_5)
    publishing, taking = producer(name).send(6).settled(), taker(name)
    if how == "acknowledge":
        taking.take(3)
    elif how == "get":
        taking.rest()
    elif how == "purge":
        board.keeper.queue_purge(name)
    elif how == "delete":
        board.keeper.queue_delete(name)
    else:
        say("queue", name, STOP_5 | {"stop-messages": 6, "resume-messages": 6})
    publishing.confirmed()


def test_broker_logs_each_request_to_a_session(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'on the broker each time the queue issues an overfull request to a session to start flow control': yes, CHN-1005,
    one line for each channel."""
    name = queue(STOP_5)
    for _ in range(3):
        producer(name).send(6).settled()
    lines = board.logged(f"CHN-1005 : Flow Control Enforced (Queue {name})", 3)
    assert len({line.partition("CHN-1005")[0].split("[con:")[1] for line in lines}) == 3
