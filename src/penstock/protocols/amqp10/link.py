"""Link: the common part of both directions, from attach to detach (section 2.6)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.connections.client_profiles import Profile, profile_of_sender
from penstock.core.consume.bulk_requeue import settle_batches
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.queue.context import QueueContext
from penstock.errors import BrokerError, ErrantLink
from penstock.flow.states import StateTable
from penstock.protocols.amqp10.dynamic_nodes import LinkNode
from penstock.protocols.amqp10.error_scopes import error_composite
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.spec import DETACH
from penstock.wire.amqp10.transfer import Flow, Transfer

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer
    from penstock.protocols.amqp10.session import AmqpSession

LINK_ATTACHED: Final = 0
"""The number of `LinkState.ATTACHED`, for the hot path."""


class LinkState(IntEnum):
    """State of a link. Frames of a link that is not attached are ignored, except its detach."""

    ATTACHED = LINK_ATTACHED
    DETACH_SENT = 1
    """The broker's detach was sent, and the peer's is awaited."""
    DETACHED = 2
    """The session no longer lists the link."""


LINK_STATES: Final = StateTable(
    "link of AMQP 1.0",
    LinkState.ATTACHED,
    {
        LinkState.ATTACHED: {
            LinkState.DETACH_SENT: "error of the link",
            LinkState.DETACHED: "peer's detach, or end of its session",
        },
        LinkState.DETACH_SENT: {LinkState.DETACHED: "peer's detach, or end of its session"},
    },
)


UNSETTLED: Final = 0
SETTLED: Final = 1
MIXED: Final = 2
"""Values of snd-settle-mode (section 2.8.2)."""
FIRST: Final = 0
SECOND: Final = 1
"""Values of rcv-settle-mode (section 2.8.3)."""


LinkKey = tuple[str, str, str, bool, str]
"""Virtual host, user, container, whether the peer is the receiver, and the name of the link."""


def link_key(session: AmqpSession, attach: Composite) -> LinkKey:
    """Return the key of a link in the broker."""
    connection, role = session.connection, attach.flag("role")
    return (session.vhost.name, connection.user, session.endpoint.container, role, attach.text("name"))


def sender_profile(container: str, attach: Composite) -> Profile:
    """Return the profile of the client library that attaches a sender."""
    source = attach.inner("source")
    return profile_of_sender(container, attach.text("name"), None if source is None else source.text("address"))


class LinkEndings:
    """Deliveries of the links of an ending session: taken from the session in one pass, and settled together."""

    def __init__(self, taken: dict[Consumer, list[Batch]]) -> None:
        self._taken = taken
        self._settled: dict[Outcome, list[Batch]] = {}

    def take(self, consumer: Consumer) -> list[Batch]:
        """Return the deliveries of a link for which `takes_at_end` is true; none for other links."""
        return self._taken.get(consumer, [])

    def settle(self, batches: list[Batch], outcome: Outcome) -> None:
        """Settle deliveries at the end (`finish`)."""
        if batches:
            self._settled.setdefault(outcome, []).extend(batches)

    def finish(self, broker: QueueContext) -> None:
        """Settle the deliveries of all links; if there are many, in later turns."""
        for outcome, batches in self._settled.items():
            settle_batches(broker, batches, outcome)


class Link:
    """A link endpoint of a session.

    The broker's handle equals the peer's, unless the peer's handle-max does not permit that.
    """

    def __init__(self, session: AmqpSession, attach: Composite) -> None:
        self.session: AmqpSession = session
        self.peer_handle: i64 = attach.number("handle")
        """Handle of the link in frames from the peer."""
        self.handle: i64 = session.links.free_handle(self.peer_handle)
        """Handle of the link in frames to the peer."""
        self.link_name: str = attach.text("name")
        self.state: i64 = LINK_ATTACHED
        """State as the number of a `LinkState`: each transfer reads it."""
        self.flow_due: bool = False
        """True if a flow of the link is to be written at the end of the turn."""
        self.key: LinkKey = link_key(session, attach)
        """Key of the link in the broker."""
        self.default_outcome: Outcome = Outcome.RELEASED
        """Outcome of deliveries that are settled without an outcome, or left unsettled by the end of the link."""
        self.nodes: list[LinkNode] = []
        """Dynamic nodes and subscriptions to notify when the link ends."""

    def move(self, state: LinkState) -> None:
        """Change the state; see link.py for the transitions."""
        self.state = LINK_STATES.step(self.state, state)

    def on_flow(self, flow: Flow) -> None:
        """Handle a flow of the peer. Raises BrokerError."""
        raise NotImplementedError

    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        """Handle a transfer that ends at `end`. Raises BrokerError."""
        raise ErrantLink(f"transfer on link '{self.link_name}', whose receiver the peer is")

    def write_flow(self) -> None:
        """Write the state of the link."""
        raise NotImplementedError

    def write_outcomes(self) -> None:
        """Write the ready outcomes of the link's publishes, as ranges."""

    def write_side_outcomes(self) -> None:
        """Write the ready outcomes of further producers of the link."""

    def on_lane_confirms(self, number: int) -> None:
        """Write the ready outcomes of a side lane, by its number."""

    def side_producers(self) -> list[Producer]:
        """Return the producers of the link beside its own producer."""
        return []

    def deliver(self, batch: Batch) -> None:
        """Write deliveries of the link's consumer."""
        raise NotImplementedError

    def on_drained(self) -> None:
        """Report to the peer that nothing more can be delivered: its credit is used up or given up."""

    def on_detach(self, closed: bool) -> None:
        """Release the resources of the link: the peer has detached it, or the session ends (`closed` is true)."""
        raise NotImplementedError

    def takes_at_end(self, graceful: bool) -> bool:
        """Return whether the link has unsettled deliveries that its ending session must not settle.

        `graceful`: the peer ends the session.
        """
        return False

    def on_session_ended(self, endings: LinkEndings) -> None:
        """Suspend the link if its terminus outlives its detach."""

    def end(self, graceful: bool) -> None:
        """End the publishing side: the session ends."""

    def unlink(self) -> None:
        """Cut references between parts of the link: it has ended."""

    def detach(self, error: BrokerError, closed: bool = True, info: dict[object, object] | None = None) -> None:
        """Detach the link because of an error with this `info`, and ignore its frames until the peer's detach.

        A link that is not closed may be suspended.
        """
        if self.state == LINK_ATTACHED and self.session.is_open():
            connection = self.session.connection
            connection.services.log_request_refused(connection, f"{self.session.name}/link:{self.link_name}", error)
            self.on_detach(closed)
            self.end_nodes(False)
            self.move(LinkState.DETACH_SENT)
            self.session.send(
                composite(DETACH, handle=int(self.handle), closed=True, error=error_composite(error, info))
            )

    def end_nodes(self, closed: bool) -> None:
        """Notify dynamic nodes and subscriptions that the link has ended; `closed`: for good."""
        self.session.endpoint.shared.suspended.forget(self.key, self)
        nodes = self.nodes
        self.nodes = []
        for node in nodes:
            node.on_link_ended(closed)

    def is_arriving(self) -> bool:
        """Return whether a delivery of the peer has begun on the link and is not complete."""
        return False

    def request_flow(self) -> None:
        """Schedule a flow of the link for the end of the turn."""
        if not self.flow_due:
            self.flow_due = True
            self.session.request_flow(self)
