"""The gates, rate and producers of one connection, and the counts of publishers that are off their fast path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.gates.rate_gate import RateGate
from penstock.core.journal.write_shares import WriteShare
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Limits
from penstock.flow.gate import Gate
from penstock.flow.reserved_room import Party
from penstock.flow.series import Series, Tally
from penstock.settings.table import SettingValue

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer

NO_SINKS: Final[list[Tally]] = []
NO_SETTINGS: Final[dict[str, SettingValue]] = {}


class ConnectionGates(Party):
    """The gates, rate and producers of one connection."""

    def __init__(self, user: str, name: str, rates: Limits | None = None) -> None:
        super().__init__(user, name)
        self.weight: int = 1
        """Weight of each of the connection's producers in fair queueing (see Turns)."""
        self.gates: list[Gate] = []
        """The gates of the connection and of its user."""
        self.producers: list[Producer] = []
        self.rate: RateGate | None = None
        """The rate limit of the connection; None without one."""
        self.rates = rates
        """Rates that the client has set for each of its producers; None without any."""
        self.given: dict[str, SettingValue] = NO_SETTINGS
        """Settings of this connection by command, which end with it; replaced as a whole."""
        self.counts = Tally()
        """Counts of sessions and producers of the connection that have ended."""
        self.sinks: list[Tally] = NO_SINKS
        """Tallies that receive these counts, once the connection has ended."""
        self.series: Series | None = None
        """Samples of the connection; None before its first message."""
        self.writes = WriteShare(user)
        """The connection's share of store writes."""

    def count(self, counts: Tally) -> None:
        """Add the counts of a session or producer that ends."""
        if not self.sinks:
            self.counts.add(counts)
        for sink in self.sinks:
            sink.add(counts)

    def part(self, producer: Producer) -> None:
        """Remove a closed producer."""
        if producer in self.producers:
            self.producers.remove(producer)
            taken = Tally()
            take_counts(producer, taken)
            self.count(taken)
        if producer.rate is not None:
            producer.rate.drop()


def count_refused(publisher: WaitingPublisher) -> None:
    """Count a publish that an overflow policy refused."""
    _rest_of(publisher).publish += 1


def count_unroutable(publisher: WaitingPublisher, route: Route) -> None:
    """Count a publish that reached no queue, for its publisher and its exchange."""
    rest = _rest_of(publisher)
    rest.publish += 1
    if route.mandatory:
        rest.return_unroutable += 1
    else:
        rest.drop_unroutable += 1
    route.counters.count_unroutable(route.mandatory)


def _rest_of(publisher: WaitingPublisher) -> Tally:
    rest = publisher.rest
    if rest is None:
        rest = Tally()
        publisher.rest = rest
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
