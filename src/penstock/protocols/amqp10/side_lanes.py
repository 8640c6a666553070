"""Side lanes of a link to the anonymous terminus: messages to one full target wait, and messages to other targets pass.

Theory of operation. Confirms of one producer are in order, and so are its held publishes. So while the producer of such
a link has waiting publishes (held, or with withheld confirms), messages to another target get a producer of their own,
a lane. Messages to one target stay in order: while some of them wait, all further ones take the same lane. AMQP 1.0
promises no order among different targets. A lane is reused once all its publishes are decided.

The hold budget bounds waiting publishes, as on every link. A connection has at most `LANES_MAX` lanes. Beyond that,
messages wait behind others, as on a link with one target.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.core.publish.producer import Producer
from penstock.core.routing.route import Route
from penstock.protocols.amqp10.delivery_ids import DeliveryIds
from penstock.protocols.amqp10.link import LINK_ATTACHED, Link
from penstock.protocols.amqp10.link_producer import LinkProducer

LANES_MAX: Final = 64
"""Most lanes of a connection, about 3 KiB each."""
_NOWHERE: Final = ("", "")


def is_busy(producer: Producer) -> bool:
    """Return whether publishes of a producer wait: some are held, or confirms are withheld."""
    return len(producer.outbox) > 0 or len(producer.confirms.pending) > 0


class SideLane(LinkProducer):
    """A producer for the messages of one link to one target at a time."""

    def __init__(self, link: Link, number: int) -> None:
        super().__init__(link, number)
        self.ids = DeliveryIds()
        self.place: tuple[str, str] = _NOWHERE
        """Exchange and routing key of the lane's messages."""

    @override
    def on_confirms(self) -> None:
        if self.link.state == LINK_ATTACHED:
            self.link.on_lane_confirms(self.number)
        else:
            self.producer.confirms.take()


class SideLanes:
    """Lanes of one link, beside its own producer."""

    def __init__(self, link: Link, producer: Producer) -> None:
        self._link = link
        self._producer = producer
        self._place: tuple[str, str] = _NOWHERE
        """Exchange and routing key for which the link's own producer was used last."""
        self._lanes: list[SideLane] = []

    def lane_for(self, route: Route) -> SideLane | None:
        """Return the lane for a message on a route; None for the link's own producer."""
        envelope = route.envelope
        place = (envelope.exchange, envelope.routing_key)
        idle: SideLane | None = None
        for lane in self._lanes:
            if not is_busy(lane.producer):
                idle = lane
            elif lane.place == place:
                return lane
        if not is_busy(self._producer):
            self._place = place
            return None
        if self._place == place:
            return None
        if idle is None:
            idle = self._begin()
        if idle is not None:
            idle.place = place
        return idle

    def _begin(self) -> SideLane | None:
        """Begin another lane; None at the limit of the connection."""
        endpoint = self._link.session.endpoint
        if endpoint.side_lanes >= LANES_MAX:
            return None
        endpoint.side_lanes += 1
        lane = SideLane(self._link, len(self._lanes) + 1)
        self._lanes.append(lane)
        return lane

    def all(self) -> list[SideLane]:
        """Return the lanes."""
        return self._lanes

    def producers(self) -> list[Producer]:
        """Return the producers of the lanes."""
        return [lane.producer for lane in self._lanes]

    def end(self) -> list[Producer]:
        """Remove all lanes: their link has ended. Return their producers, which the caller closes."""
        producers = self.producers()
        self._link.session.endpoint.side_lanes -= len(producers)
        self._lanes = []
        return producers
