"""Objects that came: channels and queues are counted where they begin."""

from __future__ import annotations

from tests.support.conversion_table import Pair
from tests.support.metrics import samples_of, scraped


def test_channels_and_queues_that_came_and_went_are_counted() -> None:
    pair = Pair()
    pair.amqp091.declare("q")
    driver = pair.amqp091.driver
    churn = driver.broker.vhosts["/"].churn
    assert (churn.queues_declared, churn.queues_created, churn.channels_opened) == (3, 2, 2)
    driver.broker.delete_queue(driver.broker.vhosts["/"].queues["d"])
    driver.disconnect(pair.amqp091.connection)
    found = samples_of(scraped(driver))
    for name, value in (
        ("rabbitmq_queues_declared_total", 3),
        ("rabbitmq_queues_created_total", 2),
        ("rabbitmq_queues_deleted_total", 1),
        ("rabbitmq_channels_opened_total", 2),
        ("rabbitmq_channels_closed_total", 1),
        ("rabbitmq_global_publishers", 0),
    ):
        assert found[(name,)] == value, name
