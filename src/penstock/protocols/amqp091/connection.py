"""One AMQP 0-9-1 connection: negotiation, its channels, what closes and why. Bytes in, bytes out; no socket, no clock.

Theory of operation. A connection goes through `HEADER` (the eight octets), `START` (who are you), `TUNE` (how
large, how many), `OPEN` (which vhost) to `RUNNING`; and from anywhere to `CLOSING` (we sent close and wait for
close-ok) and `CLOSED` (nothing more is sent or read). A method that comes in a state that does not expect it closes
the connection with 503.

An error closes the smallest thing that the specification allows: `BrokerError.closes` says which. After channel.close
everything on that channel is ignored until close-ok.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.broker import Broker
from penstock.core.gates.connection_gates import ConnectionGates
from penstock.core.publish.closed_sessions import ENDED, Loss
from penstock.core.publish.held import HoldBudget
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, NotImplementedHere
from penstock.protocols.amqp091 import handshake
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.blocked_notice import BlockedNotice
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.client_profiles import UNKNOWN, Profile
from penstock.protocols.amqp091.connection_state import CLOSED, CLOSING, HEADER, RUNNING, START, TUNE, Peer
from penstock.protocols.amqp091.dispatch import channel_method, connection_method
from penstock.protocols.amqp091.durable_replies import DurableDeliveries, DurableReplies
from penstock.protocols.amqp091.frame_reader import FrameReader
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


class Connection(FrameReader):
    """One client."""

    def __init__(self, driver: BrokerDriver, number: int, peer: Peer) -> None:
        self.limits: ConnectionLimits = driver.connection_limits
        super().__init__(self.limits.initial_frame_max, driver.broker.work)
        self.driver = driver
        self.broker: Broker = driver.broker
        self.number = number
        """Counts connections, for people: con:2 in the log."""
        self.peer = peer
        self.state: str = HEADER
        self.user: str = ""
        self.logged_in: bool = False
        """Whether its user gave the right password."""
        self.late_refusal: LateRefusal | None = None
        """The answer to a wrong password while it waits."""
        self.product: str = ""
        """What the client calls itself (client-properties)."""
        self.profile: Profile = UNKNOWN
        """What such a client bears."""
        self.capabilities: dict[str, object] = {}
        self.vhost: VirtualHost | None = None
        self.channel_max: int = self.limits.channel_max
        self.heartbeat_s: int = 0
        """Agreed seconds between heartbeats; 0 is none."""
        self.holding = HoldBudget(self.limits.hold_bytes_most(self.broker.defaults.hold_deadline_s))
        self.origin: ConnectionGates | None = None
        """The connection as the gates know it; None until it is open."""
        self.arriving: i64 = 0
        """What messages that arrive in pieces hold; see `ChannelReceiver`."""
        self.paused_at: float = 0.0
        self.losses = Losses()
        self.asked: int = 0
        """How many of its channels are asked to stop by channel.flow."""
        self.exclusive: dict[str, Queue] = {}
        self.writable: bool = True
        """Whether deliveries may be written; false while the output is full."""
        self.outlet: ConnectionOutlet | None = None
        """Consumers that wait until more deliveries may be written; None until it has a channel."""
        self.leaving: bool = False
        """Its channels are being ended; nothing that comes of them is told any more."""
        self.over: bool = False
        """Its channels have come to an end, and what was its own is gone."""
        self.gone: bool = False
        """Its socket is gone."""
        self.goodbye: bool = False
        """The client has closed it, and waits for close-ok."""
        self.touched: bool = False
        self.notice: BlockedNotice | None = None
        self.durable_replies: DurableReplies | None = None
        self.durable_deliveries: DurableDeliveries | None = None
        """What waits for the disk; nothing is sent meanwhile but heartbeats. None until it is open, and at its end."""
        self.heartbeat: Heartbeat | None = None
        self.blocking: int = 0
        """How many (producer, gate) pairs of this connection are blocked."""
        self.blocked_count: int = 0
        """How many of them the client is told of: all but those at a rate, which come and go with every message."""
        self.opened_at: float = self.broker.now
        self.last_received: float = self.broker.now
        self.last_sent: float = self.broker.now
        self.closed_at: float = 0.0
        """When close was sent, to wait for close-ok no longer than the policy says."""

    # The event loop's calls

    def receive(self, data: bytes) -> None:
        """Take what was read from the peer."""
        self.last_received = self.broker.now
        self._act_on(data)

    def receive_later(self, data: bytes) -> None:
        """Take what was read from the peer, to be acted on when its share of a turn comes."""
        self.last_received = self.broker.now
        if self.state != CLOSED:
            self.leave(data)

    def _act_on(self, data: bytes) -> None:
        if self.state == HEADER:
            self.input_paused = False
            data = handshake.protocol_header(self, self.unparsed + data)
            if not data:
                return
        if self.state == CLOSED:
            self.unparsed = b""
            self.input_paused = False
        else:
            self.feed(data)

    def take_output(self) -> bytes:
        """Take what there is to write; the event loop says `drained` when the peer has taken it."""
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
        """The peer takes more: deliveries go on."""
        if not self.writable:
            self.writable = True
            if self.outlet is not None:
                self.outlet.schedule_wake()

    def resume_input(self) -> bool:
        """Act on input that was left alone; returns whether all of it has been acted on."""
        self._act_on(b"")
        return not self.input_paused

    def tick(self) -> bool:
        """Look at time-outs; called about once a second. Returns false when the peer must be given up."""
        now = self.broker.now
        if self.state in (CLOSING, CLOSED):
            return now - self.closed_at < self.limits.close_s
        if self.state != RUNNING:
            return now - self.opened_at < self.limits.handshake_s
        return True

    def hung_up(self) -> None:
        """The peer has closed its side of the socket, and everything that it sent has been acted on.

        That is as good an end as connection.close, but nothing more reaches it.
        """
        if self.state == RUNNING:
            self.driver.notifier.dispatch_effects()
            leave(self, graceful=True)
        self.end()

    def on_disconnect(self, cause: str = ENDED) -> None:
        """The socket is gone: leave no trace of the connection, when its end is over.

        `cause` is why it loses what it holds, unless that has been decided.
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
        self.forget_input()
        self.out.truncate(0)
        self.driver.logins.leave(self)

    def shut_down(self) -> None:
        """Close because the broker stops (320)."""
        if self.state == RUNNING:
            self.close(320, "CONNECTION_FORCED - broker is shutting down")
        else:
            self.end()

    def may_pause(self) -> bool:
        """Tell whether reading may be paused: it only publishes, and it holds as much as it may."""
        return self.holding.bytes >= self.hold_bytes() and self.publishes_only()

    def hold_bytes(self) -> int:
        """Return how many bytes (charges) it may hold before it is paused, or refused."""
        return self.limits.asked_bytes if self.asked else self.limits.hold_bytes

    def may_pulse(self, now: float) -> bool:
        """Tell whether a connection whose reading is paused may be read a little."""
        patience_s = self.limits.pulsing_s(self.broker.defaults.hold_deadline_s)
        return not self.may_pause() or now - self.paused_at < patience_s

    def left_unread(self, now: float) -> None:
        """Note that nothing was read because we did not: its silence says nothing about the peer."""
        self.last_received = now

    def publishes_only(self) -> bool:
        """Tell whether it neither consumes nor has anything to acknowledge or to commit."""
        for channel in self.channels.values():
            if channel.consumers or channel.has_unsettled() or channel.transaction is not None:
                return False
        return True

    # The disk

    def waits_for_disk(self) -> bool:
        """Tell whether its output waits until what it says is true on the disk."""
        answers, deliveries = self.durable_replies, self.durable_deliveries
        return (answers is not None and answers.waiting > 0) or (deliveries is not None and deliveries.must_wait())

    def await_disk(self, declared: i64) -> None:
        """Hold the output back if anything durable was declared or deleted since `declared` such changes."""
        if self.broker.durable_changes.durable_declarations != declared and self.durable_replies is not None:
            self.durable_replies.wait()

    def await_deliveries(self) -> None:
        """Let the output wait until everything that has happened is on the disk: it has deliveries that must not go."""
        if self.durable_deliveries is not None:
            self.durable_deliveries.wait()

    def fail_pending_replies(self, why: str) -> None:
        """Say nothing of what waits for the disk, but that the connection ends, and why (541)."""
        self.out.truncate(0)
        self.close(541, f"INTERNAL_ERROR - {why}")

    # Output

    def request_flush(self) -> None:
        """Note that there is something to write."""
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
        """Count publishes that it has lost; `origin` is itself as the gates know it, or knew it."""
        self.losses.add(loss, origin)

    def review_hold_bound(self) -> None:
        """A connection that consumes, or has transactions, is never paused: past the bound its publishes are refused.

        One that only publishes is paused instead, and may end the message that it is about to send.
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
        """Return who it is: con:2(guest@127.0.0.1:40312/)."""
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
        """Return who a channel is: con:2(guest@127.0.0.1:40312/)/ch:1."""
        return f"{self.name()}/ch:{number}"

    # Routes and frames (Intake)

    def frame_bound(self) -> str:
        """See `FrameReader.frame_bound`."""
        if self.state in (START, TUNE):
            return f"the {self.frame_max} octets that it may have before connection.tune-ok"
        return f"the agreed frame_max of {self.frame_max}"

    def route_of(self, channel: Channel, payload: bytes) -> Route:
        """See `FrameReader.route_of`."""
        method = self._decode(payload)
        if arg.flag(method.args, "immediate"):
            raise NotImplementedHere("immediate=true")
        route = channel.vhost.route(
            arg.text(method.args, "exchange"), arg.text(method.args, "routing_key"), arg.flag(method.args, "mandatory")
        )
        channel.vhost.resolve(route, {})
        return route

    def find_again(self, route: Route) -> None:
        """See `FrameReader.find_again`."""
        assert self.vhost is not None
        self.vhost.refresh_route(route)

    def control_request(self, channel: Channel, route: Route, content: bytes) -> None:
        """Hand a publish to the control exchange over to the broker's control operations."""
        declared = self.broker.durable_changes.durable_declarations
        self.driver.control.request(channel.vhost, self, route.envelope.routing_key, content)
        self.await_disk(declared)

    # Methods

    def on_method(self, number: int, payload: bytes) -> None:
        """See `FrameReader.on_method`."""
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
        """The client closes the connection; it is answered when its end is over."""
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
        """See `FrameReader.on_error`."""
        if self.leaving:
            return  # Whatever is wrong with a channel, its end is under way already.
        code = error.reply_code() if isinstance(error, Malformed) else error.code
        if error.closes == "channel" and number in self.channels:
            channel = self.channels[number]
            if not channel.closing:
                channel.closing = True
                self.reset_publish_cache()
                self.end_channel(channel, graceful=False)
                self.send(number, spec.CHANNEL_CLOSE, _reason(code, error.reply_text, method))
            return
        self.close(code, error.reply_text, method)

    def on_frame_error(self, error: BrokerError, method: int = 0) -> None:
        """See `FrameReader.on_frame_error`."""
        self.on_error(0, error, method)

    def close(self, code: int, text: str, method: int = 0) -> None:
        """Close the connection and wait for close-ok; `method` is the one that is at fault, 0 if none is."""
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
        """Nothing more is read or sent; the event loop closes the socket when the output is written."""
        self.state = CLOSED
        self.discarding = True
        self.closed_at = self.broker.now
        self.request_flush()

    def end_channel(self, channel: Channel, graceful: bool) -> None:
        """A channel is closed; `graceful` if its client wanted it."""
        self.part_with(channel, graceful)
        self.broker.endings.begin(ChannelEnd(channel))

    def part_with(self, channel: Channel, graceful: bool) -> None:
        """Let nothing more come from a channel, nor be told on it; what it consumes ends by itself."""
        if channel.ended:
            return
        channel.ended = True
        if channel.producer.confirms.ready():
            channel.write_confirms()  # Nothing may come on this channel after its close or close-ok.
        self.reset_publish_cache()
        channel.end(graceful)


def _reason(code: int, text: str, method: int) -> dict[str, object]:
    """Return the arguments of a close; `method` is the one that is at fault (class << 16 | method), 0 if none is."""
    return {
        "reply_code": code,
        "reply_text": short_text(text),
        "class_id": method >> 16,
        "method_id": method & 0xFFFF,
    }
