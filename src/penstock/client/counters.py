"""Counters of a connection, a publisher and a receiver; they are not reset by a loss of the connection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.client.engine.connection import Engine
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.tally import Tally


@dataclass(frozen=True)
class PublisherCounters:
    """Messages of a publisher."""

    published: int = 0
    """Messages written at least once; each has one of the next three outcomes, or none yet."""
    confirmed: int = 0
    refused: int = 0
    unknown: int = 0
    """Messages whose outcome was lost with the connection."""
    returned: int = 0
    """Refused messages that reached no queue."""
    delayed: int = 0
    """Messages that had to wait for room."""
    timed_out: int = 0
    """Messages that were not sent because no room became free until their time-out."""
    blocked: int = 0
    """Number of times that the broker has blocked the publisher."""
    replayed: int = 0
    """Messages sent again after a loss of the connection."""
    waited_s: float = 0.0
    """Total seconds that delayed messages have waited."""


@dataclass(frozen=True)
class ReceiverCounters:
    """Messages of a receiver."""

    received: int = 0
    """Messages passed to the program."""
    accepted: int = 0
    rejected: int = 0
    released: int = 0
    modified: int = 0


@dataclass(frozen=True)
class ConnectionCounters:
    """Counters of a connection, and the sums over its publishers and receivers, ended ones included."""

    publishers: PublisherCounters
    receivers: ReceiverCounters
    reconnects: int = 0
    """Number of reconnects."""
    blocked: int = 0
    """Number of times that the broker has blocked the whole connection (connection.blocked)."""


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
