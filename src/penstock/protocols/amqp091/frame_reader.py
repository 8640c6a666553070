"""Frame reader: splits input into frames and handles publishes and acknowledgements itself.

Theory of operation. `_frames` walks once over the input and creates no object per frame. A publish whose method, header
and body frames are complete is accepted in one step: its content is one slice of the input. Payloads of `basic.publish`
repeat, so routes are cached by the payload. All other methods go to `on_method`. A publish that arrives in pieces is
assembled by its channel.

An incomplete frame waits in `Connection.unparsed`: at most one frame, whose size frame_max bounds. When the client's
share of the turn is used up, the rest of the input waits in `Connection.unparsed` too (see penstock/flow/work.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from penstock.connections.authorization import check_route
from penstock.connections.client_session import SESSION_OPEN
from penstock.connections.connection_output import OUTPUT_LEFT_UNREAD
from penstock.core.large_bodies import PART_OCTETS
from penstock.core.publish.producer import publish_at_once
from penstock.core.routing.route import PERSISTENT, Route
from penstock.errors import BrokerError, FrameError, PreconditionFailed, SyntaxInvalid, UnexpectedFrame
from penstock.flow.level import OVERHEAD
from penstock.protocols.amqp091.content_assembly import NO_CONTENT, ContentState
from penstock.protocols.amqp091.message_format import may_have_cc
from penstock.protocols.amqp091.publishing import CLAIMS, property_mask, route_variant
from penstock.protocols.amqp091.unanswered import UnansweredRequests
from penstock.wire.amqp091.content_header import FIXED_OCTETS, FLAGS_AT, HEADERS_FLAG, property_flags
from penstock.wire.amqp091.spec import (
    BASIC_ACK,
    BASIC_PUBLISH,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    PAYLOAD_AT,
)

if TYPE_CHECKING:
    from penstock.connections.connection import Connection
    from penstock.protocols.amqp091.channel import Channel
    from penstock.protocols.amqp091.engine import Amqp091Engine


ROUTES_KEPT: Final = 4096
"""Most routes cached by a connection; at the bound the cache is cleared."""
METHOD_WORK: Final = 16
"""Units of work that each method costs for decoding, lookup and reply."""
FRAME_WORK: Final = 2
"""Units of each frame of a message that arrives in pieces, of a heartbeat, and of an ignored frame."""

# Layout of frames, in bytes from the first one of each (AMQP 0-9-1 sections 2.3.5 and 4.2.6.1):
#
#   method  | 0 type | 1 channel | 3 size | 7 class | 9 method | 11 arguments ...                         | 0xCE |
#   header  | 0 type | 1 channel | 3 size | 7 class | 9 weight | 11 body size | 19 flags | 21 properties  | 0xCE |
#   body    | 0 type | 1 channel | 3 size | 7 body ...                                                    | 0xCE |
#
# The size counts the bytes between the size field and 0xCE. basic.ack has 11 delivery tag | 19 multiple. All positions
# are literals: in compiled code a computed constant is an object that each use must unpack.
ARGUMENTS_AT: Final = 11
TAG_OCTETS: Final = 8
METHOD_FRAME_MIN: Final = 12
"""Bytes of a method frame without arguments."""
BODY_SIZE_AT: Final = 11
PROPERTIES_AT: Final = 21
CONTENT_MIN: Final = 30
"""Bytes of the shortest header frame and of the shortest body frame."""
HEADER_PAYLOAD_MIN: Final = 14
"""Size of a header frame without properties; one more with the delivery mode alone."""

DELIVERY_MODE_ALONE: Final = 0x10
"""First byte of the property flags of a message whose only property is the delivery mode."""

_BASIC_WEIGHT_0: Final = 0x3C0000
"""Class basic with a weight of 0, as the first four bytes of a header frame's payload."""


class FrameReader:
    """Parser of the input of one connection, with its cache of routes; each call gets the connection."""

    def __init__(self, connection: Connection) -> None:
        self.unanswered = UnansweredRequests(connection)
        """Requests that wait for an answer; at the bound no more input is read."""
        self._routes: dict[bytes, Route] = {}
        """Routes by payload of basic.publish; the client may publish to each."""
        self._access_epoch: i64 = -1
        """Number of permission changes when the cached routes were checked."""
        self._last_frame: bytes = b""
        self._last_channel: Channel | None = None
        self._last_route: Route | None = None
        self._open: Channel | None = None
        """Channel of the body frame of a large message that is read in parts; None if there is none."""
        self._open_size: i64 = 0
        """Bytes of the payload of the body frame that is read in parts."""
        self._open_left: i64 = 0
        """Bytes of that payload that are still to come."""

    # Frames

    def read(self, engine: Amqp091Engine, data: bytes, pos: i64) -> i64:
        """Handle input from a position on. Return the position from which input must wait."""
        self._review_access(engine)
        channel = self._open
        if channel is not None:
            pos = self._take_part(engine, channel, data, pos)
            if self._must_stop(engine) or self._is_within_frame():
                return pos
        return self._frames(engine, data, pos)

    def _frames(self, engine: Amqp091Engine, data: bytes, pos: i64) -> i64:
        """Handle every complete frame. Return the position of the first frame that must wait."""
        n: i64 = len(data)
        last_frame = self._last_frame
        last_size: i64 = len(last_frame)
        while n - pos >= FRAME_OVERHEAD:
            if last_size and data[pos : pos + last_size] == last_frame:
                channel = self._last_channel
                route = self._last_route
                # A channel may end in the middle of this read; both values are then stale.
                if channel is not None and route is not None:
                    end = self._publish(channel, route, data, pos + last_size, n)
                    if end > 0:
                        pos = end
                        continue
                    if end < 0:
                        pos = -end
                        if self._must_stop(engine):
                            return pos
                        continue
            size = (read_i64_be(data, pos) >> 8) & 0xFFFFFFFF
            end = pos + FRAME_OVERHEAD + size
            if size > engine.frame_max:  # Eight bytes over, as in RabbitMQ: some count only payload.
                engine.on_error(
                    0, FrameError(f"a frame of {size + FRAME_OVERHEAD} bytes is larger than {engine.frame_bound()}")
                )
                return n
            if end > n:
                return self._open_frame(engine, data, pos)
            if not self._ends(engine, data, end, size):
                return n
            if self._frame(engine, data, pos, end, n):
                last_frame = self._last_frame
                last_size = len(last_frame)
                assert self._last_channel is not None and self._last_route is not None
                after = self._publish(self._last_channel, self._last_route, data, end, n)
                if after == 0:
                    pos = self._begin(self._last_channel, self._last_route, end)
                else:
                    pos = after if after > 0 else -after
                    if self._must_stop(engine):
                        return pos
            else:
                pos = end
                last_frame = self._last_frame  # The frame may have closed its channel.
                last_size = len(last_frame)
                if self._must_stop(engine):
                    return pos
        return pos

    def _ends(self, engine: Amqp091Engine, data: bytes, end: i64, size: i64) -> bool:
        """Return whether a frame ends with 0xCE; close the connection (501) if not."""
        if data[end - 1] == FRAME_END:
            return True
        engine.on_error(0, FrameError(f"a frame of {size} bytes does not end with 0xCE but with {data[end - 1]:#04x}"))
        return False

    def _open_frame(self, engine: Amqp091Engine, data: bytes, pos: i64) -> i64:
        """Take the received part of an incomplete frame, if it is a large part of a large body.

        Return the position after the part.
        """
        start = read_i64_be(data, pos)
        number = int((start >> 40) & 0xFFFF)
        channel = engine.channels.get(number)
        if data[pos] != FRAME_BODY or len(data) - pos < PART_OCTETS or channel is None or not _takes_parts(channel):
            return pos
        self._open = channel
        self._open_size = (start >> 8) & 0xFFFFFFFF
        self._open_left = self._open_size
        try:
            channel.content.begin_body(self._open_size)
        except BrokerError as error:
            engine.on_error(number, error, BASIC_PUBLISH)
        pos = self._take_part(engine, channel, data, pos + PAYLOAD_AT)
        self._must_stop(engine)
        return pos

    def _is_within_frame(self) -> bool:
        return self._open is not None

    def _take_part(self, engine: Amqp091Engine, channel: Channel, data: bytes, pos: i64) -> i64:
        """Take more of the frame that is read in parts, if much of it or its end has come.

        Return the position after the part.
        """
        n: i64 = len(data)
        end = pos + self._open_left
        if end >= n:
            if n - pos < PART_OCTETS:
                return pos
            end = n
        self._open_left -= end - pos
        try:
            if _takes_parts(channel):
                channel.content.take_part(data, pos, end)
                if end < n and data[end] == FRAME_END:
                    channel.content.end_body()
        except BrokerError as error:
            engine.on_error(int(channel.number), error, BASIC_PUBLISH)
        if end == n:
            if _takes_parts(channel):
                engine.connection.pausing.pieces.expect(channel.content.octets_left + self._open_left)
            return n
        self._open = None
        return end + 1 if self._ends(engine, data, end + 1, self._open_size) else n

    def _review_access(self, engine: Amqp091Engine) -> None:
        """Clear cached routes if permissions have changed since the routes were checked."""
        epoch = engine.connection.access.epoch.count
        if epoch != self._access_epoch:
            self._access_epoch = epoch
            self.forget_routes()

    def _must_stop(self, engine: Amqp091Engine) -> bool:
        """Stop if the client's share is used up, one of its requests is still carried out, or its output is full.

        Every operation of a client that can change permissions passes here before the client's next publish.
        """
        self._review_access(engine)
        if (
            engine.work.done < engine.work.limit
            and len(engine.out) <= OUTPUT_LEFT_UNREAD
            and engine.connection.busy == 0
        ):
            return False
        engine.connection.input_paused = True
        engine.connection.request_flush()
        return True

    def _frame(self, engine: Amqp091Engine, data: bytes, pos: i64, end: i64, n: i64) -> bool:
        """Handle one frame. Return whether it was a publish, which is then cached as the last one."""
        start = read_i64_be(data, pos)
        kind = (start >> 56) & 0xFF
        number = int((start >> 40) & 0xFFFF)
        channel = engine.channels.get(number)
        if kind == FRAME_METHOD and end - pos >= METHOD_FRAME_MIN:
            if channel is not None and channel.state == SESSION_OPEN:
                method = read_i32_be(data, pos + PAYLOAD_AT)
                if channel.content.state != NO_CONTENT:
                    engine.on_error(0, channel.content.unexpected(), BASIC_PUBLISH)
                elif method == BASIC_PUBLISH:
                    return self._remember_publish(engine, channel, number, data, pos, end)
                elif method == BASIC_ACK and end - pos == channel.ack_frame_size:
                    self._acknowledge(engine, channel, number, data, pos)
                else:
                    engine.work.done += METHOD_WORK
                    engine.on_method(number, data[pos + PAYLOAD_AT : end - 1])
            else:
                engine.work.done += METHOD_WORK
                engine.on_method(number, data[pos + PAYLOAD_AT : end - 1])
            return False
        engine.work.done += FRAME_WORK
        if kind == FRAME_HEARTBEAT:
            if number:
                engine.on_error(0, UnexpectedFrame(f"a heartbeat came on channel {number}; it belongs to channel 0"))
            elif end - pos > FRAME_OVERHEAD:
                engine.on_error(
                    0, FrameError(f"a heartbeat has a payload of {end - pos - FRAME_OVERHEAD} bytes; it has none")
                )
        elif (kind == FRAME_HEADER or kind == FRAME_BODY) and not engine.connection.ignores_input():
            if channel is None:
                engine.on_error(0, UnexpectedFrame("expected method frame, got non method frame instead"))
            elif channel.state == SESSION_OPEN:
                self._piece(engine, channel, number, data, pos, end)
        elif not engine.connection.ignores_input():
            engine.on_error(
                0,
                FrameError(
                    f"a frame of type {kind} with {end - pos - FRAME_OVERHEAD} bytes is not an AMQP 0-9-1 frame"
                ),
            )
        return False

    def _acknowledge(self, engine: Amqp091Engine, channel: Channel, number: int, data: bytes, pos: i64) -> None:
        try:
            tag = read_i64_be(data, pos + ARGUMENTS_AT)
            if tag < 0:  # Tags are unsigned on the wire.
                raise PreconditionFailed(f"unknown delivery tag {int(tag) + (1 << 64)}")
            multiple = data[pos + ARGUMENTS_AT + TAG_OCTETS] & 1 != 0
            units = channel.unsettled.acknowledge(tag, multiple, channel.broker.now)
            engine.work.done += units
        except BrokerError as error:
            engine.on_error(number, error, BASIC_ACK)

    # Publishes

    def _remember_publish(
        self, engine: Amqp091Engine, channel: Channel, number: int, data: bytes, pos: i64, end: i64
    ) -> bool:
        payload = data[pos + PAYLOAD_AT : end - 1]
        try:
            route = self._routes.get(payload)
            if route is None:
                route = engine.route_of(channel, payload)
                if len(self._routes) >= ROUTES_KEPT:
                    self._routes.clear()
                self._routes[payload] = route
            if route.epoch != channel.vhost.epoch:
                # The exchange may have been replaced by one of a type whose routing keys have permissions.
                check_route(engine.connection.access, channel.vhost, route)
                channel.vhost.refresh_route(route)
        except BrokerError as error:
            engine.on_error(number, error, BASIC_PUBLISH)
            return False
        self._last_frame = data[pos:end]
        self._last_channel = channel
        self._last_route = route
        return True

    def reset_publish_cache(self) -> None:
        """Clear the cache of the last publish: its channel may be closed."""
        self._last_frame = b""
        self._last_channel = None
        self._last_route = None

    def forget_input(self) -> None:
        """Clear caches and partial frames: the connection handles no more input."""
        self._open = None
        self.forget_routes()

    def forget_routes(self) -> None:
        """Clear all caches: the connection handles no more input, or its permissions have changed."""
        self.reset_publish_cache()
        self._routes.clear()

    def _publish(self, channel: Channel, route: Route, data: bytes, head: i64, n: i64) -> i64:
        """Accept a publish whose content begins at `head`. Return its end, or 0 if the content is incomplete.

        The end is negative if the publish left the fast path, so that the work must be checked. Eight bytes are read
        as one number: type, channel and size of a frame, and one byte more.
        """
        if head + CONTENT_MIN > n or channel.state != SESSION_OPEN or channel.content.state != NO_CONTENT:
            return 0
        start = read_i64_be(data, head)
        size = (start >> 8) & 0xFFFFFFFF
        body_at = head + FRAME_OVERHEAD + size
        if start >> 40 != channel.header_prefix or size < HEADER_PAYLOAD_MIN or body_at + FRAME_OVERHEAD > n:
            return 0
        start = read_i64_be(data, body_at)
        body = (start >> 8) & 0xFFFFFFFF
        end = body_at + FRAME_OVERHEAD + body
        if start >> 40 != channel.body_prefix or body == 0 or end > n or end - body_at > channel.engine.frame_max:
            return 0
        if read_i64_be(data, head + BODY_SIZE_AT) != body or read_i32_be(data, head + PAYLOAD_AT) != _BASIC_WEIGHT_0:
            return 0
        if data[body_at - 1] != FRAME_END or data[end - 1] != FRAME_END:
            return 0
        if route.epoch != channel.vhost.epoch:
            return 0
        if data[head + FLAGS_AT + 1] != 0 or not (
            (size == HEADER_PAYLOAD_MIN and data[head + FLAGS_AT] == 0)
            or (size == HEADER_PAYLOAD_MIN + 1 and data[head + FLAGS_AT] == DELIVERY_MODE_ALONE)
        ):
            flags = property_flags(data, head + FLAGS_AT, body_at - 1)
            if flags < 0:
                return 0
            if flags & CLAIMS or (flags & HEADERS_FLAG and may_have_cc(data, head + FLAGS_AT, body_at)):
                self._publish_with_properties(channel, route, data[head:end], size - FIXED_OCTETS + body + OVERHEAD)
                return -end
            if flags & property_mask(route):
                try:
                    route = route_variant(route, data, head)
                except BrokerError as error:
                    channel.engine.on_error(int(channel.number), error, BASIC_PUBLISH)
                    return end
        elif route.checks_delivery_mode and size > HEADER_PAYLOAD_MIN and data[head + PROPERTIES_AT] == PERSISTENT:
            route = route.persistent()
        content = data[head:end]
        charge = size - FIXED_OCTETS + body + OVERHEAD
        if publish_at_once(channel.producer, route, content, charge):
            return end
        if route.single_queue is not None or route.stored_queue is not None:
            channel.producer.publish_slowly(route, content, charge)
            return end
        try:
            channel.publish(route, content, charge)
        except BrokerError as error:
            channel.engine.on_error(int(channel.number), error, BASIC_PUBLISH)
        return -end

    def _publish_with_properties(self, channel: Channel, route: Route, content: bytes, charge: i64) -> None:
        try:
            channel.publish_with_properties(route, content, charge)
        except BrokerError as error:
            channel.engine.on_error(int(channel.number), error, BASIC_PUBLISH)

    def _begin(self, channel: Channel, route: Route, end: i64) -> i64:
        """Begin a publish whose content is incomplete: the channel assembles it."""
        channel.content.begin(route)
        return end

    def _piece(self, engine: Amqp091Engine, channel: Channel, number: int, data: bytes, pos: i64, end: i64) -> None:
        size = end - pos - FRAME_OVERHEAD
        content = channel.content
        method = BASIC_PUBLISH if content.state != NO_CONTENT else 0
        try:
            if data[pos] == FRAME_BODY:
                content.take_body(data, pos, end)
                return
            if content.state != ContentState.HEADER:
                raise content.unexpected()
            if size < HEADER_PAYLOAD_MIN:
                raise FrameError(f"a content header has {size} bytes; the least is {HEADER_PAYLOAD_MIN}")
            if read_i32_be(data, pos + PAYLOAD_AT) != _BASIC_WEIGHT_0:
                raise content.unexpected(read_i32_be(data, pos + PAYLOAD_AT) >> 16)
            if property_flags(data, pos + FLAGS_AT, end - 1) < 0:
                raise SyntaxInvalid("the properties of a publish do not fill their content header exactly")
            content.take_header(data[pos:end], size, read_i64_be(data, pos + BODY_SIZE_AT))
        except BrokerError as error:
            engine.on_error(number, error, method)


def _takes_parts(channel: Channel) -> bool:
    return channel.state == SESSION_OPEN and channel.content.is_large()
