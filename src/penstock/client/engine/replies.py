"""Answers to calls: each goes to the `reply_to` of a message, as soon as there is room; one, or a numbered list."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.client.engine.events import WARNING, Event
from penstock.client.engine.messages import Message
from penstock.client.engine.terms import PublisherTerms
from penstock.client.engine.waits import Steps, Wait
from penstock.client.errors import ClientError
from penstock.content.properties import Properties
from penstock.markers import override

if TYPE_CHECKING:
    from penstock.client.engine.publisher import PublisherCore
    from penstock.client.engine.receipt import Receipt
    from penstock.client.engine.receiver import ReceiverCore

REPLIES_MOST: Final = 1000
"""Most answers of a receiver that wait for room."""
WINDOW_BYTES: Final = 1024 * 1024
"""Most octets in answers that are not confirmed."""
NUMBER: Final = "penstock-answer"
"""Header of an answer in a list: its number from 1; 0 in a message that says that there are none."""
LAST: Final = "penstock-last-answer"
"""Header of the last answer of a list, which is true."""


class Reply(Wait):
    """Answer that waits for room."""

    def __init__(self, publisher: PublisherCore, message: Message, deadline: float) -> None:
        super().__init__(deadline, len(message.body))
        self.publisher = publisher
        self.message = message
        self.sent: Wait | None = None
        """Wait for the moment at which it is sent, or given up."""

    @override
    def release(self) -> None:
        """Send it; it waits again if its place has gone."""
        if self.error is None and not self.expired:
            if not self.publisher.take(self):
                return
            try:
                self.publisher.publish(self.message)
            except Exception as error:  # It cannot be encoded; nothing of it was written.
                text = f"an answer was not sent: {error}"
                self.publisher.engine.events.append(Event(WARNING, self.publisher.target(), text))
        if self.sent is not None:
            self.publisher.engine.finish(self.sent)


def sending_replies(replies: PublisherCore, limit: float) -> Steps[None]:
    """Wait until the answers that wait for room are sent, at most `limit` seconds."""
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

    Raises `MessageRefused` when one of them has come back: the caller has gone.
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
    """Return a message to the sender of another one, with the headers `marks`."""
    if not asked.reply_to:
        raise ValueError("the message asks for no answer: it has no reply_to")
    properties = Properties(**answer.properties.as_dict())  # type: ignore[arg-type]  # They come from there.
    if properties.correlation_id is None:
        properties.correlation_id = asked.correlation_id or asked.message_id
    if marks is not None:
        properties.headers = {**(properties.headers or {}), **marks}
    return Message(answer.body, properties=properties, routing_key=asked.reply_to)
