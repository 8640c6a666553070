"""Artemis' checklist: gates that meet, sums that end at nothing, and what is not tested there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.brokers import BrokerProcess, eventually, in_background, some_name
from tests.support.checklist_clients import Board, Producer, Taker
from tests.support.experiments import SUMS
from tests.support.raw_channel import Connection

pytestmark = pytest.mark.clients

FIVE = {"capacity-messages": 5, "stop-messages": 4, "resume-messages": 2, "hold-deadline": 0}


@pytest.mark.parametrize("operator_last", [False, True], ids=["operator-first", "operator-last"])
def test_full_queue_and_an_operators_block_are_two_reasons_in_either_order(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    operator_last: bool,
) -> None:
    """Artemis, paging store: block() and full meet in both orders; who waits goes on when neither holds any more, and
    each publish that was parked goes in exactly once."""
    name = queue(FIVE)
    publishing = producer(name).send(5).settled()
    if operator_last:
        publishing.send(2).settled()
    board.control.block("queue", name, "maintenance")
    if not operator_last:
        publishing.send(2).settled()
    assert (board.depth(name), board.held(name)) == (5, 1)
    if operator_last:
        taking = taker(name)
        assert taking.take(5) == [0, 1, 2, 3, 4]
        assert board.depth(name) == 0, "the operator still holds what is parked"
        board.control.unblock("queue", name)
    else:
        board.control.unblock("queue", name)
        publishing.settled()
        assert (board.depth(name), board.held(name)) == (5, 1), "it is still full"
        taking = taker(name)
        assert taking.take(5) == [0, 1, 2, 3, 4]
    publishing.confirmed()
    assert taking.rest() == [5, 6]


def test_percentages_of_one_queue_and_of_all(queue: Callable[..., str], board: Board, say: Callable[..., None]) -> None:
    """Artemis, paging store: a limit in percent, for all and for one; the nearer one counts."""
    say("broker", "", {"stop-percent": 50, "resume-percent": 25})
    everybody, own = queue({"max-size-bytes": 1000}), queue({"max-size-bytes": 1000, "stop-percent": 60})
    assert board.marks(everybody)[1:] == ((None, 500), (None, 250))
    assert board.marks(own)[1:] == ((None, 600), (None, 250))


def test_crossings_come_in_pairs_however_many_publish_and_consume(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Artemis, the size metric: with many threads no over and no under is lost."""
    name = queue({"stop-messages": 3, "resume-messages": 2, "capacity-messages": 8})
    producers = [producer(name) for _ in range(4)]
    takers = [taker(name) for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        sending = [threads.submit(lambda each=each: each.send(100).confirmed()) for each in producers]
        taken = [number for found in threads.map(lambda each: each.take(100), takers) for number in found]
        for each in sending:
            each.result()
    assert sorted(taken) == sorted(list(range(100)) * 4)
    assert board.crossings(name) > 0
    lines = board.broker.logged(f"qu({name})] QUE-")  # Those that come many times a second are summed.
    assert ["QUE-1003" in line for line in lines] == [index % 2 == 0 for index in range(len(lines))]
    assert board.view(name)["depth"] == {"messages": 0, "bytes": 0}


def test_reason_may_pass_from_messages_to_bytes_while_it_stays_closed(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    say: Callable[..., None],
) -> None:
    """Artemis, the size metric: closed by count, then by size: one crossing. A new maximum counts at once."""
    name = queue()
    limits = {"stop-messages": 5, "resume-messages": 2, "stop-bytes": 5000, "resume-bytes": 2000}
    say("queue", name, limits)
    publishing = producer(name).send(5, 300).send(1, 3000).send(1, 1500).settled()
    taking = taker(name)
    taking.take(5)
    view = board.view(name)
    assert (view["depth"], view["gate"]["open"]) == ({"messages": 2, "bytes": 4500}, False)
    say("queue", name, limits | {"resume-bytes": 4500})
    publishing.confirmed()
    assert (board.stopped(name), board.crossings(name)) == (False, 1)
    say("queue", name, limits | {"stop-bytes": 4000})
    assert (board.stopped(name), board.crossings(name)) == (True, 2)


BLOCKED_TEN = """
import sys
from tests.support.raw_channel import Connection
channels = [Connection(sys.argv[1]).channel() for _ in range(10)]
for channel in channels:
    channel.confirm_select()
    for number in range(20):
        channel.publish(b"x", routing_key=sys.argv[2])
    channel.qos(0)
print("blocked", flush=True)
sys.stdin.read()
"""


def test_killing_ten_blocked_clients_leaves_nothing(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, broker: BrokerProcess
) -> None:
    """Artemis, leaks: ten clients are blocked and die without a word; nobody waits any more, nothing is held, and what
    was accepted is there."""
    name = queue(FIVE)
    before = len(board.control.status()["connections"])
    words = [sys.executable, "-c", BLOCKED_TEN, broker.url, name]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "blocked\n"
        assert (board.depth(name), board.held(name)) == (5, 10)
        process.kill()
    eventually(lambda: len(board.control.status()["connections"]) == before, "they are gone")
    view = board.view(name)
    assert (view["gate"]["waiting"], view["gate"]["blocked"], view["depth"]["messages"]) == (0, 0, 5)
    board.keeper.queue_purge(name)
    producer(name).send(3).confirmed()
    assert board.depth(name) == 3


def test_subscribers_of_all_kinds_leave_the_sum_of_the_virtual_host_at_0(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    say: Callable[..., None],
    sums: Board,
) -> None:
    """Artemis, accounting: 200 subscribers that acknowledge, refuse, purge, are deleted, let expire or go away with
    their connection. At the end the virtual host has room for exactly its capacity, and not for one message more."""
    say("vhost", SUMS, {"capacity-bytes": 2_000_000, "stop-bytes": 2_000_000})
    with Connection(sums.broker.url + SUMS) as leaving:
        going = leaving.channel()
        names = []
        for number in range(200):
            arguments: dict[str, object] = {"message-ttl": 20} if number % 6 == 4 else {}
            if number % 6 == 5:
                name, _, _ = going.queue_declare(some_name("sub"), exclusive=True)
                going.queue_bind(name, "amq.fanout")
            else:
                name = queue(arguments, where=sums)
                sums.keeper.queue_bind(name, "amq.fanout")
            names.append(name)
        assert producer("", "amq.fanout", vhost=SUMS).send(5, 400).confirmed().acked == 5
        taking = taker(names[0], vhost=SUMS)
        for number, name in enumerate(names):
            if number % 6 == 2:
                sums.keeper.queue_purge(name)
            elif number % 6 == 3:
                sums.keeper.queue_delete(name)
            elif number % 6 < 2:
                taking.queue = name
                for tag, _ in taking.hold(5):
                    taking.channel.basic_reject(tag, requeue=False) if number % 6 else taking.channel.basic_ack(tag)
    taking.settled()
    for number, name in enumerate(names):
        if number % 6 == 4:
            eventually(lambda name=name: sums.depth(name) == 0, "they have expired")
    told = [gate["depth"] for gate in sums.view(names[0])["gates"] if gate["kind"] == "vhost"]
    assert told == [{"messages": 0, "bytes": 0}]
    filling = producer(names[0], vhost=SUMS).send(5, 400_000).settled()
    assert filling.waiting == 0
    more = producer(names[1], vhost=SUMS).send().settled()
    assert more.waiting == 1
    assert taking.connection.is_open


def test_subscriptions_that_end_while_messages_are_routed_leave_nothing(
    say: Callable[..., None],
    queue: Callable[..., str],
    board: Board,
    broker: BrokerProcess,
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
) -> None:
    """Artemis, accounting: queues are deleted in the middle of a stream to all of them; every message is answered, and
    the address holds nothing when the last queue is empty."""
    exchange = some_name("address")
    board.keeper.exchange_declare(exchange, "fanout")
    say("address", exchange, {"max-size-messages": 50, "stop-messages": 40, "resume-messages": 0})
    names = [queue() for _ in range(5)]
    for name in names:
        board.keeper.queue_bind(name, exchange)
    publishing = producer("", exchange)

    def publish() -> None:
        publishing.send(300).confirmed()

    with in_background(publish):
        for name in names[1:]:
            eventually(lambda name=name: board.depth(name) > 0, "messages on their way")
            board.keeper.queue_delete(name)
        assert len(taker(names[0]).take(300)) == 300
    assert (publishing.acked, publishing.nacked) == (300, 0)
    publishing.send(40).settled()
    assert publishing.waiting == 0, "it counts from nothing: the fortieth does not close it"
    publishing.send().settled()
    assert publishing.waiting == 1
    board.keeper.queue_purge(names[0])
    publishing.confirmed()


# Not tested there


def test_blocked_producers_take_turns(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Artemis, not tested there: fairness. Of five that wait with equal messages each gets one in before any two."""
    name = queue({"capacity-messages": 1, "hold-deadline": 0})
    producer(name).send().settled()
    producers = [producer(name) for _ in range(5)]
    for number, each in enumerate(producers):
        each.sent = 1000 * (number + 1)
        each.send(10).settled()
    assert board.held(name) == 5
    assert taker(name).take(51)[1:] == [1000 * who + turn for turn in range(10) for who in range(1, 6)]


@pytest.mark.parametrize("limit", [{"capacity-messages": 50}, {"capacity-bytes": 50 * 300}], ids=["messages", "bytes"])
def test_depth_never_passes_the_capacity(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    board: Board,
    limit: dict[str, object],
) -> None:
    """Artemis, not tested there: the overshoot. Eight producers that wait for nothing, not one message too many."""
    name = queue(limit)
    producers = [producer(name) for _ in range(8)]
    for each in producers:
        each.send(100, 300)
    for each in producers:
        each.settled()
    assert board.view(name)["highest"] == {"messages": 50, "bytes": 50 * 300}
    assert sum(each.waiting for each in producers) == 8 * 100 - sum(each.acked for each in producers)
    assert [each.nacked for each in producers] == [0] * 8


def test_limit_that_is_removed_while_full_releases_all_producers(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, say: Callable[..., None]
) -> None:
    """Artemis, not tested there: the limit is removed while producers wait at it."""
    name = queue()
    say("queue", name, dict(FIVE))
    producers = [producer(name).send(10).settled() for _ in range(3)]
    assert (board.depth(name), board.held(name)) == (5, 3)
    board.control.unset("queue", name)
    for each in producers:
        each.confirmed()
    assert board.depth(name) == 30
    say("queue", name, {"capacity-messages": 100})


@pytest.mark.parametrize(
    ("policy", "acked", "nacked", "left"),
    [("reject", 5, 3, [0, 1, 2, 3, 4]), ("drop-new", 5, 3, [0, 1, 2, 3, 4]), ("drop-head", 8, 0, [3, 4, 5, 6, 7])],
)
def test_policy_that_changes_while_publishes_are_held_judges_them(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    say: Callable[..., None],
    policy: str,
    acked: int,
    nacked: int,
    left: list[int],
) -> None:
    """Artemis, not tested there: the policy of a full queue changes while publishes are parked; they are judged by the
    new one, at once."""
    name = queue()
    say("queue", name, dict(FIVE))
    publishing = producer(name).send(8).settled()
    say("queue", name, {"overflow": policy, "capacity-messages": 5, "stop-messages": "none", "resume-messages": "none"})
    publishing.confirmed()
    assert (publishing.acked, publishing.nacked) == (acked, nacked)
    assert taker(name).rest() == left


def test_deleted_address_leaves_its_routed_publishes_alone(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Artemis, not tested there: the address is deleted while publishes through it are parked. They know their queue,
    and go in when there is room."""
    exchange, name = some_name("address"), queue(FIVE)
    board.keeper.exchange_declare(exchange, "fanout")
    board.keeper.queue_bind(name, exchange)
    publishing = producer("", exchange).send(7).settled()
    assert (board.depth(name), board.held(name)) == (5, 1)
    taking = taker(name)
    taking.channel.exchange_delete(exchange)
    assert taking.take(7) == list(range(7))
    publishing.confirmed()


def test_blocked_time_of_a_producer_is_reported(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Artemis, not tested there: since when a producer is blocked, how often and how long in all; it stops growing when
    the gate opens."""
    name = queue(FIVE)
    publishing = producer(name).send(5).settled()
    (block,) = board.view(name)["blocked"]
    assert (block["times"], block["withheld"], block["blocked_for_s"] > 0) == (1, 1, True)
    later = board.view(name)["blocked"][0]
    assert later["total_s"] > block["total_s"]
    taker(name).take(5)
    publishing.confirmed()
    assert board.view(name)["blocked"] == []
    first, second = (board.view(name)["gate"]["producers"][0] for _ in range(2))
    assert (first["blocked_for_s"], first["total_s"]) == (None, second["total_s"])
    assert first["total_s"] > later["total_s"]
