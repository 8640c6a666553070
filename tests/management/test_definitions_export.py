"""Exported definitions, a window at a time."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.management import definitions_export
from tests.support.driven_connection import Dialogue, make_full_driver


@pytest.fixture
def driver() -> BrokerDriver:
    return make_full_driver()


def test_export_leaves_out_what_is_predeclared_or_exclusive_wherever_a_window_ends(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    owner = Dialogue(driver).connection
    vhost.bind("x", vhost.declare_queue("own", {}, False, False, owner, None), None, "k", {})
    for section, count in (("queues", 12), ("exchanges", 2), ("bindings", 12), ("vhosts", 2), ("policies", 0)):
        for size in (1, 3, 1000):
            found = []
            after: int | None = 0
            while after is not None:
                part = definitions_export.window(driver, section, None, after, size)
                found += definitions_export.exported(part.items, True)
                after = part.end()
            assert len(found) == count, (section, size)
