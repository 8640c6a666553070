"""Metrics of connections and channels."""

from __future__ import annotations

from penstock.describe.metrics import Scrape, Selection
from penstock.describe.node import NodeFigures
from tests.support.blocked_producers import BlockedProducers
from tests.support.driven_connection import Dialogue, make_driver
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


def test_sums_of_octets_keep_those_of_ended_connections() -> None:
    driver = make_driver()
    names = [
        f"rabbitmq_connection_{way}_{what}_total" for way in ("incoming", "outgoing") for what in ("bytes", "packets")
    ]
    clients = [Dialogue(driver) for _ in range(3)]
    before = samples_of(scraped(driver))
    per_object = samples_of(scraped(driver, Selection(100)))
    for name in names:
        assert before[(name,)] > 0
        assert before[(name,)] == sum(value for key, value in per_object.items() if key[0] == name)
    driver.disconnect(clients[0].connection)
    after = samples_of(scraped(driver))
    assert [after[(name,)] for name in names] == [before[(name,)] for name in names]


def test_connection_that_ends_during_a_scrape_is_counted_once() -> None:
    driver = make_driver()
    clients = [Dialogue(driver) for _ in range(120)]
    whole = samples_of(scraped(driver))
    scrape = Scrape(driver, NodeFigures(), False)
    slices = scrape.aggregated()
    text = [next(slices), next(slices), next(slices)]
    for client in clients:
        driver.disconnect(client.connection)
    text += slices
    name = ("rabbitmq_connection_incoming_bytes_total",)
    assert samples_of("".join(text))[name] == whole[name] == samples_of(scraped(driver))[name]
