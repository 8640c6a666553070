"""Door of the ranges: what the control API, the driver and the store ask of them."""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.journal.group import WHOLE_BATCH, MarkRecord
from penstock.core.queue.cursor_state import Position
from penstock.core.settings.limits import Defaults
from penstock.errors import NotFound
from tests.ranges.test_refused_attach import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_service_is_what_its_broker_restores_into(desk: Desk) -> None:
    ranges = desk.driver.control.ranges
    assert desk.driver.broker.ranges is ranges
    position = Position(desk.vhost.queues["a"], 3)
    position.settled = 4
    ranges.restore_cursor(desk.vhost, "c", "u", 7, 1, [position])
    cursor = ranges.cursors.find(desk.vhost, "c")
    assert (cursor.user, cursor.token, cursor.lost, cursor.positions["a"].settled) == ("u", 7, 1, 4)
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
