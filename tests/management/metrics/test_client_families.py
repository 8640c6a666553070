"""Metrics of connections and channels."""

from __future__ import annotations

from penstock.management.metrics.scrape import Selection
from tests.support.blocked_producers import BlockedProducers
from tests.support.metrics import samples_of, scraped


def test_channels_show_withheld_and_connections_held_publishes() -> None:
    rig = BlockedProducers()
    for _ in range(5):
        rig.do("publish", 0, "orders")
    rig.do("publish", 1, "orders")
    found = samples_of(scraped(rig.driver, Selection(100)))
    summed = samples_of(scraped(rig.driver))
    for name, value in (
        ("penstock_channel_confirms_withheld", 2.0),
        ("rabbitmq_channel_messages_unconfirmed", 3.0),
        ("penstock_connection_held_messages", 1.0),
        ("penstock_connection_blocked", 2.0),
        ("rabbitmq_connection_channels", 4.0),
    ):
        assert sum(each for key, each in found.items() if key[0] == name) == value, name
        assert summed[(name,)] == value
    connection = rig.producers[1].connection.name()
    assert found[("penstock_connection_held_messages", f"connection={connection}", "vhost=/")] == 1
