"""Channel of the client: synchronous calls, and messages that arrive without a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from penstock.client.channel_receiver import ChannelReceiver
from penstock.client.confirms import Confirms
from penstock.client.content import Delivery
from penstock.client.errors import ChannelClosed, Timeout
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, Properties, encode_header, frame, method_frame


class Channel(ChannelReceiver):
    """Channel, opened by `Connection.channel`. Every call may raise `ChannelClosed`, `ConnectionClosed` and `Timeout`.

    After a `Timeout` of a synchronous call the channel is closed: a late answer would be taken for that of the next
    call.
    """

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

    def cancel(self, consumer_tag: str) -> None:
        """Cancel a subscription; `receive` still returns messages that have arrived."""
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
        parts = [publish, frame(spec.FRAME_HEADER, self.number, header)]
        step = self.connection.frame_max - spec.FRAME_OVERHEAD
        for start in range(0, len(view), step):
            parts.append(frame(spec.FRAME_BODY, self.number, bytes(view[start : start + step])))
        self.check()
        if self.confirms is not None:
            self.confirms.published(
                1
            )  # Counted before it is sent: the confirm may be read while the rest is being sent.
        self._send(b"".join(parts))

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
