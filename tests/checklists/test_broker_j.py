"""Broker-J's checklist, first part: producer flow control.

There a queue has one limit, the message that crosses it is let in, and so is all that is on its way. By its names it is
so here, up to a capacity that is derived. By ours that limit is the stop threshold. Where a test of theirs counts on a
message above it, the capacity is one message larger. Its borders are ours: closed above, open at or below.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock import ConfirmTimeout, FlowControlTimeout
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually
from tests.support.checklist_clients import OVERHEAD, Board, Producer, Taker
from tests.support.experiments import SUMS

pytestmark = pytest.mark.clients

S = 300
"""The charge of a message in these tests: theirs have about 300 bytes too."""


def bytes_of(capacity: float, stop: float, resume: float) -> dict[str, object]:
    """Thresholds in messages of `S` bytes."""
    return {"capacity-bytes": int(capacity * S), "stop-bytes": int(stop * S), "resume-bytes": int(resume * S)}


def test_publishes_beyond_the_stop_in_bytes_pass_below_the_resume_threshold(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, flow control by bytes: limit 3.5 s, resume 2 s; five are sent, four are in. One consumed changes
    nothing; two consumed let the fifth in. The capacity is 4 s, for here nothing passes it."""
    name = queue(bytes_of(4, 3.5, 2))
    publishing, taking = producer(name).send(5, S).settled(), taker(name)
    assert (board.depth(name), board.stopped(name), publishing.acked) == (4, True, 3)
    taking.take(1)
    assert (board.depth(name), board.stopped(name), board.held(name)) == (3, True, 1)
    taking.take(1)
    publishing.confirmed()
    assert (board.depth(name), board.stopped(name)) == (3, False)


@pytest.mark.parametrize(
    "names", [("x-qpid-capacity", "x-qpid-flow-resume-capacity"), ("capacity", "flowResumeCapacity")]
)
def test_limit_by_broker_j_names_withholds_the_publish_that_crosses_it(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    names: tuple[str, str],
) -> None:
    """Broker-J, flow control by bytes, by its pair of names: limit 3.5 s, resume 2 s; the fourth stops its sender. Two
    consumed change nothing, and three let it go on. The fifth was on its way and goes in, for the capacity is a quarter
    above the limit, at least 16 KiB."""
    name = queue({names[0]: int(3.5 * S), names[1]: 2 * S})
    publishing, taking = producer(name).send(5, OVERHEAD + S).settled(), taker(name)
    assert (board.depth(name), board.stopped(name), publishing.acked) == (5, True, 3)
    taking.take(2)
    assert board.stopped(name)
    taking.take(1)
    publishing.confirmed()
    assert not board.stopped(name)
    assert board.marks(name)[0] == (None, int(3.5 * S) + 16 * 1024)


def test_gate_with_resume_at_the_stop_opens_after_one_message_is_consumed(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, flow control by bytes: resume equal to the limit (3.5 s), and consuming one lets the next in."""
    name = queue(bytes_of(4, 3.5, 3.5))
    publishing = producer(name).send(5, S).settled()
    assert (board.depth(name), board.stopped(name), board.held(name)) == (4, True, 1)
    taker(name).take(1)
    eventually(lambda: board.depth(name) == 4, "the fifth")
    assert board.stopped(name), "which closes the gate again"
    assert publishing.settled().waiting == 1


def test_limits_that_change_while_a_producer_is_blocked(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    say: Callable[..., None],
) -> None:
    """Broker-J, limits changed by management: 0.5 s stops after one. 2.5 s with resume 1.5 s lets the second in and
    does not stop. A third stops, and consuming two lets go."""
    name = queue()
    say("queue", name, bytes_of(1, 0.5, 0.5))
    publishing, taking = producer(name).send(2, S).settled(), taker(name)
    assert (board.depth(name), board.stopped(name), publishing.waiting) == (1, True, 2)
    say("queue", name, bytes_of(3, 2.5, 1.5))
    publishing.confirmed()
    assert (board.depth(name), board.stopped(name)) == (2, False)
    publishing.send(1, S).settled()
    assert (board.depth(name), board.stopped(name)) == (3, True)
    taking.take(2)
    publishing.confirmed()
    assert not board.stopped(name)


def test_raising_the_limit_but_not_the_resume_point_stays_stopped(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, say: Callable[..., None]
) -> None:
    """Broker-J, removed tests: a raised capacity with resume still below the depth changes nothing for who waits; and
    lowering stops at once here, there only at the next publish."""
    name = queue()
    say("queue", name, bytes_of(4, 3.5, 1))
    publishing = producer(name).send(4, S).settled()
    say("queue", name, bytes_of(8, 7.5, 1))
    assert (board.stopped(name), publishing.settled().waiting) == (True, 1)
    say("queue", name, bytes_of(8, 7.5, 4))
    publishing.confirmed()
    say("queue", name, bytes_of(8, 3, 2))
    assert board.stopped(name)


@pytest.mark.parametrize(
    "arguments", [{"stop-bytes": 1, "resume-bytes": 0}, {"x-qpid-capacity": 1}], ids=["ours", "theirs"]
)
def test_limit_of_one_byte_stops_at_the_first_message(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    arguments: dict[str, object],
) -> None:
    """Broker-J, flow control by bytes: a limit of 1 byte stops at the first message, which goes in. (There with resume
    0. By its names 0 is not set here, as in the code that reads it; the resume is then the limit.)"""
    name = queue(arguments)
    publishing = producer(name).send().settled()
    assert (board.stopped(name), publishing.waiting) == (True, 1)
    taker(name).take(1)
    publishing.confirmed()


def test_queue_that_is_deleted_while_it_blocks_comes_back_empty_and_usable(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, flow control by bytes: delete the blocking queue and declare it again; nothing of the old one is in it.
    Who was blocked is answered: what was in is confirmed, what was held is refused."""
    name = queue(bytes_of(4, 3.5, 2))
    publishing = producer(name).send(6, S).settled()
    board.keeper.queue_delete(name)
    publishing.confirmed()
    assert (publishing.acked, publishing.nacked) == (4, 2)
    queue(bytes_of(4, 3.5, 2), name=name)
    assert (board.depth(name), board.stopped(name), board.held(name)) == (0, False, 0)
    publishing.send(1, S).confirmed()
    assert taker(name).rest() == [6]


def test_new_connection_to_a_full_queue_is_blocked_from_its_first_send(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, flow control by messages (there only with AMQP 1.0): the limit is one message, and a new connection's
    first one does not go in before there is room."""
    name = queue({"maximumQueueDepthMessages": 1, "overflowPolicy": "PRODUCER_FLOW_CONTROL"})
    producer(name).send().settled()
    for _ in range(3):
        newcomer = producer(name).send().settled()
        assert (newcomer.waiting, board.depth(name)) == (1, 1)
    assert board.held(name) == 3
    assert len(taker(name).take(4)) == 4
    newcomer.confirmed()


def test_gate_cycle_is_logged_once_each_way(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, removed tests: exactly one QUE-1003 and one QUE-1004 for each cycle, however many were published."""
    name = queue(bytes_of(10, 3.5, 2))
    publishing, taking = producer(name), taker(name)
    for cycle in range(1, 4):
        publishing.send(10, S).settled()
        taking.rest()
        publishing.confirmed()
        for line in ("QUE-1003 : Overfull", "QUE-1004 : Underfull"):
            board.logged(f"qu({name})] {line}", cycle)


@pytest.mark.parametrize(
    ("marks", "charge", "closed", "opened"),
    [
        (
            {"stop-bytes": 3000, "resume-bytes": 2400},
            S,
            "Size : 3,300 bytes, Capacity : 3,000, Messages : 11, Message Capacity : -1",
            "Size : 2,400 bytes, Resume Capacity : 2,400, Messages : 8, Message Capacity : -1",
        ),
        (
            {"stop-messages": 10, "resume-messages": 8, "stop-bytes": "none", "resume-bytes": "none"},
            0,
            "Capacity : -1, Messages : 11, Message Capacity : 10",
            "Resume Capacity : -1, Messages : 8, Message Capacity : 8",
        ),
    ],
    ids=["bytes", "messages"],
)
def test_eleven_messages_of_ten_block_once_and_eight_release(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    marks: dict[str, object],
    charge: int,
    closed: str,
    opened: str,
) -> None:
    """Broker-J, the policy's unit test: 11 of 10 bytes (times 300 here) or messages blocks the session once and is
    logged with these numbers. At 8, and not at 9, it goes on; at most one line each."""
    name = queue(marks)
    publishing, taking = producer(name).send(10, charge).confirmed(), taker(name)
    publishing.send(1, charge).settled()
    assert (board.stopped(name), board.view(name)["gate"]["blocked"]) == (True, 1)
    taking.take(2)
    assert board.stopped(name)
    taking.take(1)
    assert not board.stopped(name)
    lines = board.logged(f"qu({name})]", 2)
    assert [line.endswith(end) for line, end in zip(lines, (closed, opened), strict=True)] == [True, True], lines


def test_ten_producers_send_a_hundred_each_and_a_thousand_arrive(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, removed soak: ten producers of 100, capacity 20 s and resume 10 s; 1000 arrive, and not one more."""
    name = queue(bytes_of(20, 16, 10))
    producers = [producer(name).send(100, S) for _ in range(10)]
    taken = taker(name).take(1000)
    assert sorted(taken) == sorted(list(range(100)) * 10)
    for each in producers:
        assert each.confirmed().acked == 100
    view = board.view(name)
    assert (view["depth"]["messages"], view["highest"]["bytes"] <= 20 * S) == (0, True)


def test_transactions_enqueue_closes_the_gate(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Broker-J, removed tests: what a commit brings counts as any publish does, and who publishes next is blocked."""
    name = queue({"stop-messages": 3, "resume-messages": 3, "capacity-messages": 10, "hold-deadline": 0})
    committing = producer(name, confirms=False)
    channel = taker(name).channel
    channel.tx_select()
    for _ in range(3):
        channel.basic_publish("", name, b"0")
    assert board.depth(name) == 0
    channel.tx_commit()
    assert (board.depth(name), board.stopped(name)) == (3, False)
    committing.send().settled()
    assert board.stopped(name)
    assert producer(name).send().settled().waiting == 1


def test_client_is_notified_once_of_a_wait_for_flow_control(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, broker: BrokerProcess
) -> None:
    """Broker-J's client, removed tests: who waits hears of it while it waits, and of the failure exactly once. Here the
    error names the queue and the numbers, which theirs does not."""
    name = queue({"capacity-messages": 1})
    producer(name).send().settled()
    with connect(broker.url, protocol="amqp091", flow_control_wait_failure=0.5) as connection:
        publisher = connection.publisher(name, window=1)
        with pytest.raises((FlowControlTimeout, ConfirmTimeout), match=f"queue {name}: depth 1 message"):
            publisher.send_many([b"1", b"2"])


def test_full_virtual_host_blocks_producers_of_all_its_queues_old_and_new(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    say: Callable[..., None],
    sums: Board,
) -> None:
    """Broker-J, store overfull: 400,000 and 350,000 bytes for the whole virtual host. Producers of two queues are
    blocked before all is sent, so is a newcomer to a third; they go on at 350,000 and below, and everything arrives."""
    say("vhost", SUMS, {"stop-bytes": 400_000, "resume-bytes": 350_000})
    names = [queue(where=sums) for _ in range(3)]
    one, other = (producer(name, vhost=SUMS) for name in names[:2])
    while one.pump(1, 100, 5000) and other.pump(1, 100, 5000):
        pass
    assert (one.sent, other.sent) == (41, 41), "80 messages are 400,000 bytes, and each has one withheld"
    newcomer = producer(names[2], vhost=SUMS).send(1, 5000).settled()
    assert [each.waiting for each in (one, other, newcomer)] == [1, 1, 1]
    taking = taker(names[0], vhost=SUMS)
    taking.take(12)
    assert [each.settled().waiting for each in (one, other, newcomer)] == [1, 1, 1], "355,000 bytes"
    taking.take(1)
    for each in (one, other, newcomer):
        each.confirmed()
    arrived = [13 + len(taking.rest()), *(len(taker(name, vhost=SUMS).rest()) for name in names[1:])]
    assert arrived == [one.sent, other.sent, 1]


def test_overfull_and_underfull_virtual_host_are_logged_once_each(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    say: Callable[..., None],
    sums: Board,
    broker: BrokerProcess,
) -> None:
    """Broker-J, store quota events: fill, exactly one overfull; empty, exactly one underfull."""
    say("vhost", SUMS, {"stop-bytes": 100_000, "resume-bytes": 50_000})
    name = queue(where=sums)

    lines = [f"[vh(/{SUMS})] PST-1003 : Overfull", f"[vh(/{SUMS})] PST-1004 : Underfull"]
    before = [len(broker.logged(line)) for line in lines]
    publishing = producer(name, vhost=SUMS).send(30, 5000).settled()
    sums.keeper.queue_purge(name)
    publishing.confirmed()
    for line, count in zip(lines, before, strict=True):
        sums.logged(line, count + 1)
