"""Receiving half of a channel: answers, messages, confirms, and the reason of a close."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, cast

from penstock.client.confirms import Confirms
from penstock.client.content import Content, Delivery, Returned
from penstock.client.errors import ChannelClosed
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, decode_method, decode_properties, method_frame
from penstock.wire.amqp091.spec import ReplyCode

if TYPE_CHECKING:
    from penstock.client.connection import Connection

RETURNED_MAX: Final = 100
"""Most returned messages that are stored; `returned_count` counts all."""
UNROUTABLE = (312, 313)
"""Reply codes of returned messages without a queue or consumer (section 1.8.3.8); others were refused."""

_WITH_CONTENT: Final = (spec.BASIC_DELIVER, spec.BASIC_GET_OK, spec.BASIC_RETURN)


class ChannelReceiver:
    """Receiving half of a channel; `Connection` passes it the channel's frames in order."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection: Final = connection
        self.number: Final = number
        self.closed: ChannelClosed | None = None
        self.active = True
        """False while the broker has stopped publishes by channel.flow."""
        self.confirms: Confirms | None = None
        """Outcomes of published messages; None until confirms are enabled."""
        self.deliveries: deque[Delivery] = deque()
        """Messages for consumers that are not taken yet; basic.qos bounds them."""
        self.returned: deque[Returned] = deque(maxlen=RETURNED_MAX)
        self.returned_count = 0
        self.refusal = ""
        """Reason of the last refused message; a nack for it follows."""
        self.cancelled: set[str] = set()
        """Consumers that the broker has cancelled because their queue was deleted."""
        self._answers: deque[Method] = deque(maxlen=1)
        self._got: Delivery | None = None
        self._content: Content | None = None

    def take(self, kind: int, payload: memoryview) -> None:
        """Handle one frame; raises `CodecError` if the protocol does not allow it here."""
        if self.closed is not None:
            return  # Sent before the broker saw the close.
        if kind == spec.FRAME_METHOD:
            self._take_method(bytes(payload))
            return
        content = self._content
        if content is None:
            raise CodecError(f"a frame of kind {kind} where a method was due", ReplyCode.UNEXPECTED_FRAME)
        if kind == spec.FRAME_BODY:
            content.add_body(payload)
        elif kind == spec.FRAME_HEADER:
            content.add_header(*decode_properties(bytes(payload)))
        else:
            raise CodecError(f"a frame of the unknown kind {kind}")
        if content.complete:
            self._content = None
            self._take_message(content)

    def _take_method(self, payload: bytes) -> None:
        method_id = int.from_bytes(payload[:4], "big")
        if method_id in (spec.BASIC_ACK, spec.BASIC_NACK) and self.confirms is not None and len(payload) == 13:
            # Read in place: under confirms these are most of the input.
            tag = int.from_bytes(payload[4:12], "big")
            self.confirms.settle(tag, payload[12] & 1 == 1, method_id == spec.BASIC_ACK)
            return
        method = decode_method(payload)
        if self._content is not None:
            raise CodecError(f"{method.name} within a message", ReplyCode.UNEXPECTED_FRAME)
        if method_id in _WITH_CONTENT:
            self._content = Content(method)
        elif method_id == spec.CHANNEL_CLOSE:
            self.closed = ChannelClosed(cast(int, method.args["reply_code"]), cast(str, method.args["reply_text"]))
            self.connection.out.extend(method_frame(self.number, spec.CHANNEL_CLOSE_OK))
            self.connection.forget(self.number)
        elif method_id == spec.CHANNEL_FLOW:
            self.active = bool(method.args["active"])
            self.connection.out.extend(method_frame(self.number, spec.CHANNEL_FLOW_OK, active=self.active))
        elif method_id == spec.BASIC_CANCEL:
            self.cancelled.add(cast(str, method.args["consumer_tag"]))
        else:
            self._answers.append(method)

    def _take_message(self, content: Content) -> None:
        if content.method.id == spec.BASIC_DELIVER:
            self.deliveries.append(content.delivery())
        elif content.method.id == spec.BASIC_RETURN:
            returned = content.returned()
            if returned.code in UNROUTABLE:
                self.returned.append(returned)
                self.returned_count += 1
            else:
                self.refusal = returned.text
        else:
            self._got = content.delivery()
            self._answers.append(content.method)
