"""Consumers of a session with a window or rate."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.settings.read import read_consume_arguments
from tests.support.broker_fixture import House


def subscribe(house: House, session: Session | None = None, **arguments: object) -> Consumer:
    session = session or house.session
    queue = house.vhost.queues["a"]
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    terms = ConsumerSettings(queue.settings, read_consume_arguments("c", named))
    consumer = Consumer(f"c{len(session.consumers)}", session, queue, False, False, 0, terms.narrower_window(0))
    house.broker.consume(session, consumer, terms)
    return consumer


def filled(charges: list[int], **arguments: object) -> House:
    house = House()
    house.queue("a", **arguments)
    for charge in charges:
        house.publish_now("a", charge)
    return house


def deliver(house: House) -> list[int]:
    """Deliver all that may be, as charges."""
    house.broker.run(1000)
    found: list[int] = []
    while (batch := house.broker.next_batch()) is not None:
        found += [int(message.charge) for message in batch.messages if message is not None]
    return found


def settle_all(house: House, consumer: Consumer) -> None:
    consumer.session.unsettled.acknowledge(0, True, house.broker.now)
    house.broker.schedule_delivery(consumer.queue)
