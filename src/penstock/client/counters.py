"""Counters of a connection, a publisher and a receiver; they are not reset by a loss of the connection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.client.engine.connection import Engine
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import Tally


@dataclass(frozen=True)
class PublisherCounters:
    """Messages of a publisher."""

    published: int = 0
    """Written once or more often; each has one of the next three outcomes, or none yet."""
    confirmed: int = 0
    refused: int = 0
    unknown: int = 0
    """Lost with the connection."""
    returned: int = 0
    """Those among the refused that reached no queue."""
    delayed: int = 0
    """Had to wait for room."""
    timed_out: int = 0
    """Were not sent because no room came until their time-out."""
    blocked: int = 0
    """Times that the broker has stopped the publisher."""
    replayed: int = 0
    """Sent again after a loss of the connection."""
    waited_s: float = 0.0
    """Seconds that the delayed ones have waited, all together."""


@dataclass(frozen=True)
class ReceiverCounters:
    """Messages of a receiver."""

    received: int = 0
    """Handed to the program."""
    accepted: int = 0
    rejected: int = 0
    released: int = 0
    modified: int = 0


@dataclass(frozen=True)
class ConnectionCounters:
    """Of a connection, and the sums of its publishers and receivers, those that have ended included."""

    publishers: PublisherCounters
    receivers: ReceiverCounters
    reconnects: int = 0
    """Times that it was made again."""
    blocked: int = 0
    """Times that the broker has blocked it as a whole (connection.blocked)."""


def of_publisher(core: PublisherCore) -> PublisherCounters:
    """Return the counters of a publisher."""
    return replace(PublisherCounters(*core.counts()), waited_s=core.waited)


def of_receiver(core: ReceiverCore) -> ReceiverCounters:
    """Return the counters of a receiver."""
    return ReceiverCounters(*core.counts())


def of_connection(engine: Engine) -> ConnectionCounters:
    """Return the counters of a connection."""
    own, sums = engine.tally, Tally()
    sums.of_publishers, sums.of_receivers, sums.waited = own.of_publishers, own.of_receivers, own.waited
    for publisher in engine.publishers:
        sums.add_publisher(publisher.counts(), publisher.waited)
    for receiver in engine.receivers:
        sums.add_receiver(receiver.counts())
    publishers = replace(PublisherCounters(*sums.of_publishers), waited_s=sums.waited)
    return ConnectionCounters(
        publishers, ReceiverCounters(*sums.of_receivers), reconnects=max(own.opened - 1, 0), blocked=own.blocked
    )
