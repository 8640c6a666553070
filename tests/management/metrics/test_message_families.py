"""Counts of messages: of the node since its start, and of single channels, queues and exchanges."""

from __future__ import annotations

from penstock.management.metrics.scrape import Selection
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, mandatory, publish
from tests.support.metrics import samples_of, scraped


def test_messages_are_counted_for_the_node_and_for_each_object() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    client.confirm()
    client.declare("q", **{"max-length": 2, "overflow": "drop-head"})
    for _ in range(3):
        client.say(publish("q", b"x"))
    client.say(publish("nowhere", b"x"))
    client.say(mandatory(b"x", "nowhere"))
    client.say(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
    client.listen(1.0)
    found = samples_of(scraped(driver, Selection(100)))
    channel = ("channel=" + client.connection.name() + "/ch:1", "vhost=/")
    queue = ("queue=q", "vhost=/")
    assert found[("rabbitmq_channel_messages_published_total", *channel)] == 5
    assert found[("rabbitmq_channel_messages_confirmed_total", *channel)] == 5
    assert found[("rabbitmq_channel_messages_unroutable_returned_total", *channel)] == 1
    assert found[("rabbitmq_channel_messages_unroutable_dropped_total", *channel)] == 1
    assert found[("rabbitmq_channel_get_total", *channel)] == 1
    assert found[("rabbitmq_queue_messages_published_total", *queue)] == 3
    assert found[("rabbitmq_queue_get_total", *queue)] == 1
    assert found[("penstock_queue_dropped_messages_total", *queue)] == 1
    assert found[("rabbitmq_exchange_messages_published_total", "exchange=", "vhost=/")] == 5
    assert found[("penstock_exchange_messages_routed_total", "exchange=", "vhost=/")] == 3
    driver.disconnect(client.connection)
    broker = driver.broker
    broker.delete_queue(broker.vhosts["/"].queues["q"])
    driver.begin(100.0)
    driver.stats.sample(driver.connections)
    summed = samples_of(scraped(driver))
    assert summed[("rabbitmq_global_messages_received_total",)] == 5
    assert summed[("rabbitmq_global_messages_routed_total",)] == 3
    assert summed[("rabbitmq_channel_messages_published_total",)] == 5
    assert summed[("rabbitmq_global_messages_delivered_total",)] == 1
    assert summed[("penstock_dropped_messages_total",)] == 1
