"""Relay of a bridge: messages of a receiver that a publisher passes on, each settled by its outcome.

Theory of operation. A relay is the `SendResult` of its messages, so they need no receipts: the publisher's window has
the `Forwarded` message, whose source is the delivery. A confirm accepts the delivery, and the receiver acknowledges in
ranges. A refused message stays unsettled until `return_refused`: its queue would deliver it again at once. A message
whose outcome is unknown returns to its queue, and is delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.client.engine.messages import Forwarded
from penstock.client.engine.outcomes import CONFIRMED, REFUSED
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import Delivery, ReceiverCore
from penstock.client.engine.waits import Steps, Wait
from penstock.client.engine.window import SendResult
from penstock.client.errors import MessageTooLarge
from penstock.flow.timers import NEVER
from penstock.markers import override

NO_REASON: Final = "it gives no reason"
"""Reason of a basic.nack, which has none."""
PRESSED_WINDOW: Final = 32
"""Most messages without an outcome after the target has stopped the publisher."""
FREE_S: Final = 1.0
"""Seconds after a stop until the publisher has its own window again."""
REASONS_MOST: Final = 10
"""Most different reasons of refusals that are kept."""


class Relay(SendResult):
    """Messages of one receiver that go to one publisher."""

    def __init__(
        self,
        receiver: ReceiverCore,
        publisher: PublisherCore,
        keeps_key: bool,
        prepare: Callable[[Delivery, Forwarded], bool] | None,
    ) -> None:
        """`keeps_key`: each message keeps its routing key.

        `prepare` is called with each message before it is sent. A message for which it returns False is not sent, and
        was settled by it.
        """
        super().__init__()
        self.receiver = receiver
        self.publisher = publisher
        self.keeps_key = keeps_key
        self.prepare = prepare
        self.bytes: int = 0
        """Bytes of the bodies of confirmed messages."""
        self.again: int = 0
        """Messages that the source has delivered before."""
        self.confirmed_at: float = 0.0
        """Time of the last confirmed message; 0 before the first."""
        self.refused_at: float = 0.0
        """Time of the last refused message; 0 before the first."""
        self.stops: int = 0
        """Number of stops of the publisher that were seen."""
        self.pressed_at: float = NEVER
        """Time at which the target had stopped the publisher last."""
        self.left: list[Delivery] = []
        """Deliveries that the target has refused, which are unsettled."""
        self.reasons: list[str] = []
        """Different reasons of refusals, the first ones."""
        self.reason: str = ""
        """Reason of the last refusal."""
        self.is_ending: bool = False
        """True once nothing more is sent: a refused message is then one that was withdrawn, and returns."""

    # Sending

    def move(self, most: i64) -> i64:
        """Pass on messages that have arrived, as far as there is room, at most so many; return their number."""
        receiver, publisher = self.receiver, self.publisher
        self._press()
        ready = receiver.ready
        count: i64 = 0
        while count < most and ready and publisher.is_free(len(ready[0].body)):
            delivery = receiver.take_now()
            if delivery is None:
                break
            self.again += delivery.redelivered
            self._send(delivery)
            count += 1
        return count

    def is_blocked(self) -> bool:
        """Return whether a message has arrived that has no room."""
        ready = self.receiver.ready
        return len(ready) > 0 and not self.publisher.is_free(len(ready[0].body))

    def moving(self, timeout: float) -> Steps[int]:
        """Wait for room for the next message, at most `timeout` seconds, and pass it on; return their number.

        Raises `FlowControlTimeout` then, and the error that has ended the publisher: the message was not sent.
        """
        ready, publisher = self.receiver.ready, self.publisher
        publisher.check()
        self._press()
        if self.is_blocked():
            yield from publisher.place(len(ready[0].body), timeout)
        return int(self.move(1))

    def _press(self) -> None:
        """Let the window follow the pressure: a stopped publisher sends a few messages at a time from then on.

        Over AMQP 0-9-1 a queue stops its publishers when it is full. With a whole window of messages in each burst, the
        last of several brokers would let the first one wait for seconds, and then take more than a second's messages.
        """
        publisher = self.publisher
        if publisher.by_links:
            return  # Credit is as exact as a window can be.
        if publisher.is_stopped or publisher.blocked_count != self.stops:
            self.stops = publisher.blocked_count
            self.pressed_at = publisher.wakes.now
            publisher.window = min(publisher.window, PRESSED_WINDOW)
        elif self.pressed_at != NEVER and publisher.wakes.now - self.pressed_at >= FREE_S:
            self.pressed_at = NEVER
            publisher.window = publisher.terms.window

    def _send(self, delivery: Delivery) -> None:
        """Send a message that has room, or refuse it if the target's protocol cannot carry a value, or its size."""
        message = delivery.forwarded(delivery.routing_key if self.keeps_key else None)
        try:
            if self.prepare is not None and not self.prepare(delivery, message):
                return
            self.publisher.size_of(message)
            self.publisher.publish_in(message, self)
        except (ValueError, MessageTooLarge) as error:
            self.refuse(delivery, str(error))

    # Waiting

    def waiting(self, timeout: float) -> Steps[None]:
        """Wait until a message has arrived, at most `timeout` seconds.

        The wait ends early when every message has its outcome, and by `wake`. Raises the error that has ended the
        receiver or the publisher.
        """
        receiver = self.receiver
        self.publisher.check()
        if receiver.error is not None:
            raise receiver.error
        wait = self.wait = Wait(receiver.wakes.now + timeout)
        receiver.stand(wait)
        receiver.grant()
        receiver.engine.wake_output()
        try:
            yield wait
            wait.check()
        finally:
            self.wait = None
            receiver.leave(wait)  # The message stays: `move` takes it.

    def finishing(self, timeout: float) -> Steps[None]:
        """Wait until every message has its outcome. Raises `ConfirmTimeout` if none has come for `timeout` seconds."""
        yield from self.publisher.finishing(self, timeout)

    def wake(self) -> None:
        """End the wait of `waiting`, if there is one."""
        if self.wait is not None:
            self.receiver.wakes.finish(self.wait)
            self.receiver.engine.wake_output()

    # Outcomes

    @override
    def settled(self, item: object, outcome: i64, index: i64, reason: str) -> None:
        assert isinstance(item, Forwarded)
        delivery = item.source
        assert isinstance(delivery, Delivery)
        if outcome == CONFIRMED:
            self.confirmed += 1
            self.bytes += len(delivery.body)
            self.confirmed_at = self.publisher.wakes.now
            delivery.accept()
        elif outcome != REFUSED:
            self.unknown += 1
            delivery.release()
        elif self.is_ending:
            delivery.release()
        else:
            self.refuse(delivery, reason or NO_REASON)

    def refuse(self, delivery: Delivery, reason: str) -> None:
        """Keep a message unsettled, because the target does not take it."""
        self.refused_count += 1
        self.refused_at = self.publisher.wakes.now
        self.left.append(delivery)
        self.reason = reason
        if reason not in self.reasons and len(self.reasons) < REASONS_MOST:
            self.reasons.append(reason)

    def send_left(self) -> bool:
        """Send the message again that was refused first, if there is room; return whether it was sent.

        If it is refused again, it is the last of them.
        """
        if not self.left or not self.publisher.is_free(len(self.left[0].body)):
            return False
        self._send(self.left.pop(0))
        return True

    def return_refused(self) -> None:
        """Return the refused messages to their queue."""
        left, self.left = self.left, []
        for delivery in left:
            delivery.release()
