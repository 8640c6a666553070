"""Requester of the client: calls that are messages, and their answers, one or a numbered list.

A message is sent with a correlation id, and with the address for the answer: direct reply-to of AMQP 0-9-1, a dynamic
node of AMQP 1.0. A call waits for a place among the unanswered calls, and then for its answer; one deadline limits both
waits. A later answer is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from mypy_extensions import i64

from penstock.client.engine.connection import Engine
from penstock.client.engine.events import WARNING, Event
from penstock.client.engine.headers import check_properties
from penstock.client.engine.messages import Message
from penstock.client.engine.outcomes import MessageRefused, Receipt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.engine.waits import Call, Line, Steps, Wait
from penstock.client.errors import ClientError, Timeout
from penstock.content.properties import Properties
from penstock.flow.timers import NEVER
from penstock.markers import override

CALLS_MOST: Final = 1000
"""Most unanswered calls of a connection to one target; further calls wait."""


class Requester(Line):
    """Calls to one target: an exchange and a routing key; a protocol adds a channel or links."""

    def __init__(self, engine: Engine, exchange: str, key: str) -> None:
        super().__init__(engine)
        self.engine = engine
        self.exchange = exchange
        self.key = key
        self.epoch: i64 = 0
        """Transport on which the requester is attached; 0 for none."""
        self.number: int = 0
        self.open: dict[str, Call] = {}
        """Calls without an answer, by correlation id."""

    # Implemented by a protocol

    def attach(self) -> None:
        """Open the channel or the links; calls may follow at once."""
        raise NotImplementedError

    def write(self, message: Message, number: str, reply_to: str) -> None:
        """Write a call, or queue it until it may be written; without a `reply_to` the answer is sent here."""
        raise NotImplementedError

    def drop(self, number: str) -> str:
        """Forget a call whose deadline has passed; return why it is not written, empty if it is."""
        raise NotImplementedError

    def detach(self) -> None:
        """Close the channel or the links."""
        raise NotImplementedError

    # Calls

    @override
    def fits(self, size: i64) -> bool:
        return len(self.open) + self.granted < CALLS_MOST

    @override
    def on_deadline(self, now: float) -> float:
        return self.expire(now)

    def calling(self, message: bytes | Message, timeout: float | None = None) -> Steps[Message]:
        """Send a message, and return the answer to it. Raises `Timeout` after `timeout` seconds (None: the option)."""
        engine = self.engine
        limit = engine.terms.call_timeout if timeout is None else timeout
        deadline = engine.now + limit
        call = Call(f"a call of {self}")
        number = yield from self.asking(call, message, deadline, limit)
        reason = ""
        try:
            ended = yield from engine.until(call, deadline - engine.now)
        finally:
            reason = self.forget(call, number)
        if not ended:
            raise Timeout(f"no answer to {call.what} within {limit:g} s{reason}")
        answer: Message = call.value
        return answer

    def asking(
        self, call: Call, message: bytes | Message, deadline: float, limit: float, reply_to: str = ""
    ) -> Steps[str]:
        """Send a message when there is a place, and return its correlation id; `call` ends with the answer or an
        error.
        """
        engine = self.engine
        if isinstance(message, Message):
            check_properties(message.properties, engine.protocol == "amqp10")
        if not self.is_free(0):
            yield from self._place(deadline, limit)
        engine.check_open()
        if self.epoch != engine.epoch:
            self.attach()
            self.epoch = engine.epoch
        self.number += 1
        number = f"{engine.epoch}.{self.number}"
        self.open[number] = call
        engine.calls.append(call)
        try:
            self.write(_with_deadline(message, deadline - engine.now), number, reply_to)
        except BaseException:
            self.forget(call, number)
            raise
        engine.wake_output()
        return number

    def forget(self, call: Call, number: str) -> str:
        """Make room for another call; return why this call was not written, empty if it was."""
        engine = self.engine
        if call in engine.calls:
            engine.calls.remove(call)
        reason = self.drop(number) if self.open.pop(number, None) is not None else ""
        self.grant()
        engine.wake_output()
        return reason

    def _place(self, deadline: float, limit: float) -> Steps[None]:
        wait = Wait(deadline)
        self.stand(wait)
        try:
            while True:
                yield wait
                wait.check()
                if wait.expired:
                    raise Timeout(f"no call of {self} was sent within {limit:g} s: {CALLS_MOST} have no answer")
                if self.take(wait):
                    return
        except BaseException:
            self.leave(wait)
            raise

    def answered(self, number: str | None, body: bytes, properties: Properties) -> None:
        """Handle an answer."""
        call = self.open.pop(number or "", None)
        if call is None:
            self.engine.services.drop_answer()
            return
        call.value = Message(body, properties=properties)
        self.engine.finish(call)
        self.grant()

    def refused(self, number: str | None, reason: str) -> None:
        """Handle the refusal of a call that reached no queue."""
        call = self.open.pop(number or "", None)
        if call is not None:
            self.engine.finish(call, MessageRefused(reason))
            self.grant()

    def fail(self, error: ClientError) -> None:
        """Fail all calls: the channel or a link was refused or closed. The next call opens another."""
        self.epoch = 0
        calls, self.open = self.open, {}
        for call in calls.values():
            self.engine.finish(call, error)
        self.grant()

    def __str__(self) -> str:
        if not self.exchange:
            return f"queue {self.key}"
        return f"exchange {self.exchange}" + (f" with routing key {self.key}" if self.key else "")


def _with_deadline(message: bytes | Message, seconds: float) -> Message:
    """Return a message that expires with its call, unless it has an own expiration."""
    if not isinstance(message, Message):
        return Message(message, expiration=max(seconds, 0.001))
    properties = message.properties
    if properties.expiration is not None or seconds == NEVER:
        return message
    own = properties.copy()
    own.expiration = str(max(round(seconds * 1000), 1))
    return Message(message.body, properties=own)


REPLIES_MOST: Final = 1000
"""Most answers of a receiver that wait for room."""
WINDOW_BYTES: Final = 1024 * 1024
"""Most bytes of unconfirmed answers."""
NUMBER: Final = "penstock-answer"
"""Header of an answer in a list: its number from 1; 0 in a message for an empty list."""
LAST: Final = "penstock-last-answer"
"""Header of the last answer of a list, which is true."""


class Reply(Wait):
    """Answer that waits for room."""

    def __init__(self, publisher: PublisherCore, message: Message, deadline: float) -> None:
        super().__init__(deadline, len(message.body))
        self.publisher = publisher
        self.message = message
        self.sent: Wait | None = None
        """Wait until the answer is sent, or dropped."""

    @override
    def release(self) -> None:
        """Send the answer; it waits again if its place was lost."""
        if self.error is None and not self.expired:
            if not self.publisher.take(self):
                return
            try:
                self.publisher.publish(self.message)
            except Exception as error:  # The answer cannot be encoded; nothing was written.
                text = f"an answer was not sent: {error}"
                self.publisher.engine.events.append(Event(WARNING, self.publisher.target(), text))
        if self.sent is not None:
            self.publisher.engine.finish(self.sent)


def sending_replies(replies: PublisherCore, limit: float) -> Steps[None]:
    """Wait until all waiting answers are sent, at most `limit` seconds."""
    last = replies.line.last or replies.handed.last
    if isinstance(last, Reply):
        last.sent = last.sent or Wait()
        yield from replies.engine.until(last.sent, limit)


def send_reply(receiver: ReceiverCore, asked: Properties, answer: Message) -> None:
    """Send the answer to a message with these properties; see `Delivery.reply`."""
    message = _reply_to(asked, answer)
    engine, replies = receiver.engine, _publisher(receiver)
    if len(replies.line) >= REPLIES_MOST:
        raise ClientError(f"{REPLIES_MOST} answers wait for room: {replies.describe()}")
    size = replies.size_of(message)
    if replies.is_free(size):
        replies.publish(message)
    else:
        replies.stand(Reply(replies, message, engine.now + engine.terms.call_timeout))


def sending_list(
    receiver: ReceiverCore, asked: Properties, answers: Iterable[bytes | Message], timeout: float | None
) -> Steps[int]:
    """Send numbered answers, the last one marked, each when there is room; return their number.

    Raises `MessageRefused` when an answer was returned, because the caller has ended.
    """
    replies = _publisher(receiver)
    under_way: deque[Receipt] = deque()
    number = 0
    items = iter(answers)
    item = next(items, None)
    while True:
        following = None if item is None else next(items, None)
        marks: dict[str, object] = {
            NUMBER: 0 if item is None else number + 1,
            **({LAST: True} if following is None else {}),
        }
        answer = item if isinstance(item, Message) else Message(item or b"")
        receipt = yield from replies.publishing(_reply_to(asked, answer, marks), timeout)
        under_way.append(receipt)
        while under_way and under_way[0].done:
            under_way.popleft().check()
        number += item is not None
        if following is None:
            return number
        item = following


def _publisher(receiver: ReceiverCore) -> PublisherCore:
    """Return the publisher of a receiver's answers."""
    replies = receiver.replies
    if replies is None or replies.error is not None:
        terms = PublisherTerms(durable=False, window_bytes=WINDOW_BYTES)
        replies = receiver.replies = receiver.engine.publisher(terms)
    return replies


def _reply_to(asked: Properties, answer: Message, marks: dict[str, object] | None = None) -> Message:
    """Return a message to the sender of another message, with the headers `marks`."""
    if not asked.reply_to:
        raise ValueError("the message asks for no answer: it has no reply_to")
    properties = answer.properties.copy()
    if properties.correlation_id is None:
        properties.correlation_id = asked.correlation_id or asked.message_id
    if marks is not None:
        properties.headers = {**(properties.headers or {}), **marks}
    return Message(answer.body, properties=properties, routing_key=asked.reply_to)


class AnswerList:
    """Answers to one call."""

    def __init__(
        self, engine: Engine, exchange: str, key: str, message: bytes | Message, timeout: float | None
    ) -> None:
        self.engine = engine
        self.exchange = exchange
        self.key = key
        self.message = message
        self.limit: float = engine.terms.call_timeout if timeout is None else timeout
        self.deadline: float = 0.0
        self.number: str = ""
        """Correlation id of the call and its answers; empty before the call is sent."""
        self.taken: int = 0
        """Number of answers received."""
        self.is_over: bool = False
        self.receiver: ReceiverCore | None = None
        self.requester: Requester | None = None
        self.call = Call("a list of answers")

    def following(self) -> Steps[Sequence[Message]]:
        """Return the next answer; nothing after the last one."""
        if not self.number:
            yield from self._begin()
        receiver = self.receiver
        assert receiver is not None
        while not self.is_over:
            self.call.check()
            messages = yield from receiver.receiving(self._left())
            if messages is None:
                raise Timeout(f"no end of the answers of {self.requester} within {self.limit:g} s; {self.taken} came")
            messages.accept()
            if messages.properties.correlation_id != self.number:
                continue
            number = messages.headers.get(NUMBER)
            self.is_over = number is None or messages.headers.get(LAST) is True
            if number == 0:
                break  # The list is empty.
            self.taken += 1
            if number is not None and number != self.taken:
                raise ClientError(f"answer {self.taken} of {self.requester} is missing: {number} came in its place")
            return (Message(messages.body, properties=messages.properties),)
        return ()

    def _begin(self) -> Steps[None]:
        """Create the queue of the answers, and send the call."""
        engine = self.engine
        self.deadline = engine.now + self.limit
        queue = engine.services.new_name(engine)
        fields = {"queue": queue, "durable": False, "exclusive": True, "auto_delete": True, "arguments": {}}
        yield from engine.calling("queue.declare", fields, self._left())
        receiver = self.receiver = engine.receiver(ReceiverTerms(queue=queue))
        yield from engine.waiting(receiver.attached, self._left())
        self.call.failed = receiver.fail_line
        requester = self.requester = engine.services.requester(engine, self.exchange, self.key)
        self.number = yield from requester.asking(self.call, self.message, self.deadline, self.limit, queue)

    def _left(self) -> float:
        return max(self.deadline - self.engine.now, 0.0)

    def closing(self) -> Steps[None]:
        """Forget the call and the remaining answers; the queue is deleted with its receiver."""
        if self.requester is not None and self.number:
            self.requester.forget(self.call, self.number)
        if self.receiver is not None:
            yield from self.receiver.closing()
