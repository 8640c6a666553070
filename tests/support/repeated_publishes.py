"""A producer that publishes the same again and again."""

from __future__ import annotations

from penstock.core.publish.producer import Producer
from tests.support.broker_fixture import House


def publish(house: House, producer: Producer, count: int = 1, queue: str = "a") -> None:
    for _ in range(count):
        house.publish(producer, queue, 100)
