"""Metrics of direct reply-to: its queues are in no list, so sums alone show that replies pile up."""

from __future__ import annotations

from penstock.core.message import Envelope
from penstock.describe.metrics import QUEUES_A_SLICE, Scrape
from penstock.describe.node import NodeFigures
from penstock.driver.driver import BrokerDriver
from tests.support.metrics import samples_of, scraped


def test_reply_queues_are_counted_with_their_messages_and_bytes_in_slices(driver: BrokerDriver) -> None:
    few = len(list(Scrape(driver, NodeFigures(), False).aggregated()))
    other = driver.broker.add_vhost("other")
    for vhost in (driver.broker.vhosts["/"], other):
        for number in range(3 * QUEUES_A_SLICE):
            queue = vhost.create_reply_queue(f"reply.{number}")
            if number < 2:
                queue.enqueue(Envelope("", queue.name), b"x", 100, driver.broker.now)
    other.delete_queue(queue, driver.broker.now)
    found = samples_of(scraped(driver))
    figures = {name: found[(f"penstock_reply_queue{name}",)] for name in ("s", "_messages", "_bytes")}
    assert figures == {"s": 6 * QUEUES_A_SLICE - 1, "_messages": 4, "_bytes": 400}
    assert len(list(Scrape(driver, NodeFigures(), False).aggregated())) >= few + 5
