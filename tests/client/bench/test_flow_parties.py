"""Clients of flow experiments: publishers of either protocol that keep their windows full, and a consumer."""

from __future__ import annotations

import asyncio

import pytest

from penstock import sync
from penstock.client.bench.experiments import KIB_64, overshoot, staged
from penstock.client.bench.flow_parties import CHARGE, Place
from penstock.client.bench.target import Target
from tests.support.brokers import BrokerProcess

SECTION_BYTES = 8
"""Additional bytes of a body as a section of AMQP 1.0."""


def test_place_counts_messages_like_the_broker() -> None:
    ours = Place(Target("amqp://", {"product": "Penstock"}, "amqp10"))
    other = Place(Target("amqp://", {"product": "RabbitMQ"}, "amqp091"))
    assert (ours.most(10 * CHARGE), other.most(10 * 1024)) == (10, 10)
    assert ours.bounded(5) == {"capacity_bytes": 5}
    assert other.bounded(5) == {"x_max_length_bytes": 5, "x_overflow": "reject-publish"}


@pytest.mark.parametrize("protocols", [("amqp091",), ("amqp10",), ("amqp091", "amqp10")], ids="-".join)
def test_publishers_keep_the_windows_full_and_continue_when_there_is_room(
    target: Target, protocols: tuple[str, ...]
) -> None:
    async def play() -> tuple[list[int], int, int, list[str]]:
        async with staged(Place(target, protocols), KIB_64) as stage:
            parties = await stage.publishers([20] * 4)
            for party in parties:
                party.start()
            consumer = await stage.consumer(1e6, 10)
            for _ in range(400):
                (await consumer.take()).accept()
            confirmed = sum(party.confirmed for party in parties)
            return consumer.order, consumer.out_of_order, confirmed, [party.error for party in parties]

    order, out_of_order, confirmed, errors = asyncio.run(play())
    assert (len(order), set(order), out_of_order, errors) == (400, {0, 1, 2, 3}, 0, [""] * 4)
    assert confirmed > 0


def test_publisher_whose_queue_refuses_tries_again(target: Target) -> None:
    async def play() -> tuple[int, int]:
        async with staged(Place(target, ("amqp091",)), None, capacity_messages=3, overflow="reject") as stage:
            (party,) = await stage.publishers([5])
            party.start()
            async with asyncio.timeout(30):
                while party.refused < 20:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            return party.confirmed, party.published

    confirmed, published = asyncio.run(play())
    assert confirmed == 3
    assert published >= 23


def test_queue_created_by_the_first_link_has_the_bound_of_the_name(broker: BrokerProcess) -> None:
    """As at Artemis: our queues come into being so where a setting of their names says it."""
    with sync.connect(broker.url) as connection:
        settings = {"auto-create": True, "capacity-bytes": KIB_64}
        connection.set("queue", f"penstock-bench.{KIB_64}.#", settings)
    place = Place(Target(broker.url, {"product": "other"}, "amqp10"), ("amqp10",))
    found = asyncio.run(overshoot(place, 2, 100, KIB_64))
    assert place.makes_queues
    assert 0 < found["depth"] <= KIB_64 // (CHARGE + SECTION_BYTES)
    assert (found["refused"], found["sessions_lost"]) == (0, 0)
