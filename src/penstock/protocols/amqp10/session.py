"""Session: its links by handle, and the deliveries of all its outgoing links (section 2.5).

Numbers in the ledger of unsettled deliveries follow delivery-ids: number 1 has the delivery-id 0.

Links (`SessionLinks`) are found by the peer's handle, by the broker's handle, and by the consumer of a receiver.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.client_session import ClientSession, SessionEngine, SessionState
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import settle_in_slices
from penstock.core.publish.producer import Producer
from penstock.errors import (
    BrokerError,
    FrameError,
    HandleInUse,
    InvalidField,
    NotAllowed,
    PreconditionFailed,
    TransferViolation,
    UnattachedHandle,
)
from penstock.protocols.amqp10.delivery_ids import AcceptedRanges
from penstock.protocols.amqp10.delivery_writer import DeliveryWriter
from penstock.protocols.amqp10.endpoint import Endpoint
from penstock.protocols.amqp10.error_scopes import Scope, error_composite, scope_of
from penstock.protocols.amqp10.link import LINK_ATTACHED, Link, LinkEndings, LinkState
from penstock.protocols.amqp10.session_windows import RENEW_AT, SessionWindows
from penstock.protocols.amqp10.settler import Settler
from penstock.protocols.amqp10.unsent_outcomes import UnsentOutcomes
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import DETACH, DISPOSITION, END, FLOW, TRANSFER
from penstock.wire.amqp10.transfer import Disposition, Flow, Transfer
from penstock.wire.amqp10.values import serial_distance

HANDLE_MAX: Final = 1023
"""Largest handle: a session has at most 1,024 links."""


class SessionLinks:
    """Links of one session.

    The broker's handle of a link equals the peer's, unless the peer's handle-max does not permit that.
    """

    def __init__(self, peer_handle_max: i64) -> None:
        self.by_handle: dict[int, Link] = {}
        """Links by the peer's handle, until the peer's detach."""
        self.ignored: set[int] = set()
        """Handles of refused links, until the peer's detach."""
        self._peer_handle_max: i64 = peer_handle_max
        self._receivers: dict[Consumer, Link] = {}
        """Attached links with the peer as receiver, by consumer."""
        self.senders: dict[Link, Producer] = {}
        """Links with the peer as sender, until the peer's detach, with their producers."""
        self._unsent: dict[Link, UnsentOutcomes] = {}
        """Deliveries of these links whose outcome the sender does not know."""
        self.coordinators: dict[Link, list[Producer]] = {}
        """Attached links to the transaction coordinator, with the producers of their lanes."""

    def check_free(self, attach: Composite) -> None:
        """Check that the handle of an attach is free. Raises FrameError and HandleInUse."""
        handle = attach.number("handle")
        if handle > HANDLE_MAX:
            raise FrameError(f"attach with handle {handle}; the largest is {HANDLE_MAX}")
        if handle in self.by_handle or handle in self.ignored:
            raise HandleInUse(f"attach of link '{attach.text('name')}' with handle {handle}, which another link has")

    def free_handle(self, wanted: i64) -> i64:
        """Return a handle for a new link: the wanted one if possible.

        Raises NotAllowed if the peer allows no more links.
        """
        most = self._peer_handle_max
        if most >= HANDLE_MAX:
            return wanted  # All links have the peer's handles.
        used = {int(link.handle) for link in self.by_handle.values()}
        if wanted <= most and wanted not in used:
            return wanted
        for handle in range(int(most) + 1):
            if handle not in used:
                return handle
        raise NotAllowed(f"attach with handle {wanted}: the peer takes handles up to {most}, and all are in use")

    def add(self, link: Link) -> None:
        """Add an attached link."""
        self.by_handle[int(link.peer_handle)] = link
        link.session.endpoint.link_count += 1

    def add_receiver(self, link: Link, consumer: Consumer) -> None:
        """Add an attached link with the peer as receiver."""
        self.add(link)
        self._receivers[consumer] = link

    def add_sender(self, link: Link, producer: Producer, unsent: UnsentOutcomes) -> None:
        """Add an attached link with the peer as sender."""
        self.add(link)
        self.senders[link] = producer
        self._unsent[link] = unsent

    def on_settled(self, first: i64, last: i64) -> i64:
        """Forget deliveries whose senders have settled second; returns the number of links and deliveries examined."""
        looked_at: i64 = len(self.by_handle)
        for unsent in self._unsent.values():
            looked_at += unsent.on_settled(first, last)
        return looked_at

    def forget(self, link: Link) -> None:
        """Remove a link that both sides have detached."""
        link.move(LinkState.DETACHED)
        del self.by_handle[int(link.peer_handle)]
        self.senders.pop(link, None)
        self._unsent.pop(link, None)
        link.unlink()
        link.session.endpoint.link_count -= 1

    def receiver_of(self, consumer: Consumer) -> Link | None:
        """Return the attached link of a consumer."""
        return self._receivers.get(consumer)

    def has_receivers(self) -> bool:
        """Return whether any attached link has the peer as receiver."""
        return len(self._receivers) > 0

    def forget_receiver(self, consumer: Consumer) -> None:
        """Remove a link that is being detached from the table of consumers."""
        self._receivers.pop(consumer, None)

    def unlink(self) -> None:
        """Drop all links: the session has ended."""
        for link in self.by_handle.values():
            link.unlink()
        self.by_handle.clear()
        self._receivers.clear()
        self.senders.clear()
        self._unsent.clear()

    def end(self, session: AmqpSession, graceful: bool) -> None:
        """Suspend the links whose terminus outlives the ending session.

        If the peer ends the session (`graceful`), unsettled deliveries of other links get the default outcome of their
        source; else they count as failed.
        """
        suspended = session.endpoint.shared.suspended
        if graceful:
            session.end_outcome = Outcome.RELEASED
        taken: dict[Consumer, list[Batch]] = {}
        for consumer, receiver in self._receivers.items():
            if receiver.state == LINK_ATTACHED and receiver.takes_at_end(graceful):
                taken[consumer] = []
        if taken:
            session.unsettled.detach_into(taken)
        endings = LinkEndings(taken)
        for link in self.by_handle.values():
            if link.state == LINK_ATTACHED:
                link.on_session_ended(endings)
            suspended.forget(link.key, link)
        endings.finish(session.broker)
        suspended.on_session_ended(session, session.connection_number)


FLOW_WORK: Final = 1
"""Units of work of a flow."""
LINKS_A_UNIT: Final = 8
"""Links asked per unit of work whether a delivery belongs to them."""


class AmqpSession(ClientSession):
    """Session of a connection. The broker's channel number equals the peer's."""

    def __init__(self, engine: SessionEngine[AmqpSession], endpoint: Endpoint, channel: int, begin: Composite) -> None:
        super().__init__(engine, "ssn", channel)
        self.endpoint: Endpoint = endpoint
        self.windows = SessionWindows(begin)
        self.last_delivery_id: i64 = ABSENT
        """Delivery-id of the last delivery of the peer."""
        self.links = SessionLinks(begin.number("handle_max", 0xFFFFFFFF))
        self._last_link: Link | None = None
        """Link of the last transfer; None after that link is gone."""
        self.writer = DeliveryWriter(self)
        self.settler = Settler(self)
        self._accepted = AcceptedRanges()
        self.transactions: int = 0
        """Number of transactions in which the session takes part."""
        self._flows: list[Link] = []
        """Links with a flow to write at the end of the turn."""
        self._session_flow_due: bool = False
        """True if a flow of the session is to be written at the end of the turn."""

    def send(self, performative: Composite) -> None:
        """Write a performative on the session's channel."""
        self._accepted.write(self.connection.output.buffer, self.number)
        self.endpoint.send(self.number, performative)

    # Performatives

    def on_performative(self, performative: Composite) -> None:
        """Handle a detach. Raises BrokerError for errors that close the connection."""
        try:
            if performative.code == DETACH:
                self._on_detach(performative)
            else:
                raise NotAllowed(f"{performative.name} is no performative of a session")
        except BrokerError as error:
            self.on_error(error, performative.code)

    def _on_detach(self, detach: Composite) -> None:
        handle = detach.number("handle")
        if handle in self.links.ignored:
            self.links.ignored.discard(handle)
            return
        link = self._link(handle, detach.name)
        if link.state == LINK_ATTACHED:
            closed = detach.flag("closed")
            link.on_detach(closed)
            link.end_nodes(closed)
            self.send(composite(DETACH, handle=int(link.handle), closed=closed))
        self.forget_link(link)

    def forget_link(self, link: Link) -> None:
        """Remove a link that both sides have detached."""
        self.links.forget(link)
        self._last_link = None

    def _link(self, handle: i64, what: str) -> Link:
        link = self.links.by_handle.get(int(handle))
        if link is None:
            raise UnattachedHandle(f"{what} with handle {handle}, which no link of the session has")
        return link

    def begin_delivery(self, transfer: Transfer) -> None:
        """Check and record the delivery-id of the first frame of a delivery.

        Raises TransferViolation or InvalidField.
        """
        delivery_id = transfer.delivery_id
        if delivery_id == ABSENT:
            raise InvalidField("the first transfer of a delivery has no delivery-id")
        last = self.last_delivery_id
        if last != ABSENT and delivery_id != (last + 1) & 0xFFFFFFFF:
            self.ignore_delivery(delivery_id)
            raise TransferViolation(f"delivery-id {delivery_id} follows {last}: they must be consecutive")
        self.last_delivery_id = delivery_id
        if transfer.tag_stop == 0:
            raise InvalidField(f"delivery {delivery_id} has no delivery-tag")

    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        """Handle a transfer that ends at `end`. Raises BrokerError for errors that close the connection."""
        try:
            windows = self.windows
            windows.count_transfer()
            link = self._last_link
            if link is None or link.peer_handle != transfer.handle or link.state != LINK_ATTACHED:
                link = self._link_of(transfer)
            if link is not None:
                link.on_transfer(transfer, data, end)
            if windows.incoming_window == RENEW_AT - 1:
                self.request_flow(None)
        except BrokerError as error:
            self.on_error(error, TRANSFER, self.links.by_handle.get(transfer.handle))

    def _link_of(self, transfer: Transfer) -> Link | None:
        """Return the link of a transfer; None if the transfer is ignored. Raises UnattachedHandle."""
        handle = transfer.handle
        link = self.links.by_handle.get(int(handle))
        if link is None and handle not in self.links.ignored:
            raise UnattachedHandle(f"transfer with handle {handle}, which no link of the session has")
        if link is None or link.state != LINK_ATTACHED:
            self.ignore_delivery(transfer.delivery_id)
            return None
        self._last_link = link
        return link

    def ignore_delivery(self, delivery_id: i64) -> None:
        """Count the delivery-id of an ignored transfer: its link was refused or detached.

        The delivery-id may be `ABSENT`.
        """
        if delivery_id != ABSENT:
            last = self.last_delivery_id
            if last == ABSENT or serial_distance(last, delivery_id) > 0:
                self.last_delivery_id = delivery_id

    def on_flow(self, flow: Flow) -> None:
        """Handle a flow. Raises BrokerError for errors that close the connection."""
        link: Link | None = None
        try:
            self.broker.work.done += FLOW_WORK
            was_open = self._window_open()
            self.windows.take(flow.next_incoming_id, flow.incoming_window, flow.next_outgoing_id)
            if flow.handle != ABSENT and flow.handle not in self.links.ignored:
                link = self._link(flow.handle, "flow")
                if link.state == LINK_ATTACHED:
                    link.on_flow(flow)
            elif flow.echo:
                self.request_flow(None)
            self.writer.on_window()
            if not was_open and self._window_open():
                self.wake_waiting()
        except BrokerError as error:
            self.on_error(error, FLOW, link)

    def on_error(self, error: BrokerError, performative: int, link: Link | None = None) -> None:
        """End the scope of an error. Raises the error again if the scope is the connection."""
        scope = scope_of(error, performative, link is not None)
        if scope is Scope.CONNECTION:
            raise error
        if scope is Scope.SESSION or link is None:
            self.fail(error)
        else:
            link.detach(error)

    # Flows at the end of the turn

    def request_flow(self, link: Link | None) -> None:
        """Schedule a flow for the end of the turn: of a link, or of the session alone (None)."""
        if link is None:
            self._session_flow_due = True
        else:
            self._flows.append(link)
        self.endpoint.request_flow(self.number)

    def write_flows(self) -> None:
        """Write the flows that are due."""
        flows = self._flows
        self._flows = []
        if not self.is_open():
            return
        self._accepted.write(self.connection.output.buffer, self.number)
        for link in flows:
            link.flow_due = False
            if link.state == LINK_ATTACHED:
                link.write_flow()
        if self.windows.needs_renewal() or (self._session_flow_due and not flows):
            self.windows.write(self.connection.output.buffer, self.number)
        self._session_flow_due = False

    # Publishing

    @override
    def producers(self) -> list[Producer]:
        lanes = self.links.coordinators.values()
        beside = (producer for link in self.links.senders for producer in link.side_producers())
        return [*self.links.senders.values(), *(lane for each in lanes for lane in each), *beside]

    @override
    def in_transaction(self) -> bool:
        return len(self.links.coordinators) > 0 or self.transactions > 0

    def write_outcomes(self) -> None:
        """Write the ready outcomes of all links."""
        for link, producer in self.links.senders.items():
            if producer.confirms.ready():
                link.write_outcomes()
            link.write_side_outcomes()
        self.endpoint.write_provisional()
        if self.links.coordinators:
            for lanes in list(self.links.coordinators.values()):  # A refused commit may detach its coordinator.
                for lane in lanes:
                    if lane.confirms.ready():
                        lane.listener.on_confirms()
        self._accepted.write(self.connection.output.buffer, self.number)

    def accept(self, first: i64, last: i64) -> None:
        """Accept and settle deliveries of the peer at the end of the turn."""
        if self._accepted.add(first, last):
            self.endpoint.request_flow(self.number)

    # Consuming

    def _window_open(self) -> bool:
        """Return whether the peer accepts transfer frames."""
        return self.windows.remote_incoming_window > 0 and self.writer.is_empty()

    @override
    def receiving(self) -> bool:
        return self.delivering and self.connection.output.writable and self._window_open()

    @override
    def stopped(self) -> bool:
        return not self.delivering or not self._window_open()

    @override
    def why_not_receiving(self) -> str:
        if not self._window_open():
            return "the window of its session is used up (incoming-window)"
        return "its connection does not read what has been sent"

    @override
    def deliver(self, batch: Batch) -> None:
        link = self.links.receiver_of(batch.consumer)
        if link is not None:
            link.deliver(batch)
        self.on_written(batch)

    def on_disposition(self, disposition: Disposition) -> bool:
        """Settle deliveries. Returns False if the disposition is to be repeated for the remaining deliveries.

        Raises BrokerError for errors that close the connection.
        """
        try:
            if disposition.receiver:
                return self.settler.on_disposition(disposition)
            self._on_sender_settled(disposition)
        except BrokerError as error:
            if not disposition.receiver or not self._detach_for(disposition, error):
                self.on_error(error, DISPOSITION)
        return True

    def _detach_for(self, disposition: Disposition, error: BrokerError) -> bool:
        """Detach the receivers of the deliveries that a refused disposition names.

        Return False if the error ends a larger scope.
        """
        if scope_of(error, DISPOSITION) > Scope.LINK:
            return False
        return self.detach_receivers(disposition.first, disposition.last, error)

    def detach_receivers(self, first: i64, last: i64, error: BrokerError) -> bool:
        """Detach the receivers of unsettled deliveries, by delivery-ids, with an error.

        Return False if there are none.
        """
        ids = self.writer.ids
        if ids.is_future(last):
            return False
        self.broker.work.done += self.unsettled.batch_count() // LINKS_A_UNIT
        found = False
        for consumer in self.unsettled.consumers_of(ids.number_of(first), ids.number_of(last)):
            link = self.links.receiver_of(consumer)
            if link is not None:
                link.detach(error)
                found = True
        return found

    @override
    def on_drained(self, consumer: Consumer, credit: i64) -> None:
        link = self.links.receiver_of(consumer)
        if link is not None and link.state == LINK_ATTACHED and self.is_open():
            link.on_drained()

    @override
    def on_cancelled(self, consumer: Consumer, reason: BrokerError) -> None:
        link = self.links.receiver_of(consumer)
        if link is not None:
            link.detach(reason)

    @override
    def fail_overdue(self, consumer: Consumer, timeout_s: float) -> None:
        link = self.links.receiver_of(consumer)
        if link is not None:
            own = consumer.own_timeout_s == timeout_s
            limit = "its own consumer-timeout" if own else f"the consumer-timeout of queue '{consumer.queue.name}'"
            link.default_outcome = Outcome.FAILED  # The deliveries return, whatever the default outcome of the source.
            link.detach(
                PreconditionFailed(
                    f"a delivery on link '{link.link_name}' was not settled within the {round(timeout_s * 1000)} ms of "
                    f"{limit}"
                )
            )
            return
        for first, last in self.unsettled.numbers_of(consumer):  # The link was detached, and may be resumed.
            for begin, end in self.settler.free_ranges(first, last, False):
                settle_in_slices(self.broker, self, begin, end, Outcome.FAILED)

    def _on_sender_settled(self, disposition: Disposition) -> None:
        """Forget deliveries whose sender has settled second."""
        if disposition.settled:
            looked_at = self.links.on_settled(disposition.first, disposition.last)
            self.broker.work.done += looked_at // LINKS_A_UNIT

    # End

    @override
    def fail(self, error: BrokerError) -> None:
        if self.is_open():
            self.connection.services.log_request_refused(self.connection, self.name, error)
            self.tear_down(SessionState.CLOSE_SENT)
            self.send(composite(END, error=error_composite(error)))

    @override
    def write_last_outcomes(self, graceful: bool) -> None:
        self.write_outcomes()
        self.links.end(self, graceful)

    @override
    def end(self, graceful: bool) -> None:
        self.writer.end()
        for coordinator in list(self.links.coordinators):
            coordinator.end(graceful)
        if self.transactions > 0:
            self.endpoint.transactions().end_session(self)
        for link in self.links.senders:
            link.end(graceful)

    @override
    def answer_close(self) -> None:
        self.send(composite(END))

    @override
    def unlink(self) -> None:
        self.writer.unlink()
        self.settler.unlink()
        self._last_link = None
        self._flows = []
        self.links.unlink()

    @override
    def on_torn_down(self) -> None:
        for link in self.links.by_handle.values():
            link.end_nodes(False)
        self.endpoint.link_count -= len(self.links.by_handle)
        super().on_torn_down()
