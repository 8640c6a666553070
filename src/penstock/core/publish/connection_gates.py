"""The gates of a connection and of its user, on the road of all its publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.gates.rate_gate import RateGate
    from penstock.core.publish.producer import Producer
    from penstock.flow.gate import Gate


class ConnectionGates:
    """The gates, rate and producers of one connection."""

    def __init__(self, user: str, name: str) -> None:
        self.user = user
        self.name = name
        """Name of the connection, as in logs and `penstock block connection`."""
        self.weight: int = 1
        """Share of the turns of each of its producers (see Turns)."""
        self.gates: list[Gate] = []
        """The gates of the connection and of its user."""
        self.producers: list[Producer] = []
        self.rate: RateGate | None = None
        """The rate limit of the connection; None for none."""

    def part(self, producer: Producer) -> None:
        """Remove a closed producer."""
        if producer in self.producers:
            self.producers.remove(producer)
        if producer.rate is not None:
            producer.rate.drop()
