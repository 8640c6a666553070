"""Channel: one session on a connection, its publishes with properties, and the deliveries that it may get.

`ChannelFlow` is channel.flow towards publishers: it asks clients that obey it to stop and resume publishing (section
1.5.2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.authorization import check_route
from penstock.connections.client_session import ClientSession
from penstock.connections.connection_state import TeardownState
from penstock.connections.log_line import LogLine
from penstock.connections.peer import query_of
from penstock.content.properties import BCC
from penstock.core.large_content import head_of, is_large, large_content
from penstock.core.publish.producer import Producer
from penstock.core.routing.route import Route, route_with_copies
from penstock.core.routing.topology import NO_HEADERS, resolve_message
from penstock.errors import BrokerError, PreconditionFailed, SyntaxInvalid
from penstock.flow.timers import NEVER, TimerHandler
from penstock.logs.ids import FRAME_TOO_SMALL
from penstock.protocols.amqp091.content_assembly import NO_CONTENT, ContentAssembly
from penstock.protocols.amqp091.content_frames import header_end, properties_of
from penstock.protocols.amqp091.delivery_frames import DeliveryHead, write_confirm, write_deliveries, write_other
from penstock.protocols.amqp091.large_output import LargeOutput
from penstock.protocols.amqp091.message_format import as_frames, may_have_cc, without_blind_copies
from penstock.protocols.amqp091.publishing import (
    CLAIMS,
    ChannelPublisher,
    check_user_id_and_reply_to,
    property_mask,
    route_variant,
)
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, method_frame
from penstock.wire.amqp091.content_header import FIXED_OCTETS, FLAGS_AT, HEADERS_FLAG, flags_of

if TYPE_CHECKING:
    from penstock.access.rules import ConnectionAccess
    from penstock.core.consume.consumer import Batch, Consumer
    from penstock.core.large_bodies import LargeBody
    from penstock.core.message import Message
    from penstock.core.queue.queue import Queue
    from penstock.flow.gate import Gate
    from penstock.protocols.amqp091.engine import Amqp091Engine
    from penstock.protocols.amqp091.methods_basic import ChannelTransaction

ACK_FRAME: Final = 21
"""Bytes of a basic.ack frame."""
HEADERS_MAX: Final = 64 * 1024
"""Largest content header, in bytes, whose headers are decoded: decoding takes a few milliseconds."""
LARGEST_GROWTH: Final = 8
"""Most bytes of a content header per byte of a message's charge: AMQP 1.0 writes a zero in one byte, AMQP 0-9-1 in
five.
"""
CONVERTED_A_UNIT: Final = 64
"""Bytes of a message of another protocol per unit of work that measuring its header costs."""
HEADER_OCTETS_A_UNIT: Final = 8
"""Bytes of a content header that cost one unit of work when its headers are read."""


class Channel(ClientSession):
    """Channel of a connection."""

    def __init__(self, engine: Amqp091Engine, number: i64) -> None:
        super().__init__(engine, "ch", number)
        connection = self.connection
        self.engine: Amqp091Engine = engine
        self.transaction: ChannelTransaction | None = None
        """Transactional mode (tx.select); None without one."""
        self.ack_frame_size: i64 = ACK_FRAME
        """Bytes of a basic.ack that the frame reader handles itself; 0 in a transaction."""
        self.channel_flow: ChannelFlow | None = None
        """State of channel.flow towards the client; None if it was never sent."""
        self.prefetch_bytes: i64 = 0
        """Prefetch window in bytes of new consumers (basic.qos with global=false)."""
        self.last_queue: str = ""
        """Queue declared last: the meaning of an empty queue name (AMQP 0-9-1 section 1.7.2)."""
        self.control_replies: str = ""
        """Name of the channel's queue for answers to control requests; empty until the channel declares one."""
        self.replies: Queue | None = None
        """Reply queue of direct reply-to; None until the channel consumes from it."""
        self.header_prefix: i64 = 2 << 16 | number
        self.body_prefix: i64 = 3 << 16 | number
        self.content = ContentAssembly(self)
        """Publish that arrives in pieces."""
        self.heads: dict[str, DeliveryHead] = {}
        """Cached delivery heads by consumer tag."""
        self.out: BytesWriter = engine.out
        """Output of the channel; while a large content is written, the output after that content."""
        self.large: LargeOutput | None = None
        """Large contents that are being written; None while there are none."""
        self.limit_frames(engine.frame_max // LARGEST_GROWTH)
        self.has_passed_over: bool = False
        """True once a message that does not fit into the channel's frames was logged."""
        self.producer = Producer(
            self.broker, self.name, connection.pausing.budget, connection.origin, ChannelPublisher(self)
        )
        self.producer.query = query_of(connection.peer, connection.access.user)

    def access(self) -> ConnectionAccess:
        """Return the permissions of the channel's client."""
        return self.connection.access

    def replies_to(self) -> str:
        """Return the address of direct replies to this channel; empty if it does not consume replies."""
        return "" if self.replies is None or self.replies.deleted else self.replies.name

    @override
    def in_transaction(self) -> bool:
        return self.transaction is not None

    def producers(self) -> list[Producer]:
        """See `Session.producers`: a channel has one."""
        return [self.producer]

    @override
    def fail(self, error: BrokerError) -> None:
        if self.is_open():
            self.engine.on_error(int(self.number), error, 0 if self.content.state == NO_CONTENT else spec.BASIC_PUBLISH)

    # Receiving

    @override
    def receiving(self) -> bool:
        return self.delivering and self.connection.output.writable and self.large is None

    @override
    def stopped(self) -> bool:
        return not self.delivering or self.large is not None

    @override
    def why_not_receiving(self) -> str:
        if not self.delivering:
            return "paused by the client (channel.flow)"
        if self.large is not None:
            return "a large message is being sent on its channel"
        return "its connection does not read what has been sent"

    @override
    def passes_over(self, queue: Queue, message: Message) -> str:
        octets, most = self._header_octets(queue, message), self.engine.frame_max
        if octets <= most:
            return ""
        why = f"the frame of a content header has {octets:,} bytes, and frame_max of its connection is {most:,}"
        if not self.has_passed_over:
            self.has_passed_over = True
            subject = f"message {int(message.sequence):,} of queue '{queue.name}' in vhost '{queue.vhost}'"
            line = f"[{self.name}] {subject} cannot be sent: {why}; it stays in the queue for other consumers"
            self.connection.services.log(LogLine(line, {"id": FRAME_TOO_SMALL}))
        return why

    def _header_octets(self, queue: Queue, message: Message) -> i64:
        """Return the bytes of the header frame with which a message is delivered."""
        formats = self.broker.formats
        content = formats.with_delivery_count(message).content if queue.counts_returns() else message.content
        if is_large(content):
            content = head_of(content)
        if content and content[0] == spec.FRAME_HEADER:
            return header_end(content)
        self.broker.work.done += len(content) // CONVERTED_A_UNIT
        parts = formats.parts(content, formats.by_octet(spec.FRAME_HEADER))
        if parts is None:
            return header_end(as_frames(content, formats))
        return len(parts[0]) + FIXED_OCTETS + spec.FRAME_OVERHEAD

    @override
    def deliver(self, batch: Batch) -> None:
        tag = batch.consumer.tag
        head = self.heads.get(tag)
        if head is None:
            head = DeliveryHead(self.number, tag)
            self.heads[tag] = head
        messages = batch.messages
        if batch.consumer.queue.counts_returns():
            formats = self.broker.formats
            messages = [None if message is None else formats.with_delivery_count(message) for message in messages]
        first = batch.first
        at = write_deliveries(self.out, head, messages, first, self.engine.frame_max, self.broker.formats)
        while at >= 0:
            message = messages[at]
            assert message is not None
            self._write_large(message.content)
            first += at + 1
            messages = messages[at + 1 :]
            at = write_deliveries(self.out, head, messages, first, self.engine.frame_max, self.broker.formats)
        self.on_written(batch)

    def on_cancelled(self, consumer: Consumer, reason: BrokerError) -> None:
        """See `Session.on_cancelled`. Only clients with the capability consumer_cancel_notify get a basic.cancel."""
        self.heads.pop(consumer.tag, None)
        if self.engine.capabilities.get("consumer_cancel_notify") is True and self.is_open():
            self.send(spec.BASIC_CANCEL, {"consumer_tag": consumer.tag, "no_wait": True})

    def send_flow_stop(self, gate: Gate) -> None:
        """Send channel.flow(active=false) because of a gate, if the client obeys it.

        A client with confirms gets channel.flow only if it announced the capability; withheld confirms stop other
        clients.
        """
        profile = self.engine.profile
        if (profile.flow_with_confirms or (profile.obeys_flow and not self.producer.confirming)) and self.is_open():
            if self.channel_flow is None:
                self.channel_flow = ChannelFlow(self)
            self.channel_flow.stop(gate)

    def send_flow_start(self) -> None:
        """Send channel.flow(active=true) if the client was asked to stop."""
        if self.channel_flow is not None:
            self.channel_flow.go_on()

    # Publishing

    def publish(self, route: Route, content: bytes, charge: i64) -> None:
        """Publish a message that is not on the fast path."""
        if route.control:
            self.engine.control_request(self, route, content)
        elif route.by_headers:
            own = Route(route.envelope, route.mandatory)
            message_format = self.engine.broker.formats.find(content)
            reads = route.target.reads_headers
            headers = self._headers(head_of(content)) if reads else NO_HEADERS
            resolve_message(self.vhost, own, headers, content, message_format)
            if own.target.reads_headers and not reads:  # Chance has led to an exchange that reads headers.
                resolve_message(self.vhost, own, self._headers(head_of(content)), content, message_format)
            self.producer.publish(own, content, charge)
            return
        self.producer.publish(route, content, charge)

    def _headers(self, content: bytes) -> dict[str, object]:
        """Return the headers of a message, and charge the work of reading them.

        Raises SyntaxInvalid (502), or PreconditionFailed (406) for too many bytes.
        """
        octets = header_end(content)
        if octets > HEADERS_MAX:
            raise PreconditionFailed(
                f"content header of {octets} bytes refused: the most is {HEADERS_MAX} for a message that is routed by "
                "its headers, or has CC or BCC"
            )
        self.broker.work.done += octets // HEADER_OCTETS_A_UNIT
        return headers_of(content)

    def publish_with_properties(self, route: Route, content: bytes, charge: i64) -> None:
        """Publish a message with properties that the broker acts on.

        These are user_id and reply_to, priority and expiration, and headers that may hold CC or BCC.

        Raises PreconditionFailed (406).
        """
        checked = self._checked(content)
        self._pass_on(route, checked, None, charge + len(checked) - len(content))

    def publish_large(self, route: Route, head: bytes, body: LargeBody, charge: i64) -> None:
        """Publish a large message; `head` is its content without its body. Raises PreconditionFailed (406)."""
        checked = self._checked(head)
        self._pass_on(route, checked, body, charge + len(checked) - len(head))

    def _checked(self, content: bytes) -> bytes:
        """Return a content whose user_id and reply_to were checked."""
        return check_user_id_and_reply_to(self, content) if flags_of(content) & CLAIMS else content

    def _pass_on(self, route: Route, content: bytes, body: LargeBody | None, charge: i64) -> None:
        """Publish a message whose properties were checked, to its copies too; `body` is the body of a large message."""
        flags = flags_of(content)
        if flags & property_mask(route):
            route = route_variant(route, content, 0)
        if flags & HEADERS_FLAG and may_have_cc(content, FLAGS_AT, header_end(content)):
            self._publish_copies(route, content, body, charge)
            return
        whole = content if body is None else large_content(content, body)
        if route.single_queue is not None:
            self.producer.publish(route, whole, charge)
        else:
            self.publish(route, whole, charge)

    def _publish_copies(self, route: Route, content: bytes, body: LargeBody | None, charge: i64) -> None:
        headers = self._headers(content)
        own = route_with_copies(route, headers)
        if own is not None:
            check_route(self.connection.access, self.vhost, own)
        if BCC in headers:
            content = without_blind_copies(content)
        whole = content if body is None else large_content(content, body)
        if own is None or route.control:
            self.publish(route, whole, charge)
        else:
            resolve_message(self.vhost, own, headers, whole, self.engine.broker.formats.find(whole))
            self.producer.publish(own, whole, charge + own.envelope.charge())

    # Sending

    def write_confirms(self) -> None:
        """Write the outcomes of the channel's publishes or commits."""
        if self.connection.teardown is not TeardownState.NONE:
            self.producer.confirms.take()  # The channel is closed: drop the outcomes.
            return
        if self.transaction is not None:
            self.transaction.on_result(self)
            return
        out = self.out
        for outcome in self.producer.confirms.take():
            write_confirm(out, self.number, outcome.last, outcome.last > outcome.first, outcome.confirmed)
        self.connection.request_flush()

    @override
    def write_last_outcomes(self, graceful: bool) -> None:
        if self.producer.confirms.ready():
            self.write_confirms()

    @override
    def end(self, graceful: bool) -> None:
        """See `ClientSession.end`: the open transaction is rolled back, and outcomes that are left are dropped."""
        self.producer.confirms.take()
        self.engine.reader.reset_publish_cache()
        if self.content.state != NO_CONTENT:
            self.content.drop()
        if self.transaction is not None:
            self.transaction.end()
            self.connection.review_hold_bound()
        self.engine.reader.unanswered.drop(int(self.number))
        if self.channel_flow is not None:
            self.channel_flow.end()
        if graceful:
            self.producer.close_gracefully()
        else:
            self.producer.abort(self.connection.losses.cause)

    @override
    def on_torn_down(self) -> None:
        super().on_torn_down()
        if self.connection.teardown is TeardownState.NONE:  # This channel may have been the last that consumed.
            self.connection.review_hold_bound()
            self.connection.services.schedule_blocked_notice(self.connection)

    @override
    def answer_close(self) -> None:
        self.send(spec.CHANNEL_CLOSE_OK, {})

    @override
    def unlink(self) -> None:
        self.content.unlink()
        self.transaction = None
        self.channel_flow = None

    def send(self, method: int, args: dict[str, object]) -> None:
        """Write a method frame on this channel."""
        self.out.write(method_frame(int(self.number), method, **args))
        if self.large is not None:
            self.large.bound()
        self.connection.request_flush()

    def reply(self, args: dict[str, object], method: int, fields: dict[str, object]) -> None:
        """Answer a method with these arguments, unless its client asked for no answer (no-wait)."""
        if args.get("no_wait") is not True:
            self.send(method, fields)

    def send_content(self, method: bytes, content: bytes) -> None:
        """Write a method frame with content (basic.return, basic.get-ok)."""
        self.out.write(method)
        if is_large(content):
            self._write_large(content)
        else:
            write_other(self.out, content, self.number, self.engine.frame_max, self.broker.formats)
        if self.large is not None:
            self.large.bound()
        self.connection.request_flush()

    def _write_large(self, content: bytes) -> None:
        """Write a large content after its method; further output of the channel waits for the end of the content."""
        if self.large is None:
            self.large = LargeOutput(self)
        self.large.add(content)


def headers_of(content: bytes) -> dict[str, object]:
    """Return the headers property of a message, empty if it has none. Raises SyntaxInvalid (502) if it is malformed."""
    try:
        return properties_of(content).headers or {}
    except CodecError as error:
        raise SyntaxInvalid(f"the headers of a publish cannot be read: {error.reason}") from None


class ChannelFlow(TimerHandler):
    """channel.flow state of one channel; initially active.

    Publishes that a stopped client delays are invisible to the broker, so no hold deadline covers them. The broker
    therefore asks the client to resume at the hold deadline at the latest, even if the gate is still closed. Later
    publishes are held and refused as usual. A client with exact flow has a deadline of its own, and is not asked to
    resume.
    """

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self.stopped: bool = False
        self.forbidden_from: float = NEVER
        """Time from which a publish closes the channel, because its client ignored channel.flow."""

    def stop(self, gate: Gate) -> None:
        """Send active=false because of a gate.

        A publish after the enforcement time closes the channel (Broker-J's CHN-1012).
        """
        channel = self.channel
        now = channel.broker.now
        self._set_stopped(True)
        channel.send(spec.CHANNEL_FLOW, {"active": False})
        self.forbidden_from = now + channel.connection.limits.start.flow_enforcement_s
        hold_deadline_s = channel.broker.defaults.hold_deadline_s
        if gate.owner is not None:
            hold_deadline_s = gate.owner.hold_deadline_s(hold_deadline_s)
        if hold_deadline_s > 0 and not channel.engine.profile.exact_flow:
            channel.broker.timers.add(self, now + hold_deadline_s)

    def go_on(self) -> None:
        """Send active=true if the client was asked to stop, also when it has since selected confirms."""
        if self.stopped:
            self._set_stopped(False)
            self.forbidden_from = NEVER
            self.channel.broker.timers.drop(self)
            if self.channel.is_open():
                self.channel.send(spec.CHANNEL_FLOW, {"active": True})

    def end(self) -> None:
        """Cancel the timer: the channel is closed."""
        self._set_stopped(False)
        self.channel.broker.timers.drop(self)

    def _set_stopped(self, stopped: bool) -> None:
        """Record whether the client was asked to stop, and recompute the hold budget of its connection."""
        if stopped != self.stopped:
            self.stopped = stopped
            self.channel.connection.pausing.asked += 1 if stopped else -1
            self.channel.connection.review_hold_bound()

    @override
    def on_deadline(self, now: float) -> float:
        self.go_on()
        return NEVER
