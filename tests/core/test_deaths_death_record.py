"""Death records: what they say, and RabbitMQ's words for the reasons."""

from __future__ import annotations

from penstock.core import deaths
from penstock.core.deaths import DeathRecord


def test_a_death_record_has_the_reasons_of_rabbitmq() -> None:
    reasons = {deaths.REJECTED, deaths.EXPIRED, deaths.MAXLEN, deaths.DELIVERY_LIMIT}
    assert reasons == {"rejected", "expired", "maxlen", "delivery_limit"}


def test_a_death_record_keeps_the_routing_keys_of_a_message_unless_the_queue_sets_one() -> None:
    record = DeathRecord("q", deaths.EXPIRED, "x", "k", 1.5)
    assert (record.queue, record.reason, record.exchange, record.routing_key, record.time) == (
        "q", "expired", "x", "k", 1.5,
    )  # fmt: skip
    assert not record.rerouted
    assert DeathRecord("q", deaths.EXPIRED, "x", "k", 1.5, True).rerouted
