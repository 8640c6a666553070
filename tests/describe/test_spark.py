"""Rows and phrases of leases and of queries that publish."""

from __future__ import annotations

from penstock.core.queue.cursor_state import LeaseState, Position, pin, reader_of
from penstock.describe.list_kinds import LEASES, SINKS, is_seen, work_of
from penstock.describe.lists import collected_steps
from penstock.describe.spark import held_by_lease, lease_end, lease_row, sink_row, staged_line
from penstock.ranges.cursors import Cursor
from tests.ranges.test_sinks import Sink, Task
from tests.support import attached_cursors


class Desk(attached_cursors.Desk):
    """A queue with a lease that pins the messages 3 to 8 of it."""

    def __init__(self) -> None:
        super().__init__(10)
        self.state = LeaseState(7, "/", "anna", "con:4(anna@10.0.0.5:9000/)", 300.0)
        self.state.until = 130.0
        self.lease = Cursor("/", "lease 7")
        self.lease.lease = self.state
        self.state.cursor = self.lease
        position = Position(self.queue, 2)
        position.planned = 8
        self.lease.positions["q"] = position
        self.queue.cursors.append(self.lease)
        pin(self.queue)


def test_row_of_a_lease_has_its_owner_its_range_and_its_end() -> None:
    desk = Desk()
    desk.state.query = "q-1"
    desk.attach().settle("q", 5, 0.0)
    row = lease_row(desk.state, 100.0, desk.broker.work)
    owner = {name: row[name] for name in ("number", "vhost", "user", "query", "client", "reader")}
    assert owner == {
        "number": 7,
        "vhost": "/",
        "user": "anna",
        "query": "q-1",
        "client": "con:4(anna@10.0.0.5:9000/)",
        "reader": None,
    }
    assert row["queues"] == [{"queue": "q", "lo": 2, "hi": 8, "pinned": True, "held": 3}]
    assert (row["held"], row["opened_s_ago"], row["ends_in_s"], row["finished"]) == (3, 100.0, 30.0, False)
    assert lease_row(desk.state, 200.0, desk.broker.work)["ends_in_s"] == 0.0


def test_lease_holds_messages_settled_by_cursors_within_its_range() -> None:
    desk = Desk()
    position = desk.lease.positions["q"]
    assert held_by_lease(position, desk.broker.work) == 0, "nobody has settled anything"
    cursor = desk.attach()
    for settled, held in ((1, 0), (4, 2), (10, 6)):
        cursor.settle("q", settled, 0.0)
        assert held_by_lease(position, desk.broker.work) == held
    desk.queue.deleted = True
    assert held_by_lease(position, desk.broker.work) == 0


def test_end_of_a_lease_says_when_and_how() -> None:
    state = Desk().state
    assert lease_end(state, 100.0) == "it ends in 30.0 s without another block (`penstock leases end 7`)"
    state.finished = True
    assert lease_end(state, 126.0) == "all was read, and it ends in 4.0 s (`penstock leases end 7`)"


def test_reader_in_the_way_is_a_cursor_before_a_lease() -> None:
    desk = Desk()
    desk.state.query = "q-1"
    assert reader_of(desk.queue) == (
        "lease 7 of con:4(anna@10.0.0.5:9000/) for query q-1, of a batch read (`penstock leases end 7`)"
    )
    desk.attach("billing")
    assert reader_of(desk.queue) == "cursor 'billing'"


def test_staged_rows_of_a_query_have_an_owner_and_an_end() -> None:
    sink = Sink()
    task = Task(sink)
    task.stage_all(3)
    (state,) = sink.driver.broker.ranges.sinks_of("/")
    row = sink_row(state, sink.driver.broker.now)
    staged = row["staged"]
    assert isinstance(staged, dict)
    assert (row["query"], row["user"], row["batch"], row["target"]) == ("q", "guest", 0, 'queue "out"')
    assert (staged["messages"], staged["ends_in_s"], row["ends_in_s"]) == (3, 3_600.0, 604_800.0)
    assert str(row["client"]).startswith("con:")
    line = staged_line(state, sink.vhost.queues["out"], sink.driver.broker.now)
    assert line.startswith("query q of user guest (con:")
    assert "has staged 3 messages" in line
    assert "are dropped in 3,600 s without a request (`penstock sinks end q`)" in line
    assert staged_line(state, sink.vhost.queues[task.answers_to], 0.0) == ""
    task.ask("sink.abort")
    assert sink_row(state, 0.0)["staged"] is None


def test_leases_and_sinks_are_listed_by_virtual_host() -> None:
    sink = Sink()
    Task(sink).stage_all(1)
    sink.consumer.declare("orders")
    Task(sink).ask("lease.open", queues=["orders"])
    for kind, names in ((LEASES, ["1"]), (SINKS, ["q"])):
        steps = collected_steps(sink.driver, kind, None)
        items = None
        while items is None:
            try:
                next(steps)
            except StopIteration as end:
                items = end.value
        assert [item.name for item in items] == names
        rules = sink.consumer.connection.access.rules
        assert all(is_seen(sink.driver, item, rules, "guest") and work_of(item) > 0 for item in items)
