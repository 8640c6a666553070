"""Links to the management node: requests come on one, responses go on the link of the same name that is paired with it.

Credit for requests is constant and never blocked. Responses wait in an unlisted queue, as direct replies do
(decisions 23 and 51). So the credit of their link, the session's window and the end of the link are those of any other.
Beyond `RESPONSES_MAX` that wait, a response is dropped: the node never waits for room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.vhost import REPLY_TO
from penstock.errors import BrokerError, ContentTooLarge, PreconditionFailed, TransferLimitExceeded
from penstock.flow.level import OVERHEAD
from penstock.log_ids import RESPONSE_DROPPED
from penstock.protocols.amqp10.error_scopes import error_composite
from penstock.protocols.amqp10.link import LINK_ATTACHED, Link
from penstock.protocols.amqp10.management_node import answer, read_request
from penstock.protocols.amqp10.outgoing_link import OutgoingLink
from penstock.protocols.common.log_line import LogLine
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import DISPOSITION, REJECTED
from penstock.wire.amqp10.transfer import ACCEPTED_STATE, Flow, Transfer, write_disposition
from penstock.wire.amqp10.values import serial_distance

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession

WINDOW: Final = 100
"""Credit in requests; it is renewed when less than half of it is left, and nothing blocks it."""


class RequestIntake:
    """The receiving side of one link to the broker itself.

    `taker` is who takes its requests, for errors; `octets_max` is the size of the largest.
    """

    __deletable__ = ("_link",)

    def __init__(self, link: Link, attach: Composite, octets_max: i64, taker: str) -> None:
        self._link = link
        self._octets_max: i64 = octets_max
        self._taker = taker
        self.delivery_count: i64 = attach.number("initial_delivery_count", 0)
        self.credit: i64 = 0
        """Requests that the peer may still send."""
        self.delivery_id: i64 = ABSENT
        """Delivery-id of the last request."""
        self.settled: bool = False
        """True if any of its frames was sent settled."""
        self._arrives: bool = False
        """True between the frames of a request."""
        self._pieces: bytes = b""
        """Payload so far of that request."""

    def grant(self) -> None:
        """Grant credit, if less than half of the window is left."""
        if self.credit < WINDOW // 2:
            self.credit = WINDOW
            self._link.request_flow()

    def on_flow(self, flow: Flow) -> None:
        """Act on a flow of the peer: credit that its sender has given up is granted again."""
        if flow.delivery_count != ABSENT:
            drained = serial_distance(self.delivery_count, flow.delivery_count)
            if drained > 0:
                self.delivery_count = flow.delivery_count
                self.credit -= drained if drained < self.credit else self.credit
                self.grant()
        if flow.echo:
            self._link.request_flow()

    def write_flow(self) -> None:
        """Write the state of the link."""
        link = self._link
        session = link.session
        session.windows.write(session.engine.out, session.number, link.handle, self.delivery_count, self.credit)

    def take(self, transfer: Transfer, data: bytes, end: i64) -> bytes | None:
        """Return the request that a frame completes; None if more frames come, or it is aborted.

        Raises NotAllowed, TransferLimitExceeded without credit, and ContentTooLarge.
        """
        if not self._arrives:
            self._link.session.begin_delivery(transfer)
            if self.credit == 0:
                raise TransferLimitExceeded(f"a transfer on link '{self._link.link_name}', which has no credit")
            self.credit -= 1
            self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
            self.delivery_id = transfer.delivery_id
            self.settled = False
            self._arrives = True
        self.settled = self.settled or transfer.settled == 1
        content = self._pieces + data[transfer.payload : end]
        if len(content) > self._octets_max:
            raise ContentTooLarge(f"a message larger than the {self._octets_max} octets that {self._taker} takes")
        if transfer.more and not transfer.aborted:
            self._pieces = content
            return None
        self.drop()
        return None if transfer.aborted else content

    def unlink(self) -> None:
        """Drop the link, which has ended."""
        del self._link

    def drop(self) -> None:
        """Drop the frames of an incomplete request."""
        self._pieces = b""
        self._arrives = False


REQUEST_OCTETS_MAX: Final = 64 * 1024
"""Largest request: a declaration with many arguments has a few KiB."""
REQUEST_WORK: Final = 90
"""Units of work of a request: to read it, to look up its object, and to make, queue and deliver its response."""
OCTETS_A_UNIT: Final = 8
"""Octets of a request per unit of work: its body is decoded."""
RESPONSES_MAX: Final = 1000
"""Most responses that wait for a client that does not read."""
RESPONSES: Final = REPLY_TO + ".management."
"""Beginning of the names of the queues of responses."""


def response_queue(session: AmqpSession) -> Queue:
    """Create the queue for the responses of one link; it ends with its consumer."""
    return session.vhost.create_reply_queue(RESPONSES + session.connection.services.make_name("")[1:])


class ManagementLink(Link):
    """A link on which the peer sends requests to the management node."""

    def __init__(self, session: AmqpSession, attach: Composite) -> None:
        super().__init__(session, attach)
        self.requests = RequestIntake(self, attach, REQUEST_OCTETS_MAX, "the management node")

    @override
    def on_flow(self, flow: Flow) -> None:
        self.requests.on_flow(flow)

    @override
    def write_flow(self) -> None:
        self.requests.write_flow()

    @override
    def unlink(self) -> None:
        self.requests.unlink()

    # Requests

    @override
    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        content = self.requests.take(transfer, data, end)
        if content is not None:
            self._on_request(content, self.requests.delivery_id)
        if self.state == LINK_ATTACHED:
            self.requests.grant()

    def _on_request(self, content: bytes, delivery_id: i64) -> None:
        """Carry out a request. One that cannot be answered is rejected, or the link detached if it is settled."""
        session = self.session
        session.engine.work.done += REQUEST_WORK + len(content) // OCTETS_A_UNIT
        declared = session.broker.durable_changes.durable_declarations
        try:
            request = read_request(content)
            queue = self._responses()
        except BrokerError as error:
            if self.requests.settled:
                self.detach(error)
            else:
                state = composite(REJECTED, error=error_composite(error))
                first = int(delivery_id)
                session.send(composite(DISPOSITION, role=True, first=first, settled=True, state=state))
            return
        self._respond(queue, answer(session, request))
        if not self.requests.settled:
            write_disposition(session.engine.out, session.number, True, delivery_id, delivery_id, True, ACCEPTED_STATE)
            session.connection.request_flush()
        session.connection.output.await_change(declared)

    def _responses(self) -> Queue:
        """Return the queue of the paired link. Raises PreconditionFailed if there is none."""
        for link in self.session.links.by_handle.values():
            if isinstance(link, OutgoingLink) and link.link_name == self.link_name and link.state == LINK_ATTACHED:
                queue = link.consumer.queue
                if queue.name.startswith(RESPONSES):
                    return queue
        raise PreconditionFailed(
            f"no link '{self.link_name}' whose source is the management node: responses go to the link of the same "
            "name on the same session"
        )

    def _respond(self, queue: Queue, content: bytes) -> None:
        broker = self.session.broker
        if queue.waiting() >= RESPONSES_MAX:
            text = f"[{self.session.name}] response on link '{self.link_name}' dropped: {RESPONSES_MAX} wait for credit"
            self.session.connection.services.log_limited(LogLine(text, {"id": RESPONSE_DROPPED}))
            return
        queue.enqueue(Envelope("", queue.name), content, len(content) + OVERHEAD, broker.now)
        broker.schedule_delivery(queue)

    # End

    @override
    def on_detach(self, closed: bool) -> None:
        self.requests.drop()
