"""The totals of the overview, counted a share of work a turn."""

from __future__ import annotations

import pytest

from penstock.describe.message_stats import Depths
from penstock.describe.vhost import totals_steps
from penstock.flow.work import SHARE
from tests.support.broker_fixture import House
from tests.support.driven_connection import make_driver
from tests.support.turn_costs import turn_costs

MOST_A_STEP = 300
"""Units by which the last step of a turn may pass the share."""


@pytest.mark.once
def test_what_the_overview_sums_up_is_counted_a_share_a_turn() -> None:
    driver = make_driver()
    for number in range(40):
        vhost = driver.broker.add_vhost(f"v{number}")
        for each in range(1500):
            vhost.declare_queue(f"q{each}", {}, False, False, None, None)
    turns, totals = turn_costs(driver.broker.work, totals_steps(driver))
    assert len(turns) >= 2
    assert max(turns) <= SHARE + MOST_A_STEP
    assert totals["object_totals"]["queues"] == 60_000


def test_row_sums_ready_and_unacknowledged_messages() -> None:
    house = House()
    for name in "ab":
        house.queue(name)
        house.publish_now(name, 100, count=2)
    house.session.get(house.vhost.queue("a"), False, 100.0)
    sums = Depths()
    for queue in house.vhost.queues.values():
        sums.add(queue)
    assert sums.row() == {"messages": 4, "messages_ready": 3, "messages_unacknowledged": 1}
