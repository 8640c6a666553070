"""AMQP 0-9-1 connection: negotiation, channels, errors and close. Bytes in, bytes out; no socket and no clock.

Theory of operation. A connection passes through `HEADER` (protocol header), `START` (authentication), `TUNE` (limits)
and `OPEN` (virtual host) to `RUNNING`. From any state it may go to `CLOSING` (close sent, close-ok awaited) and
`CLOSED` (nothing more is sent or read). A method that its state does not expect closes the connection with 503.

An error closes the smallest scope that the specification allows: `BrokerError.closes` names it. After channel.close,
frames of that channel are ignored until close-ok.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.core.broker import Broker
from penstock.core.gates.connection_gates import ConnectionGates
from penstock.core.publish.closed_sessions import ENDED, Loss
from penstock.core.publish.held import HoldBudget
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, NotImplementedHere
from penstock.flow.work import Worker
from penstock.protocols.amqp091 import handshake
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.blocked_notice import BlockedNotice
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.client_profiles import UNKNOWN, Profile
from penstock.protocols.amqp091.connection_state import CLOSED, CLOSING, HEADER, RUNNING, START, TUNE, Peer
from penstock.protocols.amqp091.dispatch import channel_method, connection_method
from penstock.protocols.amqp091.durable_replies import DurableDeliveries, DurableReplies
from penstock.protocols.amqp091.frame_reader import OUTPUT_LEFT_UNREAD, FrameReader
from penstock.protocols.amqp091.heartbeat import Heartbeat
from penstock.protocols.amqp091.malformed import Malformed
from penstock.protocols.amqp091.teardown import ChannelEnd, ConnectionOutlet, leave, settle_end
from penstock.protocols.common.connection_limits import ConnectionLimits
from penstock.protocols.common.lost_publishes import Losses
from penstock.protocols.common.refusal_log import HANDSHAKE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, decode_method, method_frame, short_text

if TYPE_CHECKING:
    from penstock.driver.driver import BrokerDriver
    from penstock.protocols.amqp091.handshake import LateRefusal

OUTPUT_FULL: Final = 256 * 1024
"""Bytes of output at which deliveries to the connection wait for the next flush."""


class Connection(Worker):
    """Connection of one client."""

    input_paused: bool = False
    """True while the rest of the input waits: for a share of a turn, or until the peer reads its output."""
    busy: bool = False
    """True while a request is being done step by step; later input waits."""
    discarding: bool = False
    """True while the connection is closing: only close and close-ok matter."""
    leaving: bool = False
    """True while its channels are torn down: further input of them is ignored."""
    over: bool = False
    """True when its channels are gone and its exclusive queues deleted."""
    gone: bool = False
    """True when its socket is closed."""
    goodbye: bool = False
    """True if the client sent connection.close and waits for close-ok."""
    touched: bool = False

    def __init__(self, driver: BrokerDriver, number: int, peer: Peer) -> None:
        self.limits: ConnectionLimits = driver.connection_limits
        super().__init__()
        self.work = driver.broker.work
        self.frame_max: i64 = self.limits.initial_frame_max
        self.channels: dict[int, Channel] = {}
        self.out = BytesWriter()
        self.reader = FrameReader()
        self.driver = driver
        self.broker: Broker = driver.broker
        self.number = number
        """Number of the connection in names for people: con:2 in the log."""
        self.peer = peer
        self.state: str = HEADER
        self.user: str = ""
        self.logged_in: bool = False
        """True if its user gave the right password."""
        self.late_refusal: LateRefusal | None = None
        """Delayed answer to a wrong password."""
        self.product: str = ""
        """Client library, from client-properties."""
        self.profile: Profile = UNKNOWN
        """Profile of the client library."""
        self.capabilities: dict[str, object] = {}
        self.vhost: VirtualHost | None = None
        self.channel_max: int = self.limits.channel_max
        self.heartbeat_s: int = 0
        """Agreed seconds between heartbeats; 0 disables them."""
        self.holding = HoldBudget(self.limits.hold_bytes_most(self.broker.defaults.hold_deadline_s))
        self.origin: ConnectionGates | None = None
        """The connection in the gates of the core; None until it is open."""
        self.arriving: i64 = 0
        """Charge of messages that are arriving in pieces; see `PartialMessages`."""
        self.paused_at: float = 0.0
        self.losses = Losses()
        self.asked: int = 0
        """Number of channels whose client was asked to stop by channel.flow."""
        self.exclusive: dict[str, Queue] = {}
        self.writable: bool = True
        """True if deliveries may be written; false while the output is full."""
        self.outlet: ConnectionOutlet | None = None
        """Consumers that wait until the output has room; None until the first channel opens."""
        self.notice: BlockedNotice | None = None
        self.durable_replies: DurableReplies | None = None
        self.durable_deliveries: DurableDeliveries | None = None
        """Deliveries that wait for fsync. None until it is open, and after its end."""
        self.heartbeat: Heartbeat | None = None
        self.blocking: int = 0
        """Number of blocked (producer, gate) pairs of this connection."""
        self.blocked_count: int = 0
        """Number of those that count for connection.blocked: all but rate gates, which change with every message."""
        self.opened_at: float = self.broker.now
        self.last_received: float = self.broker.now
        self.last_sent: float = self.broker.now
        self.closed_at: float = 0.0
        """Time at which close was sent; bounds the wait for close-ok."""

    # Calls of the event loop

    def receive(self, data: bytes) -> None:
        """Handle bytes that were read from the peer."""
        self.last_received = self.broker.now
        self._act_on(data)

    def receive_later(self, data: bytes) -> None:
        """Store bytes that were read from the peer until its share of a turn comes."""
        self.last_received = self.broker.now
        if self.state != CLOSED:
            self.reader.leave(self, data)

    def _act_on(self, data: bytes) -> None:
        if self.state == HEADER:
            self.input_paused = False
            data = handshake.protocol_header(self, self.reader.unparsed + data)
            if not data:
                return
        if self.state == CLOSED:
            self.reader.unparsed = b""
            self.input_paused = False
        else:
            self.reader.feed(self, data)

    def take_output(self) -> bytes:
        """Take the pending output. The event loop calls `drained` when the peer has taken it."""
        self.touched = False
        if self.waits_for_disk():
            return b"" if self.heartbeat is None else self.heartbeat.take()
        data = self.out.getvalue()
        self.out.truncate(0)
        if self.notice is not None:
            self.notice.is_taken()
        if data:
            self.last_sent = self.broker.now
        return data

    def drained(self) -> None:
        """Resume deliveries: the peer takes more."""
        if not self.writable:
            self.writable = True
            if self.outlet is not None:
                self.outlet.schedule_wake()

    def resume_input(self) -> bool:
        """Handle input that was deferred. Return whether all of it was handled."""
        self._act_on(b"")
        return not self.input_paused

    def tick(self) -> bool:
        """Check time-outs, about once a second. Return False when the connection must be dropped."""
        now = self.broker.now
        if self.state in (CLOSING, CLOSED):
            return now - self.closed_at < self.limits.close_s
        if self.state != RUNNING:
            return now - self.opened_at < self.limits.handshake_s
        return True

    def hung_up(self) -> None:
        """Handle the end of input: the peer has closed its side and everything that it sent was handled.

        This counts as connection.close, but nothing more reaches the peer.
        """
        if self.state == RUNNING:
            self.driver.notifier.dispatch_effects()
            leave(self, graceful=True)
        self.end()

    def on_disconnect(self, cause: str = ENDED) -> None:
        """Release everything that the connection holds, after its socket was closed.

        `cause` is the reason under which its held publishes are reported as lost, unless one was set already.
        """
        self.state = CLOSED
        if not self.leaving:
            self.losses.cause = cause
        if self.late_refusal is not None:
            self.late_refusal.end()
            self.late_refusal = None
        if self.durable_replies is not None:
            self.durable_replies.end()
        self.durable_replies = None
        self.durable_deliveries = None
        if self.heartbeat is not None:
            self.heartbeat.end()
        self.heartbeat = None
        self.notice = None
        self.gone = True
        leave(self, graceful=False)
        settle_end(self)
        self.reader.forget_input()
        self.input_paused = False
        self.out.truncate(0)
        self.driver.logins.leave(self)

    def shut_down(self) -> None:
        """Close because the broker stops (320)."""
        if self.state == RUNNING:
            self.close(320, "CONNECTION_FORCED - broker is shutting down")
        else:
            self.end()

    def may_pause(self) -> bool:
        """Tell whether reading may be paused: the connection only publishes, and its hold budget is used up."""
        return self.holding.bytes >= self.hold_bytes() and self.publishes_only()

    def hold_bytes(self) -> int:
        """Return its hold budget in bytes (charges); beyond, it is paused or its publishes are refused."""
        return self.limits.asked_bytes if self.asked else self.limits.hold_bytes

    def may_pulse(self, now: float) -> bool:
        """Tell whether a connection whose reading is paused may be read in a small pulse."""
        patience_s = self.limits.pulsing_s(self.broker.defaults.hold_deadline_s)
        return not self.may_pause() or now - self.paused_at < patience_s

    def left_unread(self, now: float) -> None:
        """Record that the broker read nothing, so silence proves nothing about the peer."""
        self.last_received = now

    def publishes_only(self) -> bool:
        """Tell whether it has no consumers, no unacknowledged deliveries and no transaction."""
        for channel in self.channels.values():
            if channel.consumers or not channel.unsettled.is_empty() or channel.transaction is not None:
                return False
        return True

    # Output that waits for fsync

    def waits_for_disk(self) -> bool:
        """Tell whether its output waits for fsync."""
        answers, deliveries = self.durable_replies, self.durable_deliveries
        return (answers is not None and answers.waiting > 0) or (deliveries is not None and deliveries.must_wait())

    def await_disk(self, declared: i64) -> None:
        """Hold the output back if a durable declaration or deletion followed the first `declared` ones."""
        if self.broker.durable_changes.durable_declarations != declared and self.durable_replies is not None:
            self.durable_replies.wait()

    def await_deliveries(self) -> None:
        """Hold the output back until everything so far is durable, because of its deliveries."""
        if self.durable_deliveries is not None:
            self.durable_deliveries.wait()

    def fail_pending_replies(self, why: str) -> None:
        """Close the connection with 541 and the reason, and discard all replies that wait for fsync."""
        self.out.truncate(0)
        self.close(541, f"INTERNAL_ERROR - {why}")

    # Output

    def request_flush(self) -> None:
        """Register the connection for a flush at the end of the turn."""
        if not self.touched:
            self.touched = True
            self.driver.touched.append(self)
        if len(self.out) >= OUTPUT_FULL:
            self.writable = False

    def send(self, number: i64, method: int, args: dict[str, object]) -> None:
        """Write a method frame."""
        self.out.write(method_frame(int(number), method, **args))
        self.request_flush()

    def lose(self, loss: Loss, origin: ConnectionGates | None) -> None:
        """Count publishes that it has lost. `origin` is the connection in the gates of the core, present or past."""
        self.losses.add(loss, origin)

    def review_hold_bound(self) -> None:
        """Apply the hold budget.

        A connection that consumes or has transactions is never paused: its publishes are refused.

        A connection that only publishes is paused instead, and may finish the message that it is sending.
        """
        if self.publishes_only():
            most = self.limits.hold_bytes_most(self.broker.defaults.hold_deadline_s)
            self.holding.bound = most - self.limits.hold_bytes + self.hold_bytes()
        elif any(channel.transaction is not None for channel in self.channels.values()):
            self.holding.bound = max(self.hold_bytes(), self.limits.transaction_bytes)
        else:
            self.holding.bound = self.hold_bytes()

    # Names, for people

    def name(self) -> str:
        """Return the name of the connection: con:2(guest@127.0.0.1:40312/)."""
        vhost = "/" if self.vhost is None else "/" + self.vhost.name.removeprefix("/")
        return f"con:{self.number}({self.user}@{self.peer.address}{vhost})"

    def view(self) -> dict[str, object]:
        """Return the connection as plain data."""
        return {
            "name": self.name(),
            "product": self.product,
            "state": self.state,
            "blocked": self.blocking > 0,
            "channels": len(self.channels),
            "held": {"messages": int(self.holding.messages), "bytes": int(self.holding.bytes)},
        }

    def channel_name(self, number: i64) -> str:
        """Return the name of a channel: con:2(guest@127.0.0.1:40312/)/ch:1."""
        return f"{self.name()}/ch:{number}"

    def output_is_full(self) -> bool:
        """Return whether so much output waits that the input is left unread."""
        return len(self.out) > OUTPUT_LEFT_UNREAD

    # Routes and frames, for the frame reader

    def frame_bound(self) -> str:
        """Return the largest frame that is accepted now, with the reason, for an error."""
        if self.state in (START, TUNE):
            return f"the {self.frame_max} octets that it may have before connection.tune-ok"
        return f"the agreed frame_max of {self.frame_max}"

    def route_of(self, channel: Channel, payload: bytes) -> Route:
        """Return the route that the payload of a basic.publish names. Raises BrokerError."""
        method = self._decode(payload)
        if arg.flag(method.args, "immediate"):
            raise NotImplementedHere("immediate=true")
        route = channel.vhost.route(
            arg.text(method.args, "exchange"), arg.text(method.args, "routing_key"), arg.flag(method.args, "mandatory")
        )
        channel.vhost.resolve(route, {})
        return route

    def find_again(self, route: Route) -> None:
        """Resolve a route in the present topology. Raises BrokerError."""
        assert self.vhost is not None
        self.vhost.refresh_route(route)

    def control_request(self, channel: Channel, route: Route, content: bytes) -> None:
        """Pass a publish to the control exchange on to the control API."""
        declared = self.broker.durable_changes.durable_declarations
        self.driver.control.request(channel.vhost, self, route.envelope.routing_key, content)
        self.await_disk(declared)

    # Methods

    def on_method(self, number: int, payload: bytes) -> None:
        """Handle a method that is neither a publish nor a plain acknowledgement."""
        declared = self.broker.durable_changes.durable_declarations
        try:
            method = self._decode(payload)
            if number == 0:
                connection_method(self, method)
            else:
                channel_method(self, number, method)
        except BrokerError as error:
            self.on_error(number, error, int.from_bytes(payload[:4], "big"))
        if len(self.out) > 0:
            self.await_disk(declared)

    def _decode(self, payload: bytes) -> Method:
        try:
            return decode_method(payload)
        except CodecError as error:
            raise Malformed(error) from None

    # Errors and ends

    def on_client_close(self) -> None:
        """Handle connection.close of the client; close-ok is sent when its teardown is complete."""
        if not self.leaving:
            self.driver.deliver()
            self.driver.notifier.dispatch_effects()
            self.state = CLOSING
            self.discarding = True
            self.closed_at = self.broker.now
        self.goodbye = True
        leave(self, graceful=True)
        settle_end(self)

    def on_error(self, number: int, error: BrokerError, method: int = 0) -> None:
        """Close what the error closes and tell the peer why; `method` is the one at fault, 0 if none is."""
        if self.leaving:
            return  # The channel is being torn down already, whatever the error.
        if error.closes == "channel" and number in self.channels:
            channel = self.channels[number]
            if not channel.closing:
                channel.closing = True
                self.reader.reset_publish_cache()
                self.end_channel(channel, graceful=False)
                self.send(number, spec.CHANNEL_CLOSE, _reason(error.code, error.reply_text, method))
            return
        self.close(error.code, error.reply_text, method)

    def on_frame_error(self, error: BrokerError, method: int = 0) -> None:
        """Close the connection for octets that are no frames, or not those that belong there."""
        self.on_error(0, error, method)

    def close(self, code: int, text: str, method: int = 0) -> None:
        """Send connection.close and wait for close-ok. `method` is the method at fault, 0 if none is."""
        if self.state in (CLOSING, CLOSED):
            return
        leave(self, graceful=False)
        line = f"[{self.name()}] closed by the broker: {code} {text}"
        if not self.logged_in:
            self.driver.log_refusal(HANDSHAKE, line)
        else:
            self.driver.log(line)
        self.state = CLOSING
        self.discarding = True
        self.closed_at = self.broker.now
        self.send(0, spec.CONNECTION_CLOSE, _reason(code, text, method))

    def end(self) -> None:
        """Stop sending and reading. The event loop closes the socket when the output is written."""
        self.state = CLOSED
        self.discarding = True
        self.closed_at = self.broker.now
        self.request_flush()

    def end_channel(self, channel: Channel, graceful: bool) -> None:
        """Tear down a channel; `graceful` if its client closed it."""
        self.part_with(channel, graceful)
        self.broker.endings.begin(ChannelEnd(channel))

    def part_with(self, channel: Channel, graceful: bool) -> None:
        """Ignore a channel from now on: drop its input and send nothing on it. Its consumers end by themselves."""
        if channel.ended:
            return
        channel.ended = True
        if channel.producer.confirms.ready():
            channel.write_confirms()  # No more frames of this channel after its close or close-ok.
        self.reader.reset_publish_cache()
        channel.end(graceful)


def _reason(code: int, text: str, method: int) -> dict[str, object]:
    """Return the arguments of a close. `method` is the method at fault (class << 16 | method), 0 if none is."""
    return {
        "reply_code": code,
        "reply_text": short_text(text),
        "class_id": method >> 16,
        "method_id": method & 0xFFFF,
    }
