"""Where publishes come from: a connection and its user, with the gates that both put on the road of every message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.gates.rate_gate import RateGate
    from penstock.core.publish.producer import Producer
    from penstock.flow.gate import Gate


class ConnectionGates:
    """One connection, as the gates know it."""

    def __init__(self, user: str, name: str) -> None:
        self.user = user
        self.name = name
        """Who the connection is, for people and for `penstock block connection`."""
        self.weight: int = 1
        """Share of the turns that each of its producers has (see Turns)."""
        self.gates: list[Gate] = []
        """The gates of the connection and of its user."""
        self.producers: list[Producer] = []
        self.rate: RateGate | None = None
        """The rate of the connection; None is no bound."""

    def part(self, producer: Producer) -> None:
        """Forget a producer that went away."""
        if producer in self.producers:
            self.producers.remove(producer)
        if producer.rate is not None:
            producer.rate.drop()
