"""Leases: their pinned ranges, their answers, and their ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.queue.cursor_state import LeaseState, holds_back
from penstock.core.queue.queue import Queue
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.flow.pool import PoolHolder
from penstock.flow.work import ASKING_SHARE, SHARE
from penstock.protocols.amqp091.content_frames import body_of, make_content
from penstock.ranges.leases import GRACE_S, PARTS_MOST, FetchedParts
from penstock.settings.pools import LEASES
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.longest_turn import LongestTurn

CONTENT = make_content(Properties(), b"body")


class Desk:
    """A driver with queues of ten messages, and one client."""

    def __init__(self, *queues: str) -> None:
        self.driver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        self.vhost.declare_queue("answers", {}, False, False, None, None)
        for name in queues:
            self.declare(name)
        self.client = Dialogue(self.driver)

    def declare(self, name: str, **arguments: object) -> Queue:
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue = self.vhost.declare_queue(name, table, False, False, None, None)
        for _ in range(10):
            queue.enqueue(Envelope("", name), CONTENT, 10, 0.0)
        return queue

    def ask(self, operation: str, **fields: object) -> Any:
        """Ask; return the answer, or the octets of a block."""
        before = int(self.vhost.queues["answers"].messages)
        self.client.say(request(operation, **fields))
        self.driver.run_turn()
        queue = self.vhost.queues["answers"]
        assert queue.messages == before + 1, "one answer"
        if operation == "cursor.range" and b"PSB1" in queue.ready_queue.messages()[-1].content:
            return queue.ready_queue.messages()[-1].content
        return self.answers()[-1]

    def cursor(self, name: str, *queues: str) -> int:
        found: int = self.ask("cursor.attach", cursor=name, queues=list(queues))["token"]
        return found

    def pass_time(self, seconds: float) -> None:
        self.driver.begin(self.driver.broker.now + seconds)
        self.driver.run_turn()

    def leases(self) -> list[LeaseState]:
        return self.driver.control.ranges.cursors.leases.every()

    def answers(self) -> list[Any]:
        """Return the answers that are objects."""
        found = self.vhost.queues["answers"].ready_queue.messages()
        return [json.loads(body_of(message.content)) for message in found if b"PSB1" not in message.content]


@pytest.fixture
def desk() -> Desk:
    return Desk("q")


def test_lease_keeps_messages_settled_meanwhile_until_the_lease_ends(desk: Desk) -> None:
    token = desk.cursor("c", "q")
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 2})
    lease = desk.ask("lease.open", queues=["q"], cursor="c", timeout_ms=1000)
    assert lease["queues"] == {"q": {"earliest": 2, "tail": 10, "settled": 2, "unpinned": ""}}
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 9})
    assert desk.vhost.queues["q"].messages == 8, "the depth tells of it, and so does the name of who keeps it"
    assert desk.vhost.queues["q"].cursors[1].name == "lease 1 of con:1(guest@127.0.0.1:1/)"
    said = " ".join(desk.ask("why", queue="q")["sentences"])
    assert "cursor c of user guest, which has settled up to 9 of 10" in said
    assert (
        "lease 1 of con:1(guest@127.0.0.1:1/), of a batch read by user guest, pins messages 3 to 10 of queue q, and "
        "keeps 7 of them that are settled; it ends in 1.0 s without another block (`penstock leases end 1`)"
    ) in said
    block = desk.ask("cursor.range", lease=1, queue="q", lo=2, hi=10)
    assert block.count(b"body") == 8
    assert desk.ask("cursor.range", lease=1, queue="q", lo=2, hi=10) == block, "it is repeatable"
    desk.ask("lease.close", lease=1)
    assert desk.vhost.queues["q"].messages == 1
    assert [cursor.name for cursor in desk.vhost.queues["q"].cursors] == ["c"]


def test_lease_ends_by_time_out_and_each_block_restarts_the_time_out(desk: Desk) -> None:
    desk.ask("lease.open", queues=["q"], timeout_ms=1000)
    assert "has no cursor but lease 1" in " ".join(desk.ask("why", queue="q")["sentences"])
    for _ in range(3):
        desk.pass_time(0.9)
        desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=10)
    assert desk.vhost.queues["q"].cursors
    desk.pass_time(1.1)
    assert desk.vhost.queues["q"].cursors == []
    assert desk.vhost.queues["q"].messages == 10, "it removes nothing"
    refusal = desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=10)
    assert (refusal["name"], "lease 1 has ended" in refusal["text"]) == ("not-found", True)


def test_queue_that_no_cursor_may_have_is_read_and_not_kept() -> None:
    desk = Desk()
    queue = desk.declare("q", x_max_length=100)
    told = desk.ask("lease.open", queues=["q"])["queues"]["q"]
    assert "drop-head" in told["unpinned"]
    assert queue.cursors == []
    line = queue.ready_queue
    assert desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=10).count(b"body") == 10
    desk.ask("lease.close", lease=1)
    assert queue.messages == 10
    assert queue.ready_queue is not line, "its messages are in the line of a queue without cursors again"


def test_consumers_of_a_leased_queue_continue_and_the_answer_says_so(desk: Desk) -> None:
    queue = desk.vhost.queues["q"]
    session = Session()
    desk.driver.broker.consume(session, Consumer("t", session, queue, False, False, 1))
    assert "has 1 consumers, which go on" in desk.ask("lease.open", queues=["q"])["queues"]["q"]["unpinned"]
    assert session.get(queue, True, 0.0) is not None
    assert desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=10).count(b"body") < 10
    desk.ask("lease.close", lease=1)
    assert queue.cursors == []
    assert session.get(queue, True, 0.0) is not None


def test_lease_of_a_cursor_alone_has_the_queues_of_the_subscription() -> None:
    desk = Desk("q", "r", "s")
    desk.cursor("c", "q", "r")
    desk.ask("cursor.attach", cursor="c", queues=["r"])
    assert list(desk.ask("lease.open", cursor="c")["queues"]) == ["r"]
    assert "no cursor 'none'" in desk.ask("lease.open", cursor="none")["text"]


def test_wrong_requests_are_refused_and_leave_no_lease(desk: Desk) -> None:
    desk.declare("first", x_max_priority=5)
    assert "no queue 'none'" in desk.ask("lease.open", queues=["q", "none"])["text"]
    assert "has priorities" in desk.ask("lease.open", queues=["q", "first"])["text"]
    assert "'timeout_ms' must be from 1 to 3600000, not 0" in desk.ask("lease.open", queues=["q"], timeout_ms=0)["text"]
    assert desk.vhost.queues["q"].cursors == []
    partial = desk.ask("lease.open", queues=["first", "none", "q"], partial=True)
    assert (list(partial["queues"]), sorted(partial["refused"])) == (["q"], ["first", "none"])


@pytest.mark.once
def test_leases_of_a_user_leave_a_share_to_other_users(desk: Desk) -> None:
    count = 0
    while "lease" in (answer := desk.ask("lease.open", queues=["q"])):
        count += 1
    assert LEASES.limit // 4 < count <= 3 * LEASES.limit // 4
    assert f"has {count} and one more does not fit into its share" in answer["text"]
    pool = desk.vhost.broker.pools.of(LEASES)
    assert int(pool.taken) == len(desk.vhost.queues["q"].cursors) == count
    assert pool.fits(PoolHolder("bob", "other"), LEASES.limit // 20)
    desk.ask("lease.close", lease=1)
    assert "lease" in desk.ask("lease.open", queues=["q"])


def test_lease_settles_nothing_and_is_no_cursor_by_name(desk: Desk) -> None:
    desk.ask("lease.open", queues=["q"])
    name = desk.vhost.queues["q"].cursors[0].name
    assert "no cursor" in desk.ask("cursor.settle", cursor=name, token=0, end={"q": 5})["text"]
    assert desk.vhost.queues["q"].messages == 10
    assert desk.vhost.cursors == {}


def test_leases_end_with_the_virtual_host_and_a_deleted_queue_is_reported() -> None:
    desk = Desk("q", "r")
    desk.ask("lease.open", queues=["q", "r"])
    desk.driver.broker.delete_queue(desk.vhost.queues["r"])
    assert "was deleted" in desk.ask("cursor.range", lease=1, queue="r", lo=0, hi=10)["text"]
    desk.driver.control.ranges.forget(desk.vhost)
    assert desk.vhost.queues["q"].cursors == []
    assert "lease 1 has ended" in desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=10)["text"]


def test_limit_of_the_lag_does_not_concern_a_lease() -> None:
    desk = Desk()
    queue = desk.declare("q", cursor_max_lag_messages=5, cursor_max_lag_policy="detach")
    token = desk.cursor("c", "q")
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 9})
    desk.ask("lease.open", queues=["q"])
    for _ in range(3):
        desk.pass_time(1.5)
    assert [cursor.name for cursor in queue.cursors] == ["c", "lease 1 of con:1(guest@127.0.0.1:1/)"]
    assert holds_back(queue.cursors[0].positions["q"])
    desk.ask("cursor.delete", cursor="c")
    for _ in range(3):
        desk.pass_time(1.5)
    assert len(queue.cursors) == 1
    assert desk.ask("cursor.range", lease=1, queue="q", lo=9, hi=10).count(b"body") == queue.messages


# Ranges and counts


def test_narrowed_lease_pins_only_the_range_and_counts_the_messages(desk: Desk) -> None:
    token = desk.cursor("c", "q")
    desk.ask("lease.open", queues=["q"])
    assert desk.ask("lease.narrow", lease=1, borders={"q": [2, 4, 7]}) == {"rows": {"q": [2, 3]}}
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 10})
    assert desk.vhost.queues["q"].messages == 5
    assert desk.ask("cursor.range", lease=1, queue="q", lo=2, hi=7).count(b"body") == 5
    assert (
        "reads (2, 7] of queue 'q', and (1, 7] is not within it"
        in desk.ask("cursor.range", lease=1, queue="q", lo=1, hi=7)["text"]
    )
    assert "(2, 8] is not within it" in desk.ask("lease.narrow", lease=1, borders={"q": [2, 8]})["text"]


def test_messages_that_come_after_the_plan_are_not_pinned(desk: Desk) -> None:
    queue = desk.vhost.queues["q"]
    token = desk.cursor("c", "q")
    desk.ask("lease.open", queues=["q"])
    for _ in range(5):
        queue.enqueue(Envelope("", "q"), CONTENT, 10, 0.0)
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 15})
    assert queue.messages == 10


def test_queue_without_borders_is_released_by_a_narrowed_lease() -> None:
    desk = Desk("q", "r")
    desk.ask("lease.open", queues=["q", "r"])
    desk.ask("lease.narrow", lease=1, borders={"q": [0, 4], "r": [5, 5]})
    assert [len(desk.vhost.queues[name].cursors) for name in ("q", "r")] == [1, 0]
    assert "does not read queue 'r'" in desk.ask("lease.narrow", lease=1, borders={"r": [0, 1]})["text"]


def test_unpinned_queue_without_borders_has_an_ordinary_line_again() -> None:
    desk = Desk()
    queue = desk.declare("q", x_max_length=100)
    desk.ask("lease.open", queues=["q"])
    assert isinstance(queue.ready_queue, SharedReadyQueue)
    desk.ask("lease.narrow", lease=1, borders={})
    assert not isinstance(queue.ready_queue, SharedReadyQueue)
    assert queue.messages == 10


def test_lease_without_anything_to_read_is_finished(desk: Desk) -> None:
    desk.ask("lease.open", queues=["q"])
    desk.ask("lease.narrow", lease=1, borders={})
    assert desk.leases()[0].finished
    desk.pass_time(GRACE_S + 0.1)
    assert desk.leases() == []


@pytest.mark.parametrize(
    "borders", [{"q": [1]}, {"q": 3}, {"q": [3, 2]}, {"q": [-1, 2]}, {"q": [0, True]}, {"q": "ab"}]
)
def test_borders_that_are_invalid_are_refused_in_a_sentence(desk: Desk, borders: dict[str, object]) -> None:
    desk.ask("lease.open", queues=["q"])
    assert "'borders.q' must be" in desk.ask("lease.narrow", lease=1, borders=borders)["text"]
    assert "'borders.q' must be" in desk.ask("lease.open", queues=["q"], borders=borders)["text"]
    assert [state.number for state in desk.leases()] == [1], "a refused lease is none"


def test_messages_of_a_queue_with_consumers_are_not_counted(desk: Desk) -> None:
    session = Session()
    queue = desk.vhost.queues["q"]
    desk.driver.broker.consume(session, Consumer("t", session, queue, False, False, 1))
    desk.ask("lease.open", queues=["q"])
    assert desk.ask("lease.narrow", lease=1, borders={"q": [1, 10]}) == {"rows": {"q": [None]}}


# The end of a read


def test_lease_ends_after_the_grace_when_all_slices_were_read_once(desk: Desk) -> None:
    token = desk.cursor("c", "q")
    desk.ask("lease.open", queues=["q"])
    desk.ask("lease.narrow", lease=1, borders={"q": [0, 5, 10]})
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 10})
    for _ in range(3):  # A repeated task, or one of two that run at the same time.
        desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=5)
    assert not desk.leases()[0].finished
    desk.pass_time(GRACE_S + 1)
    desk.ask("cursor.range", lease=1, queue="q", lo=5, hi=10, rows=3)
    assert not desk.leases()[0].finished, "a slice that is not read to its end does not count"
    desk.ask("cursor.range", lease=1, queue="q", lo=8, hi=10)
    assert desk.leases()[0].finished
    desk.pass_time(GRACE_S - 0.1)
    assert desk.ask("cursor.range", lease=1, queue="q", lo=8, hi=10).count(b"body") == 2, "the last block again"
    desk.pass_time(GRACE_S - 0.1)
    assert desk.vhost.queues["q"].messages == 10
    desk.pass_time(0.2)
    assert (desk.leases(), int(desk.vhost.queues["q"].messages)) == ([], 0)


def test_range_that_ends_in_a_gap_is_read_by_the_block_that_reaches_the_end(desk: Desk) -> None:
    desk.vhost.queues["q"].raise_tail(20)
    desk.ask("lease.open", queues=["q"])
    desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=20, rows=9)
    assert not desk.leases()[0].finished
    desk.ask("cursor.range", lease=1, queue="q", lo=9, hi=20)
    assert desk.leases()[0].finished


def test_lease_that_ends_leaves_another_lease_of_the_range(desk: Desk) -> None:
    token = desk.cursor("c", "q")
    desk.ask("lease.open", queues=["q"])
    desk.ask("lease.open", queues=["q"])
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 10})
    desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=10)
    desk.pass_time(GRACE_S + 0.1)
    assert [state.number for state in desk.leases()] == [2]
    assert desk.ask("cursor.range", lease=2, queue="q", lo=0, hi=10).count(b"body") == 10


@pytest.mark.once
def test_finished_leases_make_room_for_other_leases_at_the_bound(desk: Desk) -> None:
    for number in range(1, LEASES.limit + 10):
        assert desk.ask("lease.open", queues=["q"])["lease"] == number
        desk.ask("cursor.range", lease=number, queue="q", lo=0, hi=10)
    assert len(desk.leases()) <= LEASES.limit


def test_parts_of_a_range_are_merged_and_bounded() -> None:
    parts = FetchedParts()
    for lo, hi in ((0, 4), (8, 10), (4, 6), (5, 5), (2, 5), (6, 9)):
        assert not parts.covers(0, 10)
        parts.add(lo, hi)
    assert (parts.parts, parts.covers(0, 10), parts.covers(0, 11), parts.covers(3, 3)) == ([(0, 10)], True, False, True)
    many = FetchedParts()
    for at in range(PARTS_MOST + 1):
        many.add(3 * at, 3 * at + 1)
    many.add(0, 1 << 40)
    assert (many.is_full, many.parts, many.covers(0, 1)) == (True, [], False)


# Another lease for the rest of a range


def test_lease_for_a_range_counts_the_rest_of_the_range(desk: Desk) -> None:
    token = desk.cursor("c", "q")
    assert desk.ask("lease.open", queues=["q"], borders={"q": [2, 8]})["rows"] == {"q": [6]}
    desk.ask("cursor.settle", cursor="c", token=token, end={"q": 5})
    assert desk.ask("lease.open", queues=["q"], borders={"q": [2, 8]})["rows"] == {"q": [6]}, "the first one pins it"
    desk.ask("lease.close", lease=1)
    desk.ask("lease.close", lease=2)
    assert desk.ask("lease.open", queues=["q"], borders={"q": [2, 8]})["rows"] == {"q": [3]}


def test_range_of_a_queue_that_was_declared_again_is_gone(desk: Desk) -> None:
    desk.ask("lease.open", queues=["q"])
    desk.driver.begin(1000.0)
    planned = int((1000.0 + desk.driver.broker.wall_offset) * 1_000_000)
    desk.driver.broker.delete_queue(desk.vhost.queues["q"])
    queue = desk.vhost.declare_queue("q", {}, False, False, None, None)
    for _ in range(10):
        queue.enqueue(Envelope("", "q"), CONTENT, 10, 1100.0)
    again = {"queues": ["q"], "planned": planned}
    assert "messages 1 to 10 of queue 'q' are gone" in desk.ask("lease.open", borders={"q": [0, 10]}, **again)["text"]
    assert "are gone" in desk.ask("lease.open", borders={"q": [0, 11]}, **again)["text"]
    assert "rows" in desk.ask("lease.open", queues=["q"], planned=planned + 100_000_000, borders={"q": [0, 10]})


def test_lease_of_another_start_of_the_broker_has_ended(desk: Desk) -> None:
    token = desk.ask("lease.open", queues=["q"])["token"]
    for operation in ("cursor.range", "lease.close", "lease.narrow"):
        fields = {"queue": "q", "lo": 0, "hi": 10} if operation == "cursor.range" else {}
        refusal = desk.ask(operation, lease=1, token=token + 1, **fields)
        assert (refusal["name"], "lease 1 has ended, because" in refusal["text"]) == ("not-found", True)
    assert desk.ask("cursor.range", lease=1, token=token, queue="q", lo=0, hi=10).count(b"body") == 10


# Beside cursors


def test_detached_cursor_leaves_pinned_messages_of_a_lease_only() -> None:
    desk = Desk()
    queue = desk.declare("q", cursor_max_lag_messages=5, cursor_max_lag_policy="detach")
    desk.cursor("c", "q")
    desk.ask("lease.open", queues=["q"])
    desk.ask("lease.narrow", lease=1, borders={"q": [0, 3]})
    desk.pass_time(1.5)
    assert (len(queue.cursors), int(queue.messages)) == (1, 3)
    session = Session()
    assert session.get(queue, True, 0.0) is None, "what the policy drops is for the lease alone"
    assert desk.ask("cursor.range", lease=1, queue="q", lo=0, hi=3).count(b"body") == 3
    desk.pass_time(GRACE_S + 1)
    assert (len(queue.cursors), int(queue.messages)) == (0, 0)


# Many queues


def thousands(count: int) -> Desk:
    desk = Desk()
    for number in range(count):
        desk.vhost.declare_queue(f"q{number}", {}, False, False, None, None).enqueue(
            Envelope("", f"q{number}"), CONTENT, 10, 0.0
        )
    return desk


def opened(desk: Desk, names: list[str], **fields: object) -> Any:
    """Ask, and give turns until the answer is there."""
    before = len(desk.answers())
    desk.client.say(request("lease.open", queues=names, **fields))
    while len(desk.answers()) == before:
        desk.driver.run_turn()
    return desk.answers()[-1]


def narrowed(desk: Desk, lease: dict[str, Any], borders: dict[str, list[int]], **fields: object) -> Any:
    before = len(desk.answers())
    holder = {"lease": lease["lease"], "token": lease["token"]}
    desk.client.say(request("lease.narrow", **holder, borders=borders, **fields))
    while len(desk.answers()) == before:
        desk.driver.run_turn()
    return desk.answers()[-1]


def test_lease_of_many_queues_is_opened_and_narrowed_in_slices() -> None:
    desk = thousands(2_000)
    names = [f"q{number}" for number in range(2_000)]
    turns = LongestTurn(desk.driver)
    desk.driver.scheduler.begin_turn()
    desk.driver.scheduler.receive(desk.client.connection, request("lease.open", queues=names))
    while not desk.answers():
        turns.turn()
    assert turns.turns > 2
    assert turns.longest <= SHARE + 2 * ASKING_SHARE
    (lease,) = desk.answers()
    assert len(lease["queues"]) == 2_000
    assert narrowed(desk, lease, {name: [0, 1] for name in names})["rows"] == {name: [1] for name in names}
    assert desk.ask("lease.close", lease=lease["lease"], token=lease["token"]) == {}
    assert [name for name in names if desk.vhost.queues[name].cursors] == []


def test_queues_join_a_lease_and_the_borders_come_in_parts() -> None:
    desk = thousands(6)
    first = opened(desk, ["q0", "q1"])
    again = opened(desk, ["q1", "q2", "q3"], lease=first["lease"], token=first["token"])
    assert (again["lease"], again["token"], sorted(again["queues"])) == (first["lease"], first["token"], ["q2", "q3"])
    (state,) = desk.leases()
    assert list(state.cursor.positions) == ["q0", "q1", "q2", "q3"]
    assert narrowed(desk, first, {"q0": [0, 1]}, more=True)["rows"] == {"q0": [1]}
    assert not state.finished
    assert list(state.cursor.positions) == ["q0", "q1", "q2", "q3"], "the others are kept for the next part"
    assert narrowed(desk, first, {"q2": [0, 1]})["rows"] == {"q2": [1]}
    assert list(state.cursor.positions) == ["q0", "q2"]
    for name in ("q0", "q2"):
        assert desk.ask("cursor.range", lease=first["lease"], token=first["token"], queue=name, lo=0, hi=1)
    assert state.finished


def test_queue_that_joins_an_unknown_or_foreign_lease_is_refused() -> None:
    desk = thousands(3)
    lease = opened(desk, ["q0"])
    assert "has ended" in opened(desk, ["q1"], lease=99, token=1)["text"]
    assert opened(desk, ["q1"], lease=lease["lease"], token=lease["token"] + 1)["name"] == "not-found"
    desk.leases()[0].user = "bob"
    refused = opened(desk, ["q1"], lease=lease["lease"], token=lease["token"])
    assert "belongs to user 'bob'" in refused["text"]
    assert len(desk.leases()) == 1


def test_refused_queue_of_a_later_part_ends_the_lease_only_after_the_look_up() -> None:
    desk = thousands(3)
    lease = opened(desk, ["q0"])
    assert "no queue 'none'" in opened(desk, ["q1", "none"], lease=lease["lease"], token=lease["token"])["text"]
    (state,) = desk.leases()
    assert list(state.cursor.positions) == ["q0"], "names are checked before any is pinned"


def test_queue_deleted_while_the_lease_begins_ends_the_lease() -> None:
    desk = thousands(2_000)
    desk.driver.scheduler.begin_turn()
    names = [f"q{number}" for number in range(2_000)]
    desk.driver.scheduler.receive(desk.client.connection, request("lease.open", queues=names))
    while not desk.leases():
        desk.driver.run_turn()
    assert not desk.answers()
    desk.driver.broker.delete_queue(desk.vhost.queues["q1999"])
    while not desk.answers():
        desk.driver.run_turn()
    assert "queue 'q1999' was deleted while lease 1 began; read again" in desk.answers()[-1]["text"]
    assert desk.leases() == []
