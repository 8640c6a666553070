"""Service of the ranges: the calls of the control API, the driver and the store."""

from __future__ import annotations

import pytest

from penstock.connections.connection import Peer
from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.consume.session import Session
from penstock.core.journal.group import WHOLE_BATCH, MarkRecord
from penstock.core.message import Envelope
from penstock.core.queue.cursor_state import Position
from penstock.core.range_plane import RangePlane
from penstock.core.settings.limits import Defaults
from penstock.errors import NotFound
from penstock.protocols.amqp091.content_frames import make_content
from tests.ranges.test_refused_attach import CONTENT, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_service_restores_cursors_and_progress(desk: Desk) -> None:
    ranges = desk.driver.control.ranges
    assert desk.driver.broker.ranges is ranges
    position = Position(desk.vhost.queues["a"], 3)
    position.settled = 4
    ranges.restore_cursor(desk.vhost, "c", "u", 7, 1, [position], "own")
    cursor = ranges.cursors.find(desk.vhost, "c")
    assert (cursor.user, cursor.token, cursor.lost, cursor.positions["a"].settled) == ("u", 7, 1, 4)
    assert cursor.id == "own"
    assert desk.vhost.queues["a"].cursors == [cursor]
    record = MarkRecord("/", "q", "t", WHOLE_BATCH)
    record.batch, record.partitions = 5, 2
    ranges.restore_mark(record)
    progress = ranges.batches.marks.of("/", "q", "t")
    assert (progress.batch, progress.partitions) == (5, 2)


def test_broker_without_a_service_has_no_cursor_after_a_restart() -> None:
    broker = Broker(Defaults())
    vhost = broker.add_vhost("/")
    broker.ranges.restore_cursor(vhost, "c", "", 1, 0, [])
    broker.ranges.restore_mark(MarkRecord("/", "q", "t", 0))
    broker.ranges.finish()
    assert vhost.cursors == {}


def test_service_forgets_a_virtual_host(desk: Desk) -> None:
    ranges = desk.driver.control.ranges
    assert desk.ask("cursor.attach", {"cursor": "c", "queues": ["a"]})["token"] == 1
    lease = desk.ask("lease.open", {"queues": ["a"]})["lease"]
    ranges.batches.marks.begin_batch("/", "q", "t", 0, "r", "w", "u")
    ranges.forget(desk.vhost)
    assert desk.vhost.cursors == {}
    assert desk.vhost.queues["a"].cursors == []
    assert ranges.batches.marks.every() == []
    with pytest.raises(NotFound):
        ranges.cursors.find(desk.vhost, "c")
    assert desk.ask("lease.close", {"lease": lease})["code"] == 404


def test_plan_of_a_closing_connection_acquires_no_later_messages(desk: Desk) -> None:
    ranges, vhost = desk.driver.control.ranges, desk.vhost
    vhost.declare_queue("shared", {}, False, False, None, None)
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["shared"]})
    content = make_content(Properties(reply_to="answers"), b'{"cursor": "c", "token": 1, "wait_ms": 60000}')
    desk.driver.control.request(vhost, desk.connection, "cursor.plan", content)
    cursor = ranges.cursors.find(vhost, "c")
    assert (cursor.polling, cursor.reader_ended) == (True, 0.0)
    desk.driver.begin(50.0)
    ranges.end(desk.connection)
    assert (cursor.polling, cursor.reader_ended, ranges.cursors.waiting) == (False, 50.0, {})
    queue = vhost.queues["shared"]
    queue.enqueue(Envelope("", "shared"), CONTENT, 10, 50.0)
    desk.driver.broker.schedule_delivery(queue)
    while desk.driver.run_turn():
        pass
    assert Session().get(queue, True, 50.0) is not None, "a consumer gets it"


def test_reader_that_has_ended_is_not_the_present_reader(desk: Desk) -> None:
    ranges = desk.driver.control.ranges
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a"]})
    cursor = ranges.cursors.find(desk.vhost, "c")
    other = desk.driver.connect(Peer("127.0.0.1:9", True))
    ranges.end(other)
    assert cursor.reader_ended == 0.0, "another connection was not its reader"
    desk.ask("cursor.delete", {"cursor": "c"})
    ranges.end(desk.connection)
    assert cursor.reader_ended == 0.0, "a deleted cursor is not remembered for its reader"


def test_service_lists_leases_and_queries_of_a_single_virtual_host(desk: Desk) -> None:
    ranges = desk.driver.control.ranges
    desk.ask("lease.open", {"queues": ["a"]})
    ranges.batches.marks.begin_batch("/", "q", "t", 0, "r", "w", "u")
    assert [lease.number for lease in ranges.leases_of("/")] == [1]
    assert [sink.query for sink in ranges.sinks_of("/")] == ["q"]
    assert (ranges.leases_of("other"), ranges.sinks_of("other")) == ([], [])
    assert (RangePlane().leases_of("/"), RangePlane().sinks_of("/")) == ([], [])
