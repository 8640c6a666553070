"""Answers to a call that asks for a list: the caller's side, with a queue of its own for them.

The service numbers its answers and marks the last one (`replies.py`). They wait in an exclusive queue, whose capacity
and the receiver's window bound them: a service that is faster than the caller waits for room. One deadline holds for
the call and for all answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.client.engine.messages import Message
from penstock.client.engine.replies import LAST, NUMBER
from penstock.client.engine.terms import ReceiverTerms
from penstock.client.engine.waits import Call, Steps
from penstock.client.errors import ClientError, Timeout

if TYPE_CHECKING:
    from penstock.client.engine.connection import Engine
    from penstock.client.engine.receiver import ReceiverCore
    from penstock.client.engine.requester import Requester


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
        """Correlation id of the call, and so of its answers; empty before it is sent."""
        self.taken: int = 0
        """Answers that have come."""
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
            found = yield from receiver.receiving(self._left())
            if found is None:
                raise Timeout(f"no end of the answers of {self.requester} within {self.limit:g} s; {self.taken} came")
            found.accept()
            if found.properties.correlation_id != self.number:
                continue
            number = found.headers.get(NUMBER)
            self.is_over = number is None or found.headers.get(LAST) is True
            if number == 0:
                break  # There are none.
            self.taken += 1
            if number is not None and number != self.taken:
                raise ClientError(f"answer {self.taken} of {self.requester} is missing: {number} came in its place")
            return (Message(found.body, properties=found.properties),)
        return ()

    def _begin(self) -> Steps[None]:
        """Make the queue of the answers, and send the call."""
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
        """Forget the call and the answers that are left; the queue goes with its receiver."""
        if self.requester is not None and self.number:
            self.requester.forget(self.call, self.number)
        if self.receiver is not None:
            yield from self.receiver.closing()
