"""Plans and blocks of queues whose messages are mostly on the disk: answered after the read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.core.queue.pager import PageRead
from penstock.core.queue.queue import Queue
from penstock.persistence.page_loader import Loader
from penstock.persistence.restore import WallTimes
from penstock.protocols.amqp091.content_frames import make_content
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue
from tests.support.memory_store import WALL
from tests.support.restored_broker import Declared, journaled

PAGES: dict[str, object] = {"x-overflow": "page", "capacity-messages": 10}


class Desk:
    """A driver whose queues page, a store that is read by hand, and a client that asks."""

    def __init__(self, *queues: str) -> None:
        self.driver = journaled()
        self.vhost = self.driver.broker.vhosts["/"]
        self.store = Declared(self.driver)
        for name in queues:
            self.vhost.declare_queue(name, PAGES, True, False, None, None)
        self.vhost.declare_queue("answers", {}, False, False, None, None)
        self.client = Dialogue(self.driver)
        self.loader = Loader()
        self.read: list[PageRead] = []
        self.ask("cursor.attach", queues=list(queues))

    def queue(self, name: str = "q") -> Queue:
        return self.vhost.queues[name]

    def put(self, name: str, count: int) -> None:
        queue = self.queue(name)
        for _ in range(count):
            content = make_content(Properties(), b"%d" % (queue.tail + 1))
            queue.enqueue(Envelope("", name, persistent=True), content, 300, 0.0)
        self.store.write()
        self.driver.broker.schedule_delivery(queue)
        self.load()

    def load(self) -> None:
        """Answer all reads of the disk."""
        while self.one_read():
            pass

    def one_read(self) -> bool:
        self.read += self.driver.broker.take_page_reads()
        if not self.read:
            return False
        read = self.read.pop(0)
        shelf = self.store.shelf
        rows = shelf.page_heads(read.number, read.first, read.most)
        if read.lister is None:
            first = rows[0].first if read.within and rows else read.first
            rows = shelf.some_pages(read.number, first, read.most)
        assert self.loader.load(read, rows, WallTimes(WALL)) == []
        return True

    def ask(self, operation: str, **fields: object) -> None:
        cursor = self.vhost.cursors.get("c")
        self.client.say(request(operation, cursor="c", token=cursor.token if cursor else 0, **fields))

    def answers(self) -> list[Any]:
        """Take the answers: objects, and the first and last sequence of blocks, or their ranges."""
        self.load()
        formats, found = self.driver.broker.formats, []
        for message in self.queue("answers").ready_queue.messages():
            of = formats.find(message.content)
            body = of.body(message.content)
            if of.properties(message.content).content_type == "application/vnd.penstock.block":
                head = json.loads(body[8 : 8 + int.from_bytes(body[4:8], "little")])
                found.append(head["ranges"] if "ranges" in head else (head["first"], head["last"], head["rows"]))
            else:
                found.append(json.loads(body))
        self.queue("answers").purge(0.0)
        return found[1:] if found and "created" in found[0] else found

    def planned(self, **fields: object) -> dict[str, Any]:
        self.ask("cursor.plan", **fields)
        (answer,) = self.answers()
        assert isinstance(answer, dict)
        return answer


def test_queues_get_equal_shares_and_unused_shares_of_other_queues() -> None:
    desk = Desk("a", "b", "c")
    for name, count in (("a", 500), ("b", 20), ("c", 500)):
        desk.put(name, count)
    assert desk.planned(rows=300)["messages"] == {"a": 140, "b": 20, "c": 140}
    assert desk.planned(bytes=300 * 300)["messages"] == {"a": 140, "b": 20, "c": 140}
    everything = desk.planned()
    assert (everything["rows"], everything["bytes"], everything["paged"]) == (1_020, 306_000, [])


@pytest.fixture
def desk() -> Desk:
    return Desk("q")


def test_client_is_not_read_while_the_plan_reads_from_the_disk(desk: Desk) -> None:
    desk.put("q", 100)
    desk.ask("cursor.plan", rows=52)
    assert desk.client.connection.busy
    assert desk.one_read()
    assert desk.client.connection.busy
    (answer,) = desk.answers()
    assert (answer["end"], answer["tail"], answer["rows"]) == ({"q": 52}, {"q": 100}, 52)
    assert not desk.client.connection.busy


def test_plan_that_waits_sees_paged_arrivals_while_another_cursor_lags(desk: Desk) -> None:
    desk.client.say(request("cursor.attach", cursor="lags", token=0, queues=["q"]))
    desk.put("q", 100)
    desk.answers()
    desk.ask("cursor.settle", end={"q": 100})
    assert desk.answers() == [{"settled": {"q": 100}}]
    desk.ask("cursor.plan", wait_ms=1_000)
    assert desk.answers() == []
    desk.put("q", 3)
    desk.driver.run_turn()
    (answer,) = desk.answers()
    assert (answer["end"], answer["rows"]) == ({"q": 103}, 3)
    assert desk.queue().messages == 10


def test_plan_of_a_reader_that_was_fenced_off_meanwhile_is_refused(desk: Desk) -> None:
    desk.put("q", 100)
    desk.ask("cursor.plan", rows=50)
    other = Dialogue(desk.driver)
    other.say(request("cursor.attach", cursor="c", queues=["q"], takeover=True))
    found = desk.answers()
    assert [answer.get("name") for answer in found if "token" not in answer] == ["fenced"]
    assert not desk.client.connection.busy


def test_block_beyond_the_memory_comes_from_the_disk_at_each_request(desk: Desk) -> None:
    desk.put("q", 100)
    assert desk.planned()["end"] == {"q": 100}
    for _ in range(2):
        for lo, hi, rows, expected in (
            (0, 100, 100, (1, 10, 10)),
            (10, 100, 100, (11, 100, 90)),
            (33, 41, 3, (34, 36, 3)),
        ):
            desk.ask("cursor.range", queue="q", lo=lo, hi=hi, rows=rows)
            assert desk.client.connection.busy == (lo > 0)
            assert desk.answers() == [expected]
    assert desk.queue().messages == 10
    desk.ask("cursor.range", queue="q", lo=50, hi=100, bytes=1)
    assert desk.answers() == [(51, 51, 1)]


def test_range_on_the_disk_ends_a_block_of_several_ranges() -> None:
    desk = Desk("a", "b", "c")
    for name, count in (("a", 3), ("b", 100), ("c", 3)):
        desk.put(name, count)
    assert desk.planned()["rows"] == 106
    every: list[list[object]] = [["a", 0, 3], ["b", 50, 90], ["c", 0, 3]]
    read: list[object] = []
    while every:
        desk.ask("cursor.range", ranges=every)
        ((*whole, last),) = desk.answers()
        read += [*whole, last]
        every = every[len(whole) :]
        if last[2] == every[0][2]:
            del every[0]
        else:
            every[0][1] = last[2]
    assert read[0] == ["a", 3, 3]
    assert read[-1] == ["c", 3, 3]
    of_b = [part for part in read[1:-1] if isinstance(part, list)]
    assert {part[0] for part in of_b} == {"b"}
    assert (sum(part[1] for part in of_b), of_b[-1][2]) == (40, 90)


def test_blocks_are_read_in_succession(desk: Desk) -> None:
    desk.put("q", 100)
    others = [Dialogue(desk.driver) for _ in range(3)]
    token = desk.vhost.cursors["c"].token
    for number, other in enumerate(others):
        at = 20 * (number + 1)
        other.say(request("cursor.range", cursor="c", token=token, queue="q", lo=at, hi=at + 5))
    assert len(desk.driver.broker.page_reads) == 1
    assert desk.answers() == [(21, 25, 5), (41, 45, 5), (61, 65, 5)]
    assert not any(other.connection.busy for other in others)


@pytest.mark.parametrize("when", ["before", "after"])
def test_block_of_a_cursor_deleted_meanwhile_is_refused(when: str, desk: Desk) -> None:
    desk.put("q", 100)
    desk.ask("cursor.range", queue="q", lo=20, hi=30)
    if when == "after":
        desk.one_read()
    else:
        cursors = desk.driver.control.ranges.cursors
        cursors.drop(cursors.find(desk.vhost, "c"))
    found = desk.answers()
    assert found == [(21, 30, 10)] if when == "after" else found[0]["name"] == "not-found"
    assert not desk.client.connection.busy


def test_blocks_of_a_connection_that_ends_are_not_loaded(desk: Desk) -> None:
    desk.put("q", 100)
    desk.ask("cursor.range", queue="q", lo=50, hi=60)
    others = [Dialogue(desk.driver) for _ in range(2)]
    for number, other in enumerate(others):
        other.say(request("cursor.range", cursor="c", token=1, queue="q", lo=60 + 10 * number, hi=70 + 10 * number))
    waiting = desk.driver.control.ranges.reads._waiting
    assert len(waiting) == 3
    desk.driver.disconnect(others[0].connection)
    assert [load.request.connection for load in waiting] == [desk.client.connection, others[1].connection]
    assert desk.answers() == [(51, 60, 10), (71, 80, 10)]


def test_lease_reads_a_range_on_the_disk_with_uncounted_messages(desk: Desk) -> None:
    desk.put("q", 100)
    lease = Dialogue(desk.driver)
    lease.say(request("lease.open", queues=["q"]))
    lease.say(request("lease.narrow", lease=1, borders={"q": [2, 6, 80]}))
    opened, narrowed = desk.answers()
    assert (opened["queues"]["q"]["tail"], narrowed) == (100, {"rows": {"q": [4, None]}})
    desk.ask("cursor.settle", end={"q": 100})
    desk.answers()
    lease.say(request("cursor.range", lease=1, queue="q", lo=60, hi=80))
    assert desk.answers() == [(61, 80, 20)]
