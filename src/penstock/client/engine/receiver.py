"""Receiver of the client: messages that have arrived, calls that wait for them, and gathered acknowledgements.

Theory of operation. Messages that have arrived wait in `ready`; a waiting call is woken with the promise of a message
(`Line.granted`), so no other call takes that message. Accepted messages are acknowledged in ranges: an acknowledgement
is written when its range is long enough, with other output, or after a moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final

from mypy_extensions import i64

from penstock.client.engine.connection import CLOSE_WITHIN, Engine, Unit
from penstock.client.engine.events import RECEIVER_CLOSED, Event
from penstock.client.engine.headers import check_arguments
from penstock.client.engine.messages import Body, Forwarded, Message, Received
from penstock.client.engine.outcomes import ConnectionLost
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.terms import ReceiverTerms
from penstock.client.engine.waits import Call, Line, Steps, Wait
from penstock.client.errors import ClientError, LinkClosed, ReceiverClosed, Timeout
from penstock.content.properties import Properties
from penstock.errors import PenstockError
from penstock.flow.timers import NEVER
from penstock.markers import override

ACKS: Final = 64
"""Accepted messages that are acknowledged together."""
ACK_OCTETS: Final = 16 * 1024
"""Bytes of accepted messages that are acknowledged together."""


class Over:
    """An awaitable that is done: `await delivery.accept()` costs no coroutine, and needs no await."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


OVER: Final = Over()

ACCEPTED: Final = 0
REJECTED: Final = 1
RELEASED: Final = 2
MODIFIED: Final = 3
"""Outcomes of a delivery."""


class Delivery(Received):
    """Received message. It is settled once, by `accept`, `reject`, `release` or `modify`.

    A settlement is sent with the next flush; in asyncio it may be awaited, which does not wait. A message of an earlier
    connection, or a settled one, is ignored: the broker has delivered it to another receiver.
    """

    def __init__(self, receiver: ReceiverCore, tag: i64, epoch: i64, body: bytes, head: bytes, envelope: bytes) -> None:
        super().__init__(body, head)
        self.receiver = receiver
        self.tag: i64 = tag
        self.epoch: i64 = epoch
        self.envelope = envelope
        """Origin, as bytes."""
        self.is_settled: bool = False
        self.decoded: Properties | None = None
        self.origin: tuple[str, str] | None = None
        """Exchange and routing key, after either was requested."""

    @property
    @override
    def properties(self) -> Properties:
        """Return the properties. Raises `ClientError` for malformed properties, which no checking broker sends."""
        if self.decoded is None:
            try:
                self.decoded = self.receiver.properties_of(self)
            except PenstockError as error:
                raise ClientError(f"the properties of a message are malformed: {error}") from None
        return self.decoded

    @property
    def headers(self) -> dict[str, object]:
        """Return the headers; empty without any."""
        return self.properties.headers or {}

    @property
    def redelivered(self) -> bool:
        """Return whether the message may have been delivered before."""
        return self.receiver.redelivered(self)

    @property
    def exchange(self) -> str:
        """Return the exchange of the publish; empty for the default exchange, or if unknown."""
        return self._origin()[0]

    @property
    def routing_key(self) -> str:
        """Return the routing key; empty if unknown."""
        return self._origin()[1]

    def _origin(self) -> tuple[str, str]:
        if self.origin is None:
            try:
                self.origin = self.receiver.origin_of(self)
            except PenstockError as error:
                raise ClientError(f"the origin of a message is malformed: {error}") from None
        return self.origin

    def accept(self) -> Over:
        """Remove the message from its queue."""
        self.receiver.accept(self)
        return OVER

    def reject(self, reason: str = "") -> Over:
        """Refuse the message for good: it is dead-lettered, or dropped if its queue has no dead letters.

        Over AMQP 1.0 the dead letter has the first 255 characters of `reason` in the header `x-rejected-description`;
        basic.nack of AMQP 0-9-1 has no field for a reason.
        """
        self.receiver.settle(self, REJECTED, reason)
        return OVER

    def release(self, delay: float | None = None) -> Over:
        """Return the message to its queue.

        Raises `ValueError` for a `delay`: no broker of these protocols delays a released message.
        """
        if delay:
            raise ValueError(
                f"a message cannot be released with a delay of {delay:g} s: neither protocol has one for deliveries; "
                f"release it later, or let the setting retry-delay of its queue delay failed deliveries"
            )
        self.receiver.settle(self, RELEASED)
        return OVER

    def modify(self, annotations: dict[str, object] | None = None, *, undeliverable_here: bool = False) -> Over:
        """Return the message to its queue as a counted failure; with `undeliverable_here` not for this receiver.

        `annotations` whose names begin with "x-" are added to the message. Raises `ValueError` for them over AMQP
        0-9-1, and for a value that AMQP does not have.
        """
        if annotations and not self.receiver.annotates:
            raise ValueError("annotations of a returned message need AMQP 1.0: basic.nack has no room for them")
        check_arguments("the annotation", annotations or {}, True)
        self.receiver.settle(self, MODIFIED, "undeliverable-here" if undeliverable_here else "", annotations)
        return OVER

    def forwarded(self, routing_key: str | None = None, exchange: str | None = None) -> Forwarded:
        """Return the message that a publisher sends to pass this one on: see `Publisher.forward`."""
        return Forwarded(self, routing_key, exchange)

    @override
    def passed_head(self, protocol: str) -> bytes | None:
        return self.receiver.passed_head(self) if self.receiver.engine.protocol == protocol else None

    @override
    def passed_content(self, protocol: str) -> bytes | None:
        return self.receiver.passed_content(self) if self.receiver.engine.protocol == protocol else None

    def forget(self) -> None:
        """Drop the content: the message can then only be settled. So many waiting messages need little memory."""
        self.body = self.head = self.envelope = b""
        self.decoded = self.origin = None

    def reply(self, answer: Body | Message) -> Over:
        """Send the answer to a call, to its `reply_to` and with its correlation id.

        The answer is sent as soon as there is room. It is dropped if its caller has ended, or if it waits for longer
        than a call. Raises `ValueError` for a message without `reply_to`, and `ClientError` above 1,000 waiting
        answers.
        """
        from penstock.client.engine.requester import send_reply  # Most receivers answer no calls.

        send_reply(self.receiver, self.properties, answer if isinstance(answer, Message) else Message(answer))
        return OVER

    def __repr__(self) -> str:
        return f"<Delivery of {len(self.body)} bytes>"


class ReceiverCore(Line):
    """Receiver of one protocol; a protocol subscribes, decodes and settles."""

    def __init__(self, engine: Engine, terms: ReceiverTerms) -> None:
        super().__init__(engine, terms.max_rate)
        self.engine = engine
        self.terms = terms
        self.ready: deque[Delivery] = deque()
        self.is_attached: bool = False
        self.is_draining: bool = terms.paused
        """True if no more messages are requested."""
        self.is_empty: bool = False
        """True if the last drain has shown that no message waits, as over AMQP 1.0 if there was credit."""
        self.error: Exception | None = None
        self.attached = Call("the subscription")
        self.asked: list[Call] = []
        """Unanswered requests; they end with the transport, or with the receiver."""
        self.unsettled_count: i64 = 0
        """Number of messages passed to the program and not settled."""
        self.to_acknowledge: i64 = 0
        """Number of accepted messages up to `last_accepted` that are not acknowledged to the broker."""
        self.octets_to_acknowledge: i64 = 0
        self.last_accepted: i64 = 0
        self.threshold: i64 = max(1, min(ACKS, terms.prefetch // 2)) if terms.prefetch > 0 else ACKS
        self.pulls: bool = terms.window_bytes == 0
        """True if each message is requested."""
        self.replies: PublisherCore | None = None
        """Publisher of answers; None before the first."""
        self.outcomes: list[int] = [0, 0, 0, 0]
        """Number of settled messages by outcome; of the accepted messages only the acknowledged."""
        self.annotates: bool = False
        """True if the protocol can add annotations to a message that is returned."""
        self.settled_count: int = 0
        """Number of passed messages that the broker had settled already, as for a browser."""
        self.lapsed: int = 0
        """Number of passed messages that were unsettled when the connection was lost."""
        self.unit: Unit | None = None
        """Transaction of the settlements; None outside of one."""

    # Implemented by a protocol

    def passed_head(self, delivery: Delivery) -> bytes | None:
        """Return the bytes before a message's body for another publisher of this protocol; see `Received`."""
        raise NotImplementedError

    def passed_content(self, delivery: Delivery) -> bytes | None:
        """Return a message whose body has no section of its own; see `Received`."""
        return None

    def attach(self) -> None:
        """Begin with the present transport."""
        raise NotImplementedError

    def pull(self) -> None:
        """Request messages, if that was not done: one if each is requested."""
        raise NotImplementedError

    def stop(self) -> Call:
        """Request no more messages; the call ends when none can arrive any more."""
        raise NotImplementedError

    def ask_available(self) -> Call:
        """Request the number of messages in the queue: `message_count` of the answer, None if unknown."""
        raise NotImplementedError

    def make_room(self) -> None:
        """Allow more messages if there is room, if the protocol does not do so by itself."""

    def handed_over(self, delivery: Delivery) -> None:
        """Handle that a message was passed to the program."""

    def extends(self, tag: i64) -> bool:
        """Return whether an accepted message extends the present range; the range may have to begin again."""
        raise NotImplementedError

    def _write_range(self) -> None:
        """Write the acknowledgement of all messages up to `last_accepted`."""
        raise NotImplementedError

    def write_outcome(self, tag: i64, outcome: i64, reason: str, annotations: dict[str, object] | None) -> None:
        """Write the outcome of one message; `annotations` are added to it, if the protocol has them."""
        raise NotImplementedError

    def detach(self) -> None:
        """Begin to close the channel or link."""
        raise NotImplementedError

    def properties_of(self, delivery: Delivery) -> Properties:
        """Return the properties of a message."""
        raise NotImplementedError

    def redelivered(self, delivery: Delivery) -> bool:
        """Return whether a message may have been delivered before."""
        raise NotImplementedError

    def origin_of(self, delivery: Delivery) -> tuple[str, str]:
        """Return the exchange and the routing key of a message; empty if unknown."""
        raise NotImplementedError

    # Messages

    @override
    def fits(self, size: i64) -> bool:
        return not self.is_slowed() and len(self.ready) > self.granted

    def arrived(self, delivery: Delivery) -> None:
        """Handle a message that has arrived."""
        self.ready.append(delivery)
        if self.line:
            self.grant()

    def take_now(self) -> Delivery | None:
        """Return a waiting message that is not promised; None without one. Raises the receiver's error at the end."""
        if self.is_free(0):
            return self._pop()
        if self.error is not None and not self.ready:
            raise self.error
        return None

    def _pop(self) -> Delivery:
        delivery = self.ready.popleft()
        if delivery.is_settled:
            self.settled_count += 1
            self.make_room()
        else:
            self.unsettled_count += 1
        self.handed_over(delivery)
        if self.bucket is not None:
            self.bucket.take(1.0, self.wakes.now)
        if self.line:
            self.grant()
            self.engine.wake_output()
        if self.is_draining and not self.ready:
            self._end_line()
        return delivery

    def receiving(self, timeout: float | None = None) -> Steps[Delivery | None]:
        """Wait for a message, at most `timeout` seconds (None: without a limit); None if none arrived, or at the
        end.
        """
        if self.is_free(0):
            return self._pop()
        if not self.ready:
            if self.error is not None:
                raise self.error
            if self.is_draining:
                return None
        wait = Wait(NEVER if timeout is None else self.wakes.now + timeout)
        self.stand(wait)
        if self.pulls and self.is_attached:
            self.pull()
        self.engine.wake_output()
        try:
            while True:
                yield wait
                wait.check()
                if wait.expired:
                    if self.pulls and not self.line:
                        yield from self._stopping()
                        if self.is_free(0):
                            return self._pop()
                    return None
                if self.take(wait):
                    return self._pop()
                if self.error is not None:
                    raise self.error
                self._end_line()
        except BaseException:
            self.leave(wait)
            if self.pulls and self.is_attached and not self.line:
                self.stop()
            raise

    def _asking(self, call: Call, timeout: float | None = None) -> Steps[Any]:
        """Wait for the answer to a request of this receiver. Raises the reason of its end, or the connection's loss."""
        self.asked.append(call)
        try:
            return (yield from self.engine.waiting(call, timeout))
        finally:
            self.asked.remove(call)

    def _stopping(self, timeout: float | None = None) -> Steps[None]:
        """Request no more messages, and wait until none can arrive, as after a loss of the connection."""
        with suppress(ConnectionLost):
            yield from self._asking(self.stop(), timeout)

    def _fail_asked(self, error: Exception) -> None:
        for call in self.asked:
            self.wakes.finish(call, error)

    # Settling

    def accept(self, delivery: Delivery) -> None:
        """Accept a message; the acknowledgement is sent together with others."""
        if self.engine.check_thread is not None:
            self.engine.check_thread()
        if delivery.is_settled or delivery.epoch != self.engine.epoch or self.error is not None:
            delivery.is_settled = True
            return
        delivery.is_settled = True
        self.unsettled_count -= 1
        tag = delivery.tag
        if self.extends(tag):
            self.last_accepted = tag
            self.to_acknowledge += 1
            self.octets_to_acknowledge += len(delivery.body)
            if self.to_acknowledge >= self.threshold or self.octets_to_acknowledge >= ACK_OCTETS:
                self.flush()
                self.engine.wake_output()
            elif self.to_acknowledge == 1 and not self.engine.is_scheduled:
                self.engine.schedule(True)
        else:
            self.write_outcome(tag, 0, "", None)
            self.outcomes[0] += 1
            self.engine.wake_output()

    def settle(
        self, delivery: Delivery, outcome: i64, reason: str = "", annotations: dict[str, object] | None = None
    ) -> None:
        """Settle a message with another outcome, at once."""
        if self.engine.check_thread is not None:
            self.engine.check_thread()
        if delivery.is_settled or delivery.epoch != self.engine.epoch or self.error is not None:
            delivery.is_settled = True
            return
        delivery.is_settled = True
        self.unsettled_count -= 1
        self.flush()
        tag = delivery.tag
        self.write_outcome(tag, outcome, reason, annotations)
        self.outcomes[outcome] += 1
        self.engine.wake_output()

    def flush(self) -> None:
        """Write the acknowledgement of the accepted messages."""
        if self.to_acknowledge > 0:
            self._write_range()
            self.outcomes[0] += int(self.to_acknowledge)
            self.to_acknowledge = 0
            self.octets_to_acknowledge = 0

    def counts(self) -> list[int]:
        """Return the values of `ReceiverCounters`, in order."""
        accepted = self.outcomes[0] + int(self.to_acknowledge)
        others = self.outcomes[1:]
        received = accepted + sum(others) + int(self.unsettled_count) + self.settled_count + self.lapsed
        return [received, accepted, *others]

    # Ends

    @override
    def on_deadline(self, now: float) -> float:
        following = self.expire(now)
        if self.line:
            self.grant()
            if self.bucket is not None and self.line and len(self.ready) > self.granted:
                following = min(following, max(self.bucket.ready_at(now), now + 0.001))
        return following

    def lose(self) -> None:
        """Handle a loss of the connection that will be retried: unsettled messages are delivered again.

        A transaction ends with the connection.
        """
        if self.unit is not None:
            self.ready.clear()
            self.end(self.unit.lost())
            return
        self.is_attached = False
        self._fail_asked(ConnectionLost(None, self.engine.lost_reason))
        self.ready.clear()
        self.lapsed += int(self.unsettled_count + self.to_acknowledge)
        self.unsettled_count = 0
        self.to_acknowledge = 0
        self.octets_to_acknowledge = 0

    def end(self, error: Exception) -> None:
        """End; messages that have arrived can still be received, and then `error` is raised."""
        if self.error is None:
            self.error = error
            if isinstance(error, ReceiverClosed):
                self.engine.events.append(Event(RECEIVER_CLOSED, self.terms.queue, error.reason))
        self.is_attached = False
        self.grant()
        self.fail_line(error)
        self.wakes.finish(self.attached, error)
        self._fail_asked(error)
        self.engine.forget_receiver(self)

    def draining(self, timeout: float | None = None) -> Steps[bool]:
        """Stop deliveries; messages that have arrived can be received, and then the receiver is at its end.

        Return whether the drain has shown that no message waits in the queue, which AMQP 0-9-1 cannot show.
        """
        if self.is_draining or self.error is not None:
            return False
        self.is_draining = True
        self.is_empty = False
        if self.is_attached:
            yield from self._stopping(timeout)
        self._end_line()
        return self.is_empty

    def _end_line(self) -> None:
        """End the waits at the end of a drained receiver: no more messages arrive."""
        wait = self.line.first
        while wait is not None and self.is_draining and not self.ready:
            self.line.remove(wait)
            wait.expired = True
            self.wakes.finish(wait)
            wait = self.line.first

    def resume(self) -> None:
        """Resume deliveries after `draining`; no effect without it."""
        if self.is_draining and self.error is None:
            self.is_draining = False
            if self.is_attached and (self.line or not self.pulls):
                self.pull()

    def counting(self, timeout: float | None = None) -> Steps[int | None]:
        """Return how many messages wait in the queue, and here for `receiving`; None if the broker does not answer in
        time.

        `timeout` in seconds (None: the time-out of requests).
        """
        if self.error is not None:
            raise self.error
        call = self.ask_available()
        try:
            yield from self._asking(call, timeout)
        except Timeout:
            return None
        count: int | None = call.value["message_count"]
        return None if count is None else count + len(self.ready)

    def getting(self) -> Steps[Delivery | None]:
        """Take a message that waits in the queue now; None without one. For a receiver that requests each message."""
        raise NotImplementedError

    def closing(self, timeout: float = CLOSE_WITHIN) -> Steps[None]:
        """Acknowledge accepted messages, send the answers, and close; all other messages return to their queue.

        The wait for messages under way, and for answers, takes at most `timeout` seconds together.
        """
        if self.error is not None:
            return
        deadline = self.wakes.now + timeout
        with suppress(Timeout):  # Later messages return to their queue.
            yield from self.draining(timeout)
        if self.replies is not None:
            from penstock.client.engine.requester import sending_replies

            yield from sending_replies(self.replies, max(deadline - self.wakes.now, 0.0))
        self.flush()
        if self.is_attached:
            self.detach()
            self.engine.wake_output()
        self.ready.clear()
        self.end(LinkClosed(None, "the receiver is closed"))
