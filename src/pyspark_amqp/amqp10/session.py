"""Session of AMQP 1.0 that receives (sections 2.5 and 2.6): links with their credit, transfers, settlement.

Credit and deliveries that are not settled are together no more than the prefetch of a link, as with basic.qos.
"""

import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Protocol

from librt.strings import BytesWriter

from penstock.client import Timeout
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.disposition import ACCEPTED_STATE, RELEASED_STATE, write_disposition
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.flow import Flow, write_flow
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.serial import serial_add, serial_distance
from penstock.wire.amqp10.transfer import Transfer
from pyspark_amqp.amqp10.errors import EndedByBroker, Unreceivable, ended

MESSAGE_MAX: Final = 1 << 30
"""Largest accepted message in octets. It is not announced: brokers differ in what they do with a larger one."""
WINDOW: Final = (1 << 31) - 1
"""Frames that the broker may send; the credit of the links is the brake."""
ANSWER_SECONDS: Final = 2.0
"""Seconds that the number of waiting messages is waited for."""
_UNSETTLED: Final = 0
"""Mode of a sender that waits for the outcome of each message."""
_SETTLED: Final = 1
"""Mode of a sender that forgets each message when it sends it."""
_FIRST: Final = 0
"""Mode of a receiver whose disposition settles."""
_ARTEMIS_QUEUE: Final = "::"
"""Part of Artemis' names of a queue of any routing type; the capability would refuse all but one type."""


class Frames(Protocol):
    """Connection of a session, as the session sees it."""

    def write(self, code: int, /, **fields: object) -> None:
        """Append a performative to the output."""

    def append(self, frames: BytesWriter) -> None:
        """Append whole frames to the output."""

    def wait_for(self, happened: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Send and read until `happened()` is true; raises `Timeout` naming `what` otherwise."""


@dataclass(slots=True)
class Link:
    """Link that receives from one address."""

    name: str
    handle: int
    """Our number of it; the broker has one of its own."""
    queue: str
    """Name of its queue, as it was asked for."""
    prefetch: int
    source: Composite | None = None
    """Source as the broker has it; None until it has attached."""
    wanted: int = 0
    """Messages that may be unsettled or on their way: the prefetch, or 0 while the link is paused."""
    credit: int = 0
    """Messages that the broker may still send."""
    delivery_count: int = 0
    unsettled: int = 0
    available: int | None = None
    """Messages that waited when the broker last told."""
    parts: list[bytes] = field(default_factory=list)
    """Payloads of a delivery of several frames."""
    part_octets: int = 0
    delivery_id: int | None = None
    """Delivery-id of the delivery that is coming; None between two."""
    presettled: bool = False


@dataclass(frozen=True, slots=True)
class Incoming:
    """Delivery that has come whole; its tag grows with each delivery of a session."""

    tag: int
    link: Link
    message: bytes


class Session:
    """Only session of a connection, on channel 0."""

    def __init__(self, connection: Frames) -> None:
        self._connection = connection
        self.incoming: deque[Incoming] = deque()
        """Deliveries that are not taken yet."""
        self.links: list[Link] = []
        self._by_handle: dict[int, Link] = {}
        """Links by the broker's handle."""
        self.ended: EndedByBroker | None = None
        """Why the broker has ended the session or one of its links."""
        self.message_max = MESSAGE_MAX
        self._begun = False
        self._next_incoming_id = 0
        self._last_tag = 0
        self._waiting: dict[int, tuple[Link, int]] = {}
        """Links and delivery-ids of unsettled deliveries by tag, in order."""
        self.has_to_answer = False
        """True if the broker has asked for a flow."""
        self._cursor, self._transfer, self._flow = FieldCursor(), Transfer(), Flow()

    # -- calls -------------------------------------------------------------------------------------------------------

    def begin(self, timeout: float) -> None:
        """Begin the session."""
        self._connection.write(spec.BEGIN, next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW)
        self._connection.wait_for(lambda: self._begun or self.ended is not None, "begin", timeout)
        self.check()

    def attach(self, queue: str, prefetch: int, address: str | None = None) -> Link:
        """Attach a link without credit, to an address of another text than the queue if there is one.

        Raises `EndedByBroker` if the broker refuses it.
        """
        link = Link(uuid.uuid4().hex, len(self.links), queue, prefetch)
        self.links.append(link)
        capabilities = [] if _ARTEMIS_QUEUE in queue else ["queue"]
        source = composite(spec.SOURCE, address=address or queue, distribution_mode="move", capabilities=capabilities)
        self._connection.write(
            spec.ATTACH,
            name=link.name,
            handle=link.handle,
            role=True,
            snd_settle_mode=_UNSETTLED,
            rcv_settle_mode=_FIRST,
            source=source,
            target=composite(spec.TARGET),
        )
        self._connection.wait_for(lambda: link.source is not None or self.ended is not None, f"link to {queue}")
        self.check()
        return link

    def check(self) -> None:
        """Raise the error that ended the session or a link."""
        if self.ended is not None:
            raise self.ended

    def top_up(self) -> None:
        """Give each link the credit that it lacks, or take back what it has too much."""
        for link in self.links:
            credit = max(link.wanted - link.unsettled, 0)
            if credit != link.credit:
                link.credit = credit
                self._write_flow(link)
        if self.has_to_answer:
            self.has_to_answer = False
            self._write_flow(None)

    def drain(self) -> bool:
        """Let the broker use up all credit; tell whether nothing has come and nothing waits.

        False as well for a link that has no credit: nobody can tell then.
        """
        self.top_up()
        before = self._last_tag
        if not all(link.credit and link.delivery_id is None for link in self.links):
            return False
        for link in self.links:
            self._write_flow(link, drain=True)
        self._connection.wait_for(
            lambda: self.ended is not None or not any(link.credit for link in self.links), "answer to a drain"
        )
        return self._last_tag == before and not any(link.delivery_id is not None for link in self.links)

    def ask_available(self) -> int | None:
        """Return how many messages wait for all links; None if the broker does not tell, or tells of none.

        It is an estimate (section 2.7.4): only a drain proves that there are none.
        """
        for link in self.links:
            link.available = None
            self._write_flow(link, echo=True)
        with suppress(Timeout):  # Not every broker answers.
            self._connection.wait_for(
                lambda: self.ended is not None or all(link.available is not None for link in self.links),
                "answer to a flow",
                ANSWER_SECONDS,
            )
        return sum(link.available or 0 for link in self.links) or None

    def settle(self, upto: int) -> None:
        """Accept all deliveries up to a tag, in ranges of consecutive delivery-ids."""
        out = BytesWriter()
        first = last = ABSENT
        for tag in list(takewhile(lambda tag: tag <= upto, self._waiting)):
            link, number = self._waiting.pop(tag)
            link.unsettled -= 1
            if first == ABSENT or number != serial_add(last, 1):
                if first != ABSENT:
                    write_disposition(out, 0, True, first, last, True, ACCEPTED_STATE)
                first = number
            last = number
        if first != ABSENT:
            write_disposition(out, 0, True, first, last, True, ACCEPTED_STATE)
            self._connection.append(out)

    def settle_one(self, tag: int, accepted: bool) -> None:
        """Accept or release one delivery."""
        if (waiting := self._waiting.pop(tag, None)) is not None:
            link, number = waiting
            link.unsettled -= 1
            out = BytesWriter()
            write_disposition(out, 0, True, number, number, True, ACCEPTED_STATE if accepted else RELEASED_STATE)
            self._connection.append(out)

    def _write_flow(self, link: Link | None, *, drain: bool = False, echo: bool = False) -> None:
        out = BytesWriter()
        if link is None:
            write_flow(out, 0, self._next_incoming_id, WINDOW, 0, WINDOW)
        else:
            counts = link.handle, link.delivery_count, link.credit
            write_flow(out, 0, self._next_incoming_id, WINDOW, 0, WINDOW, *counts, ABSENT, drain, echo)
        self._connection.append(out)

    # -- frames of the broker ----------------------------------------------------------------------------------------

    def take(self, body: bytes) -> bool:
        """Take a frame if it is one of the two that come often; tell whether it was."""
        code = self._cursor.open(body, 0, len(body))
        if code == spec.TRANSFER:
            self._transfer.read(self._cursor, body, 0, len(body))
            self._next_incoming_id = serial_add(self._next_incoming_id, 1)
            self._take_transfer(body)
        elif code == spec.FLOW:
            self._flow.read(self._cursor, body, 0, len(body))
            self._take_flow()
        else:
            return False
        return True

    def hear(self, performative: Composite) -> None:
        """Take a performative of the session that comes seldom. Raises CodecError."""
        if performative.code == spec.BEGIN:
            self._begun = True
            self._next_incoming_id = performative.number("next_outgoing_id")
        elif performative.code == spec.END:
            self.ended = self.ended or ended("session", performative)
            self._connection.write(spec.END)
        elif performative.code == spec.ATTACH:
            self._hear_attach(performative)
        elif performative.code == spec.DETACH:
            link = self._link(performative.number("handle"))
            self.ended = self.ended or ended(f"link to {link.queue}", performative)
            self._connection.write(spec.DETACH, handle=link.handle, closed=True)
        elif performative.code != spec.DISPOSITION:
            raise CodecError(f"a performative {performative.name} where none is due")

    def _hear_attach(self, attach: Composite) -> None:
        """Note the broker's end of a link; without a source a detach follows, which says why."""
        link = next((each for each in self.links if each.name == attach.text("name")), None)
        if link is None:
            raise CodecError("an attach of a link that is not ours")
        self._by_handle[attach.number("handle")] = link
        link.source = attach.inner("source")
        link.delivery_count = attach.number("initial_delivery_count", 0)
        if attach.number("snd_settle_mode") == _SETTLED:
            text = "sends its messages without waiting for their outcome, so that a crash would lose them"
            raise Unreceivable(f"the address {link.queue} {text}")

    def _link(self, handle: int) -> Link:
        """Return the link of a handle of the broker. Raises CodecError."""
        if handle not in self._by_handle:
            raise CodecError(f"the handle {handle}, which no link has")
        return self._by_handle[handle]

    def _take_flow(self) -> None:
        flow = self._flow
        self.has_to_answer = self.has_to_answer or flow.echo
        if flow.handle == ABSENT:
            return
        link = self._link(int(flow.handle))
        if flow.delivery_count != ABSENT:
            used = serial_distance(link.delivery_count, flow.delivery_count)
            if used > 0:
                link.credit = max(link.credit - int(used), 0)
                link.delivery_count = int(flow.delivery_count)
        link.available = max(int(flow.available), 0)

    def _take_transfer(self, body: bytes) -> None:
        transfer = self._transfer
        link = self._link(int(transfer.handle))
        if link.delivery_id is None:
            if transfer.delivery_id == ABSENT:
                raise CodecError("the first transfer of a delivery without its delivery-id")
            link.delivery_id = int(transfer.delivery_id)
            link.presettled = False
            link.delivery_count = int(serial_add(link.delivery_count, 1))
            link.credit = max(link.credit - 1, 0)
        elif transfer.delivery_id not in (ABSENT, link.delivery_id):
            raise CodecError("the transfer of another delivery before the end of the last one")
        link.presettled = link.presettled or transfer.settled == 1
        if transfer.aborted:
            self._finish(link)
            return
        link.part_octets += len(body) - int(transfer.payload)
        if link.part_octets > self.message_max:
            raise Unreceivable(f"a message in {link.queue} has more than {self.message_max} octets")
        link.parts.append(body[transfer.payload :])
        if not transfer.more:
            self._deliver(link)

    def _deliver(self, link: Link) -> None:
        """Hand over the delivery that is whole."""
        assert link.delivery_id is not None
        message = link.parts[0] if len(link.parts) == 1 else b"".join(link.parts)
        self._last_tag += 1
        if not link.presettled:
            self._waiting[self._last_tag] = link, link.delivery_id
            link.unsettled += 1
        self.incoming.append(Incoming(self._last_tag, link, message))
        self._finish(link)

    def _finish(self, link: Link) -> None:
        link.parts, link.part_octets, link.delivery_id = [], 0, None
