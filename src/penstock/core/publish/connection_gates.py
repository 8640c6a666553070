"""The gates of a connection and of its user, on the road of all its publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.publish.publisher_counts import take_counts
from penstock.flow.reserved_room import Party
from penstock.flow.tally import Tally

if TYPE_CHECKING:
    from penstock.core.gates.rate_gate import RateGate
    from penstock.core.publish.producer import Producer
    from penstock.core.settings.limits import Limits
    from penstock.flow.gate import Gate
    from penstock.flow.series import Series

NO_SINKS: Final[list[Tally]] = []


class ConnectionGates(Party):
    """The gates, rate and producers of one connection."""

    def __init__(self, user: str, name: str, rates: Limits | None = None) -> None:
        super().__init__(user, name)
        self.weight: int = 1
        """Share of the turns of each of its producers (see Turns)."""
        self.gates: list[Gate] = []
        """The gates of the connection and of its user."""
        self.producers: list[Producer] = []
        self.rate: RateGate | None = None
        """The rate limit of the connection; None for none."""
        self.rates = rates
        """Rates that its client has set for each of its producers; None for none."""
        self.counts = Tally()
        """Counts of its sessions and producers that have ended."""
        self.sinks: list[Tally] = NO_SINKS
        """Tallies that take these counts in its place, once it has ended."""
        self.series: Series | None = None
        """Its samples; None before its first message."""

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
