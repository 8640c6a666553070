"""Qpid C++'s checklist, second part: what a stopped queue does to producers, and what lets them go on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from penstock.content.properties import Properties
from tests.support.brokers import BrokerProcess, eventually, penstock_command
from tests.support.checklist_clients import OVERHEAD, Board, Producer, Taker

pytestmark = pytest.mark.clients

STOP_5 = {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 3}


def test_command_line_sets_the_four_thresholds_and_shows_them_unchanged(
    queue: Callable[..., str], board: Board, broker: BrokerProcess
) -> None:
    """Qpid C++, flow limit tests: the tool sets all four numbers, they read back, and the queue is born open."""
    name = queue()
    words = ["stop-messages=373", "resume-messages=229", "stop-bytes=351133", "resume-bytes=251143"]
    done = penstock_command("set", "queue", name, *words, "--url", broker.url)
    assert done.returncode == 0, done.stderr
    shown = penstock_command("show", "queue", name, "--url", broker.url).stdout.splitlines()
    found = {f"{line.split()[0]}={line.split()[1]}" for line in shown}
    assert found >= set(words)
    assert not board.stopped(name)
    board.control.unset("queue", name)


@pytest.mark.parametrize(
    ("arguments", "charges"),
    [
        ({"qpid.flow_stop_count": 373, "qpid.flow_resume_count": 229}, (0, 0, 0)),
        (
            {"qpid.flow_stop_size": 351133, "qpid.flow_resume_size": 251143},
            (OVERHEAD + 439, OVERHEAD + 631, OVERHEAD + 823),
        ),
    ],
    ids=["by-count", "by-size"],
)
def test_producers_stop_at_their_windows_and_all_messages_are_delivered(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    arguments: dict[str, object],
    charges: tuple[int, int, int],
) -> None:
    """Qpid C++, flow limit tests by count and by size: windows of 50, 13 and 149 messages, totals of 1213, 797 and 331.
    The queue stops, its depth is stable below the total, draining gives exactly all, and it ends open."""
    name = queue(arguments)
    totals, windows = (1213, 797, 331), (50, 13, 149)
    parties = [producer(name) for _ in totals]
    taking = taker(name)

    def pump() -> bool:
        moves = zip(parties, windows, totals, charges, strict=True)
        moved = [each.pump(window, total, charge) for each, window, total, charge in moves]
        return any(moved)

    while pump():
        pass
    view = board.view(name)
    depth = view["depth"]
    assert view["gate"]["open"] is False
    assert depth["messages"] > 373 if charges[0] == 0 else depth["bytes"] > 351133
    for each, window, total in zip(parties, windows, totals, strict=True):
        assert each.waiting == window or each.sent == total, "nobody may publish more, so the depth is stable"
    assert depth["messages"] == sum(each.sent for each in parties) < sum(totals)
    taken = 0
    while taken < sum(totals):
        taken += len(taking.rest())
        pump()
    assert taking.rest() == []
    assert [(each.acked, each.sent) for each in parties] == [(total, total) for total in totals]
    assert (board.stopped(name), board.crossings(name) >= 1) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "charge", "unit", "stop", "resume"),
    [
        ({"qpid.max_count": 1000}, 0, "messages", 800, 700),
        ({"qpid.max_size": 10_000}, OVERHEAD + 10, "bytes", 8000, 7000),
    ],
    ids=["count", "size"],
)
def test_default_thresholds_act_at_80_and_70_percent(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    arguments: dict[str, object],
    charge: int,
    unit: str,
    stop: int,
    resume: int,
) -> None:
    """Qpid C++, flow limit tests, default count and size: stopped above 80 %, not any more below 70 %."""
    name = queue(arguments)
    publishing = producer(name).send(1000, charge).settled()
    assert board.stopped(name)
    assert board.view(name)["depth"][unit] > stop
    assert publishing.waiting == 200, "801 closed the gate: its confirmation and those after it are withheld"
    taking = taker(name)
    taking.take(300)
    assert (board.view(name)["depth"][unit], board.stopped(name)) == (resume, True)
    taking.take(1)
    assert not board.stopped(name)
    publishing.confirmed()


def test_deleted_queue_releases_its_sender(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """Qpid C++, flow limit tests: stop_size 10, resume_size 2, window 10; the queue is deleted. What was in it is
    confirmed, for it was; there is nothing to be refused, for all ten were taken."""
    name = queue({"qpid.flow_stop_size": 10, "qpid.flow_resume_size": 2})
    publishing = producer(name).send(10, OVERHEAD + 11).settled()
    assert publishing.waiting == 10
    board.keeper.queue_delete(name)
    publishing.confirmed()
    assert (publishing.acked, publishing.nacked) == (10, 0)


def test_five_sends_pass_and_the_sixth_blocks_until_four_are_gone(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, cluster tests, on one node: stop 5, resume 3, stopped once, and four acknowledgements open it."""
    name = queue(STOP_5)
    publishing = producer(name).send(5).confirmed()
    publishing.send().settled()
    assert (publishing.waiting, board.crossings(name)) == (1, 1)
    taking = taker(name)
    tags = [tag for tag, _ in taking.hold(4)]
    assert board.stopped(name), "what a consumer has and has not acknowledged still counts"
    for tag in tags[:3]:
        taking.channel.basic_ack(tag)
    taking.settled()
    assert (board.depth(name), board.stopped(name), publishing.settled().waiting) == (3, True, 1)
    taking.channel.basic_ack(tags[3])
    publishing.confirmed()
    assert (board.stopped(name), board.crossings(name)) == (False, 1)


def test_confirmations_are_withheld_from_the_crossing_message_on(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, state machine: the crossing message is the first held one; withheld ones are delivered all the same.
    A withheld message that is taken is confirmed there at once; here confirmations keep their order (decision 7)."""
    name = queue(STOP_5)
    publishing = producer(name).send(8).settled()
    assert (publishing.acked, publishing.waiting) == (5, 3)
    taking = taker(name)
    held = taking.hold(8)
    assert [int(body) for _, body in held] == list(range(8))
    taking.channel.basic_ack(held[7][0])
    taking.settled()
    assert (publishing.settled().waiting, board.stopped(name)) == (3, True)
    taking.channel.basic_ack(held[4][0], multiple=True)
    publishing.confirmed()


@pytest.mark.parametrize("how", ["purge", "reject", "move"])
def test_purge_reject_and_move_open_the_gate_of_a_queue(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    how: str,
) -> None:
    """Qpid C++, state machine: purge, reject by the consumer, and taking to put elsewhere (move) all resume."""
    name = queue(STOP_5)
    publishing = producer(name).send(6).settled()
    assert publishing.waiting == 1
    taking = taker(name)
    if how == "purge":
        board.keeper.queue_purge(name)
    elif how == "reject":
        for tag, _ in taking.hold(4):
            taking.channel.basic_reject(tag, requeue=False)
    else:
        other = queue()
        taking.channel.tx_select()
        for tag, body in taking.hold(4):
            taking.channel.basic_publish("", other, body)
            taking.channel.basic_ack(tag)
        taking.channel.tx_commit()
        assert board.depth(other) == 4
    publishing.confirmed()
    assert not board.stopped(name)


def test_expiry_opens_the_gate(queue: Callable[..., str], taker: Callable[..., Taker], board: Board) -> None:
    """Qpid C++, state machine: messages that expire resume flow. (Six in one commit, so that they close the gate before
    the first of them can expire; its answer is withheld until they have.)"""
    name = queue(STOP_5 | {"message-ttl": 50, "hold-deadline": 0})
    channel = taker(name).channel
    channel.tx_select()
    for _ in range(6):
        channel.basic_publish("", name, b"x")
    channel.tx_commit()
    eventually(lambda: board.view(name)["expired"] == 6, "they are gone")
    assert (board.stopped(name), board.crossings(name)) == (False, 1)


def test_fan_out_over_several_stopped_queues_is_confirmed_by_the_last(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, not tested there: a message that went to three stopped queues is confirmed when all three are open."""
    names = [queue(STOP_5, prefix="fan") for _ in range(3)]
    for name in names:
        board.keeper.queue_bind(name, "amq.direct", names[0])
    publishing = producer(names[0], "amq.direct").send(6).settled()
    assert publishing.waiting == 1
    for number, name in enumerate(names):
        assert publishing.settled().waiting == 1, f"{3 - number} of them are closed"
        taker(name).take(4)
    publishing.confirmed()


def test_producer_that_reconnects_while_withheld_meets_the_same_gate(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, not tested there: a producer goes while its confirmations are withheld, and comes back. The old one is
    forgotten, the new one waits, nothing is doubled by the broker."""
    name = queue(STOP_5)
    leaving = producer(name).send(7).settled()
    assert leaving.waiting == 2
    leaving.close()
    eventually(lambda: board.view(name)["gate"]["blocked"] == 0, "the old one is forgotten")
    coming = producer(name).send(1).settled()
    assert (coming.waiting, board.view(name)["gate"]["blocked"]) == (1, 1)
    assert len(taker(name).rest()) == 8
    coming.confirmed()


def test_stop_and_resume_are_logged_with_their_depth(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
) -> None:
    """Qpid C++, not tested there: one line for each crossing, with the numbers."""
    name = queue(STOP_5)
    publishing, taking = producer(name), taker(name)
    for _ in range(2):
        publishing.send(6).settled()
        taking.rest()
        publishing.confirmed()
    lines = [re.sub(r".*\] (QUE-\d+).*Messages : (\d+),.*", r"\1 \2", line) for line in board.logged(f"qu({name})]", 4)]
    assert lines == ["QUE-1003 6", "QUE-1004 2"] * 2


def test_transaction_under_flow_control_is_withheld_whole(
    queue: Callable[..., str], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, not tested there: a commit that crosses the stop threshold is applied, and its answer withheld (there
    transactions pass flow control by)."""
    name = queue(STOP_5 | {"hold-deadline": 0})
    committing, taking = taker(name), taker(name)
    committing.channel.tx_select()
    for number in range(6):
        committing.channel.basic_publish("", name, str(number).encode())
    answered: list[object] = []
    committing.channel._impl.tx_commit(callback=answered.append)
    eventually(lambda: committing.connection.process_data_events(0) or board.stopped(name), "the gate closes")
    assert board.depth(name) == 6
    committing.connection.channel()
    assert answered == []
    taking.take(4)
    eventually(lambda: committing.connection.process_data_events(0) or answered, "the answer")


def test_properties_count_as_bytes(queue: Callable[..., str], producer: Callable[..., Producer], board: Board) -> None:
    """Qpid C++, size limits: sizes include headers, and what goes in is what comes out."""
    name = queue()
    publishing = producer(name)
    publishing.channel.publish(b"12345", routing_key=name, properties=Properties(correlation_id="0123456789"))
    publishing.settled()
    assert board.octets(name) == OVERHEAD + 2 + 11 + 5
    board.keeper.queue_purge(name)
    assert board.octets(name) == 0
