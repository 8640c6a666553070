"""Further producer of a link, for publishes that must not wait behind publishes of the link's other producers.

A link to the anonymous terminus has one for each target with waiting messages (`side_lanes`), a link to the coordinator
one for each transaction (`request_links`). Held publishes of such a producer are counted at the connection, and an
error detaches the link. Subclasses define the answers that its confirms stand for.
"""

from __future__ import annotations

from typing_extensions import override

from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.errors import BrokerError
from penstock.flow.gate import Gate
from penstock.protocols.amqp10.link import Link


class LinkProducer(ProducerListener):
    """One of several producers of a link, with its number among them, counted from 1."""

    def __init__(self, link: Link, number: int) -> None:
        session = link.session
        super().__init__(session.connection_number)
        self.link = link
        self.number = number
        connection = session.connection
        self.producer = Producer(
            session.broker,
            f"{session.name}/{link.link_name}/{number}",
            connection.pausing.budget,
            connection.origin,
            self,
        )

    @override
    def on_closed(self, error: BrokerError) -> None:
        self.link.detach(error)

    @override
    def on_blocked(self, gate: Gate) -> bool:
        return self.link.session.connection.count_block(gate, 1)

    @override
    def on_unblocked(self, gate: Gate) -> bool:
        return self.link.session.connection.count_block(gate, -1)

    @override
    def on_departed(self) -> None:
        self.link.session.connection.count_departed(self.producer)
