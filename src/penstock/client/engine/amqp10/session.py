"""Session of AMQP 1.0: links by handle, windows in frames, and the deliveries that were sent, by delivery-id."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.client.engine.connection import Engine
from penstock.client.engine.outcomes import CONFIRMED, REFUSED, Blocked
from penstock.client.engine.publisher import PublisherCore
from penstock.client.errors import ClientError
from penstock.markers import override
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.transfer import TRANSFER_OVERHEAD, Disposition, Flow, Transfer, write_flow
from penstock.wire.amqp10.values import CodecError, serial_distance

FRAME_MAX: Final = 128 * 1024
"""Bytes of the largest frame that the client accepts."""
CHANNEL_MAX: Final = 255
INCOMING_WINDOW: Final = 1 << 30
"""Transfer frames that the broker may send; link credit bounds them."""
OUTGOING_WINDOW: Final = 0x7FFFFFFF
STATE_OCTETS: Final = 64
"""Most bytes of the state of a transfer, with an id of 32 bytes (section 4.5.2)."""
RUNS: Final = 64
"""Number of runs of deliveries above which all are searched for settled ones."""


class Link:
    """Link of a session; of a publisher, a receiver or a pair for requests."""

    def __init__(self, session: Session, name: str, is_receiver: bool) -> None:
        self.session = session
        self.name = name
        self.is_receiver = is_receiver
        self.handle: int = session.add(self)
        self.is_attached: bool = False
        self.is_detached: bool = False

    def attach(self, **fields: Any) -> None:
        """Write the attach."""
        mode = {} if self.is_receiver else {"initial_delivery_count": 0}
        self.session.put(spec.ATTACH, name=self.name, handle=self.handle, role=self.is_receiver, **mode, **fields)

    def detach(self) -> None:
        """Close the link."""
        if not self.is_detached:
            self.is_detached = True
            self.session.put(spec.DETACH, handle=self.handle, closed=True)

    def on_attach(self, attach: Composite) -> None:
        """Handle the broker's attach; an attach without a terminus is followed by a detach with the error."""

    def on_flow(self, flow: Flow) -> None:
        """Handle a flow of this link."""

    def on_window(self) -> None:
        """Handle a change of the session's window by the broker."""

    def on_transfer(self, data: bytes, transfer: Transfer, end: i64) -> None:
        """Handle a transfer frame of this link."""

    def on_detach(self, code: str, text: str) -> None:
        """Handle the broker's detach."""


class AskingLink(Link):
    """Link on which requests are sent, as far as the broker grants credit."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name, False)
        self.sent: i64 = 0
        """Delivery-count of the link."""
        self.credit: i64 = 0

    @override
    def on_flow(self, flow: Flow) -> None:
        if flow.link_credit != ABSENT:
            count = flow.delivery_count if flow.delivery_count != ABSENT else 0
            self.credit = serial_distance(self.sent & 0xFFFFFFFF, count + flow.link_credit & 0xFFFFFFFF)
        self.send()

    def send(self) -> None:
        """Send the requests for which there is credit."""
        raise NotImplementedError

    def count_sent(self) -> None:
        """Count a delivery that is sent."""
        self.sent += 1
        self.credit -= 1


class Asked:
    """Delivery that is no publisher's message: a request, which receives the outcome."""

    def settled(self, disposition: Disposition) -> None:
        """Handle the outcome of the delivery."""
        raise NotImplementedError


class SentRun:
    """Consecutive delivery-ids of one publisher."""

    def __init__(self, first: i64, count: i64, publisher: PublisherCore, number: i64) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.publisher = publisher
        self.number: i64 = number
        """Number of the first delivery among its publisher's messages."""


class Sessions:
    """Sessions of a connection, and the limits agreed with the broker."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.begun: list[Session] = []
        """Sessions by the client's channel."""
        self.by_channel: dict[int, Session] = {}
        """Sessions by the broker's channel."""
        self.channel_max: int = CHANNEL_MAX
        self.frame_max: i64 = spec.FRAME_MIN_SIZE
        """Bytes of the largest frame that the broker accepts."""
        self.names: int = 0
        """Number of link names used so far."""

    def reset(self) -> None:
        """Begin with a new transport."""
        self.begun = []
        self.by_channel = {}
        self.limit(CHANNEL_MAX, spec.FRAME_MIN_SIZE)

    def limit(self, channel_max: int, frame_max: int) -> None:
        """Apply the limits of the broker."""
        self.channel_max = min(channel_max, CHANNEL_MAX)
        self.frame_max = min(frame_max, FRAME_MAX)

    def new_name(self, kind: str) -> str:
        """Return a name for a link."""
        self.names += 1
        return f"{kind}-{self.names}"

    def session(self) -> Session:
        """Return a session that can have another link; begin one if there is none."""
        for session in self.begun:
            if not session.is_full():
                return session
        if len(self.begun) > self.channel_max:
            raise ClientError(f"all {self.channel_max + 1} sessions of the connection are full")
        new = Session(self.engine, len(self.begun))
        self.begun.append(new)
        new.begin()
        return new

    def begin_answered(self, begin: Composite, channel: int) -> None:
        """Handle the broker's begin, sent on this channel."""
        number = begin.number("remote_channel")
        if not 0 <= number < len(self.begun):
            raise CodecError(f"a begin for the channel {number}, which has none")
        session = self.by_channel[channel] = self.begun[number]
        session.next_incoming = begin.number("next_outgoing_id")
        session.window += begin.number("incoming_window")
        session.handle_max = min(session.handle_max, begin.number("handle_max", 254))

    def of_channel(self, channel: i64) -> Session:
        """Return the session on a channel of the broker."""
        session = self.by_channel.get(int(channel))
        if session is None:
            raise CodecError(f"channel {channel} has no session")
        return session


class Session:
    """Session begun by the client."""

    def __init__(self, engine: Engine, channel: int) -> None:
        self.engine = engine
        self.channel: i64 = channel
        self.is_begun: bool = False
        self.links: list[Link | None] = []
        """Links by the client's handle."""
        self.remote: dict[int, Link] = {}
        """Links by the broker's handle."""
        self.handle_max: int = 254
        self.next_id: i64 = 0
        """Delivery-id of the next delivery, without the wrap-around at 2^32."""
        self.next_transfer: i64 = 0
        """Transfer-id of the next frame, likewise."""
        self.window: i64 = 0
        """Transfer frames that the broker accepts."""
        self.next_incoming: i64 = 0
        self.runs: list[SentRun] = []
        self.requests: dict[int, Asked] = {}
        """Requests that were not sent settled and have no outcome, by delivery-id."""
        self.latest_info: Blocked | None = None
        """Latest report of the broker about a blocked publisher: many publishers share the same report."""

    def add(self, link: Link) -> int:
        """Add a link; return its handle."""
        for handle, other in enumerate(self.links):
            if other is None:
                self.links[handle] = link
                return handle
        self.links.append(link)
        return len(self.links) - 1

    def is_full(self) -> bool:
        """Return whether the session can have no more links."""
        return len(self.links) > self.handle_max and None not in self.links

    def put(self, code: int, **fields: Any) -> None:
        """Write a performative."""
        self.engine.out.write(frame(int(self.channel), encode(code, **fields)))
        self.engine.wake_output()

    def begin(self) -> None:
        """Write the begin."""
        self.put(spec.BEGIN, next_outgoing_id=0, incoming_window=INCOMING_WINDOW, outgoing_window=OUTGOING_WINDOW)

    def write_flow(
        self, link: Link, count: i64, credit: i64, available: i64, is_drain: bool, echo: bool = False
    ) -> None:
        """Write a flow of a link; `count` is its delivery-count."""
        write_flow(
            self.engine.out,
            self.channel,
            self.next_incoming & 0xFFFFFFFF,
            INCOMING_WINDOW,
            self.next_transfer & 0xFFFFFFFF,
            OUTGOING_WINDOW,
            link.handle,
            count & 0xFFFFFFFF,
            credit,
            available,
            is_drain,
            echo,
        )
        self.engine.wake_output()

    def on_transfer(self, data: bytes, transfer: Transfer, end: i64) -> None:
        """Handle a transfer frame, which ends at `end`."""
        self.next_incoming += 1
        link = self.remote.get(int(transfer.handle))
        if link is not None:
            link.on_transfer(data, transfer, end)

    # Deliveries that were sent

    def sent(self, publisher: PublisherCore, number: i64) -> i64:
        """Number the next delivery, the message `number` of a publisher; return its delivery-id."""
        delivery_id = self.next_id
        self.next_id = delivery_id + 1
        runs = self.runs
        if runs:
            last = runs[-1]
            if (
                last.publisher is publisher
                and last.number + last.count == number
                and last.first + last.count == delivery_id
            ):
                last.count += 1
                return delivery_id
        if len(runs) >= RUNS:
            self.runs = [run for run in runs if run.number + run.count > run.publisher.base]
        self.runs.append(SentRun(delivery_id, 1, publisher, number))
        return delivery_id

    def on_disposition(self, disposition: Disposition) -> None:
        """Handle the outcomes of sent deliveries."""
        if not disposition.receiver:
            return
        first = self.next_id + serial_distance(self.next_id & 0xFFFFFFFF, disposition.first)
        last = self.next_id + serial_distance(self.next_id & 0xFFFFFFFF, disposition.last)
        code, state = disposition.state_code, disposition.state
        if code == ABSENT and not disposition.settled:
            return
        if self.requests:
            for number in [each for each in self.requests if first <= each <= last]:
                self.requests.pop(number).settled(disposition)
        inner = state.inner("outcome") if code == spec.TRANSACTIONAL_STATE and isinstance(state, Composite) else None
        if inner is not None:
            if inner.code == spec.ACCEPTED:
                return  # The commit has the outcome.
            code, state = inner.code, inner
        outcome: i64 = CONFIRMED if code == spec.ACCEPTED else REFUSED
        reason = "" if outcome == CONFIRMED else reason_of(code, state)
        for run in list(self.runs):
            start = max(first, run.first)
            stop = min(last, run.first + run.count - 1)
            if start <= stop:
                number = run.number + start - run.first
                if code == spec.RELEASED:
                    run.publisher.returned_count += int(stop - start + 1)
                run.publisher.settle(number, number + stop - start, outcome, reason)
        if not disposition.settled:
            self.put(
                spec.DISPOSITION, role=False, first=disposition.first, last=disposition.last, settled=True
            )  # The broker waits for the settlement.

    def on_flow(self, flow: Flow) -> None:
        """Apply the broker's windows."""
        seen = flow.next_incoming_id if flow.next_incoming_id != ABSENT else 0
        under_way = serial_distance(seen, self.next_transfer & 0xFFFFFFFF)
        self.window = flow.incoming_window - under_way
        if flow.echo and flow.handle == ABSENT:
            next_incoming, next_outgoing = self.next_incoming & 0xFFFFFFFF, self.next_transfer & 0xFFFFFFFF
            write_flow(self.engine.out, self.channel, next_incoming, INCOMING_WINDOW, next_outgoing, OUTGOING_WINDOW)
            self.engine.wake_output()
        for link in self.links:
            if link is not None:
                link.on_window()


class TransactionalState:
    """State of messages and settlements in a transaction (section 4.5.8), whose id the coordinator assigns."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.id: bytes = b""

    def begin(self, id: bytes) -> None:
        """Begin with a transaction."""
        self.id = id

    def with_outcome(self, outcome: bytes) -> bytes:
        """Return an outcome as the state of a delivery settled in the transaction."""
        inner = decode_composite(outcome, 0, len(outcome))[0]
        return encode(spec.TRANSACTIONAL_STATE, txn_id=self.id, outcome=inner)

    def write_delivery(self, session: Session, fields: dict[str, Any], content: bytes) -> None:
        """Write a delivery in the transaction, of one frame or more; `fields` belong to the first transfer."""
        step = int(self.sessions.frame_max) - TRANSFER_OVERHEAD - STATE_OCTETS
        state = composite(spec.TRANSACTIONAL_STATE, txn_id=self.id, outcome=None)
        fields = {**fields, "message_format": 0, "settled": False, "state": state}
        for start in range(0, len(content), step):
            head = encode(spec.TRANSFER, more=start + step < len(content), **fields)
            session.engine.out.write(frame(int(session.channel), head + content[start : start + step]))
            session.window -= 1
            session.next_transfer += 1
            fields = {"handle": fields["handle"]}


def reason_of(code: i64, state: object) -> str:
    """Return the reason of an outcome other than accepted."""
    if code == spec.REJECTED and isinstance(state, Composite):
        error = state.inner("error")
        if error is not None:
            return error.text("description") or error.text("condition")
        return "rejected without a reason"
    if code == spec.REJECTED:
        return "rejected without a reason"
    if code == spec.RELEASED:
        return "it reached no queue (released)"
    if code == spec.MODIFIED:
        return "the broker could not take it now (modified)"
    return "the broker settled it without an outcome"
