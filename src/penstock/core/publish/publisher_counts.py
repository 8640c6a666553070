"""Counts of a publisher that are off its fast path, and their sums in tallies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.flow.series import Tally

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer
    from penstock.core.routing.route import Route


def count_refused(producer: Producer) -> None:
    """Count a publish that an overflow policy refused."""
    _rest_of(producer).publish += 1


def count_unroutable(producer: Producer, route: Route) -> None:
    """Count a publish that reached no queue, for its publisher and its exchange."""
    rest = _rest_of(producer)
    rest.publish += 1
    if route.mandatory:
        rest.return_unroutable += 1
    else:
        rest.drop_unroutable += 1
    route.counters.count_unroutable(route.mandatory)


def _rest_of(producer: Producer) -> Tally:
    rest = producer.rest
    if rest is None:
        rest = Tally()
        producer.rest = rest
    return rest


def add_counts(producer: Producer, tally: Tally) -> None:
    """Add the counts of a producer to a tally."""
    tally.publish += producer.accepted_messages
    tally.confirm += producer.confirms.confirmed()
    if producer.rest is not None:
        tally.add(producer.rest)


def take_counts(producer: Producer, tally: Tally) -> None:
    """Move the counts of an ending producer to a tally. Counts that are added later move with the next call."""
    add_counts(producer, tally)
    producer.sampled_messages -= producer.accepted_messages
    producer.accepted_messages = 0
    producer.confirms.forget_confirmed()
    producer.rest = None
