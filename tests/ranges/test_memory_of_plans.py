"""Plans of a query that runs for long keep nothing in the broker."""

from __future__ import annotations

from tests.ranges.test_cursor_table import Desk
from tests.support.kept_objects import growth

PLANS = 40


def test_plans_reads_and_settlements_keep_no_object() -> None:
    desk = Desk()
    desk.ask("cursor.attach", queues=["q"])
    settled = [0]

    def batch() -> None:
        desk.put(3)
        end = desk.ask("cursor.plan", settle={"q": settled[0]}, start={"q": settled[0]}, wait_ms=0)["end"]["q"]
        assert end == settled[0] + 3
        settled[0] = end

    assert growth(batch, PLANS) == {}
    assert desk.ask("cursor.settle", end={"q": settled[0]})["settled"] == {"q": settled[0]}
    assert (desk.queue.messages, len(desk.vhost.cursors)) == (0, 1)
