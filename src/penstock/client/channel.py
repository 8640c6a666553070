"""Channel of the client: synchronous calls, and messages that arrive without a call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from penstock.client.confirms import Confirms
from penstock.client.content import Content, Delivery, Returned
from penstock.client.errors import ChannelClosed, Timeout
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import (
    CodecError,
    Method,
    Properties,
    decode_method,
    decode_properties,
    encode_header,
    frame,
    method_frame,
)
from penstock.wire.amqp091.spec import ReplyCode

if TYPE_CHECKING:
    from penstock.client.connection import Connection

RETURNED_MAX: Final = 100
"""Most returned messages that are stored; `returned_count` counts all."""
UNROUTABLE = (312, 313)
"""Reply codes of returned messages without a queue or consumer (section 1.8.3.8); others were refused."""

_WITH_CONTENT: Final = (spec.BASIC_DELIVER, spec.BASIC_GET_OK, spec.BASIC_RETURN)


class Channel:
    """Channel, opened by `Connection.channel`. Every call may raise `ChannelClosed`, `ConnectionClosed` and `Timeout`.

    After a `Timeout` of a synchronous call the channel is closed: a late answer would be taken for that of the next
    call.
    """

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

    # -- calls -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the channel; `Connection.channel` has done so."""
        self._call(spec.CHANNEL_OPEN, spec.CHANNEL_OPEN_OK)

    def close(self) -> None:
        """Close the channel; harmless when it or the connection is closed already."""
        if self.closed is None and self.connection.closed is None:
            self._call(spec.CHANNEL_CLOSE, spec.CHANNEL_CLOSE_OK, reply_code=200, reply_text="goodbye")
            self.closed = ChannelClosed(None, "the client closed it")
            self.connection.forget(self.number)

    def queue_declare(
        self,
        queue: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> tuple[str, int, int]:
        """Declare a queue, or check it with `passive`; return its name, ready messages and consumers.

        An empty name lets the broker choose one.
        """
        args = self._call(
            spec.QUEUE_DECLARE,
            spec.QUEUE_DECLARE_OK,
            queue=queue,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
        ).args
        return cast(str, args["queue"]), cast(int, args["message_count"]), cast(int, args["consumer_count"])

    def queue_bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: dict[str, object] | None = None
    ) -> None:
        """Bind a queue to an exchange."""
        self._call(
            spec.QUEUE_BIND,
            spec.QUEUE_BIND_OK,
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            arguments=arguments,
        )

    def queue_unbind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: dict[str, object] | None = None
    ) -> None:
        """Undo `queue_bind`; a missing binding is no error."""
        self._call(
            spec.QUEUE_UNBIND,
            spec.QUEUE_UNBIND_OK,
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            arguments=arguments,
        )

    def queue_purge(self, queue: str) -> int:
        """Drop the ready messages of a queue; return their number."""
        return cast(int, self._call(spec.QUEUE_PURGE, spec.QUEUE_PURGE_OK, queue=queue).args["message_count"])

    def queue_delete(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; return the number of its messages."""
        answer = self._call(
            spec.QUEUE_DELETE, spec.QUEUE_DELETE_OK, queue=queue, if_unused=if_unused, if_empty=if_empty
        )
        return cast(int, answer.args["message_count"])

    def exchange_declare(
        self,
        exchange: str,
        type: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> None:
        """Declare an exchange of type direct, fanout, topic or headers, or check it with `passive`."""
        self._call(
            spec.EXCHANGE_DECLARE,
            spec.EXCHANGE_DECLARE_OK,
            exchange=exchange,
            type=type,
            passive=passive,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )

    def exchange_delete(self, exchange: str, *, if_unused: bool = False) -> None:
        """Delete an exchange; a missing one is no error."""
        self._call(spec.EXCHANGE_DELETE, spec.EXCHANGE_DELETE_OK, exchange=exchange, if_unused=if_unused)

    def exchange_bind(
        self, destination: str, source: str, routing_key: str = "", arguments: dict[str, object] | None = None
    ) -> None:
        """Bind an exchange to an exchange."""
        self._call(
            spec.EXCHANGE_BIND,
            spec.EXCHANGE_BIND_OK,
            destination=destination,
            source=source,
            routing_key=routing_key,
            arguments=arguments,
        )

    def exchange_unbind(
        self, destination: str, source: str, routing_key: str = "", arguments: dict[str, object] | None = None
    ) -> None:
        """Undo `exchange_bind`; a missing binding is no error."""
        self._call(
            spec.EXCHANGE_UNBIND,
            spec.EXCHANGE_UNBIND_OK,
            destination=destination,
            source=source,
            routing_key=routing_key,
            arguments=arguments,
        )

    def confirm_select(self) -> Confirms:
        """Enable publisher confirms; return their counter."""
        if self.confirms is None:
            self._call(spec.CONFIRM_SELECT, spec.CONFIRM_SELECT_OK)
            self.confirms = Confirms()
        return self.confirms

    def qos(self, prefetch_count: int) -> None:
        """Limit the unacknowledged messages of each later consumer; 0 means no limit."""
        self._call(spec.BASIC_QOS, spec.BASIC_QOS_OK, prefetch_count=prefetch_count)

    def consume(
        self,
        queue: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> str:
        """Subscribe to a queue; return the consumer tag. `receive` returns the messages."""
        answer = self._call(
            spec.BASIC_CONSUME,
            spec.BASIC_CONSUME_OK,
            queue=queue,
            no_ack=no_ack,
            exclusive=exclusive,
            arguments=arguments,
        )
        return cast(str, answer.args["consumer_tag"])

    def cancel(self, consumer_tag: str, *, nowait: bool = False) -> None:
        """Cancel a subscription; `receive` still returns messages that have arrived.

        With `nowait` the broker does not answer, and messages may arrive until it has seen it.
        """
        if nowait:
            self._send(method_frame(self.number, spec.BASIC_CANCEL, consumer_tag=consumer_tag, no_wait=True))
            return
        self._call(spec.BASIC_CANCEL, spec.BASIC_CANCEL_OK, consumer_tag=consumer_tag)

    def get(self, queue: str, *, no_ack: bool = False) -> Delivery | None:
        """Take one message; None when the queue is empty."""
        self._got = None
        answer = self._call(spec.BASIC_GET, spec.BASIC_GET_OK, spec.BASIC_GET_EMPTY, queue=queue, no_ack=no_ack)
        return None if answer.id == spec.BASIC_GET_EMPTY else self._got

    def receive(self, timeout: float) -> Delivery | None:
        """Return the next message of any consumer of this channel, or None after `timeout` seconds."""
        try:
            self._wait(lambda: bool(self.deliveries), "message", timeout)
        except Timeout:
            return None
        return self.deliveries.popleft()

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        """Acknowledge a message, with `multiple` all up to it."""
        self._send(method_frame(self.number, spec.BASIC_ACK, delivery_tag=delivery_tag, multiple=multiple))

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Reject a message, with `multiple` all up to it; without `requeue` it is dropped or dead-lettered."""
        self._send(
            method_frame(self.number, spec.BASIC_NACK, delivery_tag=delivery_tag, multiple=multiple, requeue=requeue)
        )

    def publish(
        self,
        body: bytes | bytearray | memoryview,
        *,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Send one message; use `Publisher` for many."""
        view = memoryview(body).cast("B")
        publish = method_frame(
            self.number, spec.BASIC_PUBLISH, exchange=exchange, routing_key=routing_key, mandatory=mandatory
        )
        header = encode_header(len(view), properties or Properties())
        step = self.connection.frame_max - spec.FRAME_OVERHEAD
        self.check()
        if self.confirms is not None:
            self.confirms.published(
                1
            )  # Counted before it is sent: the confirm may be read while the rest is being sent.
        out = self.connection.out  # Written in place: a block has megabytes.
        out += publish
        out += frame(spec.FRAME_HEADER, self.number, header)
        head = bytes([spec.FRAME_BODY]) + self.number.to_bytes(2, "big")
        for start in range(0, len(view), step):
            piece = view[start : start + step]
            out += head + len(piece).to_bytes(4, "big")
            out += piece
            out.append(spec.FRAME_END)
        self._send(b"")

    # -- waiting and sending -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the error that closed the channel, if it is closed."""
        if self.closed is not None:
            raise ChannelClosed(self.closed.code, self.closed.text)

    def _send(self, data: bytes) -> None:
        self.check()
        self.connection.send(data)

    def _wait(self, happened: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        self.connection.wait_for(lambda: self.closed is not None or happened(), what, timeout)
        if not happened():
            self.check()

    def _call(self, method_id: int, *answers: int, **args: object) -> Method:
        self._answers.clear()
        given = {name: value for name, value in args.items() if value is not None}
        self._send(method_frame(self.number, method_id, **given))
        try:
            self._wait(lambda: bool(self._answers), spec.METHODS[answers[0]].name)
        except Timeout as error:
            self.closed = ChannelClosed(None, f"it was given up after {error}")  # its number stays taken
            raise
        answer = self._answers.popleft()
        if answer.id not in answers:
            raise self.connection.violated(f"{answer.name} came instead of {spec.METHODS[answers[0]].name}")
        return answer

    # -- frames of the broker ---------------------------------------------------------------------------------------

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

    def room_for_body(self, size: int) -> memoryview | None:
        """Return the place of the next body frame's payload in its message; None if it has none."""
        return None if self._content is None else self._content.room(size)

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
