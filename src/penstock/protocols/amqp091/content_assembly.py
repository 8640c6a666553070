"""Content assembly: a publish of a channel that arrives in pieces, from its method to its last body frame."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.authorization import check_route
from penstock.connections.control_request import octets_max
from penstock.connections.large_messages import LargeMessage
from penstock.connections.partial_messages import PIECE_BYTES, PartialMessage
from penstock.core.large_bodies import PIECE_OCTETS
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, PreconditionFailed, UnexpectedFrame
from penstock.flow.level import OVERHEAD
from penstock.flow.states import StateTable
from penstock.protocols.amqp091.content_frames import with_one_body_frame, without_body
from penstock.protocols.amqp091.publishing import CLAIMS, is_persistent, property_mask
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame as whole_frame
from penstock.wire.amqp091.content_header import FIXED_OCTETS, HEADERS_FLAG, flags_of
from penstock.wire.amqp091.spec import CLASS_BASIC, FRAME_OVERHEAD, PAYLOAD_AT

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel

SMALL_PIECE: Final = 1024
MERGED_OCTETS: Final = 64 * 1024
"""Body frames below `SMALL_PIECE` are merged into frames of about `MERGED_OCTETS`: frames of one byte would take nine
times their charge."""


NO_CONTENT: Final = 0
"""The number of `ContentState.METHOD`, for the hot path."""


class ContentState(IntEnum):
    """Kinds of frames that a channel expects next."""

    METHOD = NO_CONTENT
    """A method; no publish is incomplete."""
    HEADER = 1
    """The content header of a publish."""
    BODY = 2
    """A body frame."""
    IGNORED_BODY = 3
    """A body frame of a control request that is too large; it is not stored."""


CONTENT_STATES: Final = StateTable(
    "content of a channel",
    ContentState.METHOD,
    {
        ContentState.METHOD: {ContentState.HEADER: "basic.publish"},
        ContentState.HEADER: {
            ContentState.BODY: "content header",
            ContentState.IGNORED_BODY: "content header of an oversized control request",
            ContentState.METHOD: "content header without a body, or an error",
        },
        ContentState.BODY: {ContentState.METHOD: "last body frame, or the end of the channel"},
        ContentState.IGNORED_BODY: {ContentState.METHOD: "last body frame, or the end of the channel"},
    },
)


class PartialPublish(PartialMessage):
    """The received part of a channel's incomplete publish."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.connection)
        self._channel = channel

    @override
    def fail(self, error: BrokerError) -> None:
        self._channel.fail(error)


class ContentAssembly:
    """The incomplete publish of one channel."""

    __deletable__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._partial: PartialPublish | None = None
        """Received part of the publish; None before the content header."""
        self.state: i64 = NO_CONTENT
        """State as the number of a `ContentState`: each publish on the fast path reads it."""
        self.octets_left: i64 = 0
        """Bytes of the body that are still expected."""
        self._frames: list[bytes] = []
        self._route: Route | None = None
        self._size: i64 = 0
        """Bytes of properties and body."""
        self._large: LargeMessage | None = None
        """Body that is stored in pieces; None for other publishes."""
        self._merged = BytesWriter()
        """Payloads of small body frames that become one frame."""

    def begin(self, route: Route) -> None:
        """Begin a publish: its content header is next."""
        self.state = CONTENT_STATES.step(self.state, ContentState.HEADER)
        self._route = route

    def unexpected(self, class_id: int = CLASS_BASIC) -> UnexpectedFrame:
        """Return the error (505) for an unexpected frame, with RabbitMQ's text."""
        if self.state == ContentState.METHOD:
            return UnexpectedFrame("expected method frame, got non method frame instead")
        if self.state != ContentState.HEADER:
            return UnexpectedFrame("expected content body, got non content body frame instead")
        if class_id != CLASS_BASIC:
            return UnexpectedFrame(f"expected content header for class 60, got one for class {class_id} instead")
        return UnexpectedFrame("expected content header for class 60, got non content header frame instead")

    def take_header(self, frame: bytes, size: i64, body: i64) -> None:
        """Take the content header. Raises PreconditionFailed (406) if the body is larger than the limit."""
        channel = self._channel
        most = channel.connection.limits.message_bytes_max
        if body < 0 or body > most:
            self.drop()
            raise PreconditionFailed(f"message size {int(body) % (1 << 64)} is larger than configured max size {most}")
        self._partial = PartialPublish(channel)
        channel.connection.services.partial_messages.add(self._partial, size + PIECE_BYTES)
        persistent = is_persistent(frame)
        if self._is_large(body, persistent):
            self._large = LargeMessage(channel.connection, self._partial, persistent)
        self._frames.append(frame)
        self._size = size - FIXED_OCTETS + body
        self.octets_left = body
        if body == 0:
            self._publish()
            return
        route = self._route
        ignored = route is not None and route.control and body > octets_max(route.envelope.routing_key)
        self.state = CONTENT_STATES.step(self.state, ContentState.IGNORED_BODY if ignored else ContentState.BODY)

    def take_body(self, data: bytes, pos: i64, end: i64) -> None:
        """Take a body frame, which is `data[pos:end]`. Raises UnexpectedFrame (505)."""
        size = end - pos - FRAME_OVERHEAD
        self.begin_body(size)
        if self._large is not None:
            self._large.append(data, pos + PAYLOAD_AT, end - 1)
        elif self.state == ContentState.BODY:  # In other states the header suffices for the error reply.
            charge = size if size < SMALL_PIECE else size + PIECE_BYTES
            assert self._partial is not None
            self._channel.connection.services.partial_messages.add(self._partial, charge)
            self._append(data[pos:end], size)
        self.end_body()

    def begin_body(self, size: i64) -> None:
        """Begin a body frame with so many bytes. Raises UnexpectedFrame (505)."""
        if self.state == ContentState.METHOD or self.state == ContentState.HEADER:
            raise self.unexpected()
        if size > self.octets_left:
            raise UnexpectedFrame(
                f"the body on channel {self._channel.number} is longer than announced: "
                f"{self.octets_left} bytes were left, {size} came"
            )
        self.octets_left -= size

    def is_large(self) -> bool:
        """Return whether a large body is incomplete, so that parts of its frames can be taken."""
        return self._large is not None

    def take_part(self, data: bytes, start: i64, end: i64) -> None:
        """Take bytes of a large body: `data[start:end]`, of the frame that has begun."""
        if self._large is not None:
            self._large.append(data, start, end)

    def end_body(self) -> None:
        """End a body frame; the last frame completes the message."""
        if self.octets_left == 0:
            self._publish()

    def _is_large(self, body: i64, persistent: bool) -> bool:
        """Return whether a body goes in pieces: a large one of several frames that is no control request.

        A transient body is large from one piece on: its pieces are not written to the store, and only save copies.
        """
        least: i64 = self._channel.connection.limits.min_large_message
        if not persistent and least > PIECE_OCTETS:
            least = PIECE_OCTETS
        several = body > self._channel.engine.frame_max - FRAME_OVERHEAD
        return several and 0 < least <= body and self._route is not None and not self._route.control

    def _append(self, frame: bytes, size: i64) -> None:
        """Append a body frame; small ones are merged."""
        merged = self._merged
        if len(merged) or (size < SMALL_PIECE and self.octets_left):
            merged.write(frame[PAYLOAD_AT : PAYLOAD_AT + size])
            if self.octets_left == 0 or len(merged) >= MERGED_OCTETS:
                self._frames.append(whole_frame(spec.FRAME_BODY, int(self._channel.number), merged.getvalue()))
                merged.truncate(0)
        else:
            self._frames.append(frame)

    def _publish(self) -> None:
        """Publish the complete message."""
        frames = self._frames
        route = self._route
        if route is not None and route.control and not route.queues and len(frames) > 2:
            content = with_one_body_frame(frames)  # The request is read in place.
        else:
            content = b"".join(frames)
        charge = self._size + OVERHEAD
        large = self._large
        route = self.drop()
        channel = self._channel
        check_route(channel.connection.access, channel.vhost, route)
        channel.vhost.refresh_route(route)
        if large is not None:
            channel.publish_large(route, without_body(content), large.finish([]), charge)
        elif flags_of(content) & (CLAIMS | property_mask(route) | HEADERS_FLAG):
            channel.publish_with_properties(route, content, charge)
        elif route.single_queue is not None:
            channel.producer.publish(route, content, charge)
        else:
            channel.publish(route, content, charge)

    def unlink(self) -> None:
        """Drop the channel: it has ended."""
        del self._channel

    def drop(self) -> Route:
        """Drop the incomplete publish; returns its route."""
        route = self._route
        assert route is not None
        if self._partial is not None:
            self._channel.connection.services.partial_messages.give_back(self._partial)
            self._partial = None
        self.state = CONTENT_STATES.step(self.state, ContentState.METHOD)
        self._route = None
        self._large = None
        self._frames = []
        self._merged.truncate(0)
        return route
