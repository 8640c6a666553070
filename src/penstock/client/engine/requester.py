"""Requester of the client: calls that are messages, and their answers.

A message is sent with a correlation id, and with the address to which its receiver answers: direct reply-to of AMQP
0-9-1, a dynamic node of AMQP 1.0. A call waits for a place among those without an answer, and then for its answer; one
deadline holds for both. An answer that comes later is dropped and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.client.engine.failures import MessageRefused
from penstock.client.engine.messages import Message
from penstock.client.engine.waits import Call, Line, Steps, Wait
from penstock.client.errors import ClientError, Timeout
from penstock.content.properties import Properties
from penstock.flow.timers import NEVER
from penstock.markers import override

if TYPE_CHECKING:
    from penstock.client.engine.connection import Engine

CALLS_MOST: Final = 1000
"""Most calls of a connection to one target without an answer; further ones wait."""
TARGETS_MOST: Final = 64
"""Most targets that a connection calls at the same time; one that is idle makes room for another."""


class Requester(Line):
    """Calls to one target: an exchange and a routing key; a protocol has a channel or links for them."""

    def __init__(self, engine: Engine, exchange: str, key: str) -> None:
        super().__init__(engine)
        self.engine = engine
        self.exchange = exchange
        self.key = key
        self.epoch: i64 = 0
        """Transport on which it is attached; 0 for none."""
        self.number: int = 0
        self.open: dict[str, Call] = {}
        """Calls without an answer, by correlation id."""

    # What a protocol does

    def attach(self) -> None:
        """Open the channel or the links; calls may follow at once."""
        raise NotImplementedError

    def write(self, message: Message, number: str, reply_to: str) -> None:
        """Write a call, or let it wait until it may be written; without a `reply_to` the answer comes here."""
        raise NotImplementedError

    def drop(self, number: str) -> str:
        """Forget a call whose deadline is over; return why it is not written, empty if it is."""
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
        """Send a message when there is a place, and return its correlation id; `call` ends with its answer or error."""
        engine = self.engine
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
        """Make room for another call; return why this one was not written, empty if it was."""
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
        """Take an answer."""
        call = self.open.pop(number or "", None)
        if call is None:
            self.engine.services.late_answers += 1
            return
        call.value = Message(body, properties=properties)
        self.engine.finish(call)
        self.grant()

    def refused(self, number: str | None, reason: str) -> None:
        """Take the refusal of a call: it reached no queue."""
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


class Services:
    """Targets that a connection calls, and the names of queues that it needs for itself."""

    def __init__(self) -> None:
        self.names: int = 0
        """Names of queues that were given away."""
        self.late_answers: int = 0
        """Answers that came after the deadline of their calls."""
        self.requesters: dict[tuple[str, str], Requester] = {}
        """Requesters by exchange and routing key, the one that was used last at the end."""

    def new_name(self, engine: Engine) -> str:
        """Return the name of a queue that no other connection has: AMQP 1.0 lets no broker choose one."""
        self.names += 1
        return f"client-{engine.terms.producer or engine.terms.container}-{self.names}"

    def requester(self, engine: Engine, exchange: str, key: str) -> Requester:
        """Return the requester of a target. Raises `ClientError` when all that there may be are in use."""
        found = self.requesters.pop((exchange, key), None)
        if found is None:
            if len(self.requesters) >= TARGETS_MOST:
                self._close_idle(engine)
            found = engine.requester(exchange, key)
        self.requesters[exchange, key] = found
        return found

    def _close_idle(self, engine: Engine) -> None:
        for place, requester in self.requesters.items():
            if not requester.open and not requester.line and requester.granted == 0:
                del self.requesters[place]
                if requester.epoch == engine.epoch:
                    requester.detach()
                return
        raise ClientError(f"{TARGETS_MOST} targets have calls without an answer, the most of a connection")


def _with_deadline(message: bytes | Message, seconds: float) -> Message:
    """Return a message that expires with its call, unless it says when."""
    if not isinstance(message, Message):
        return Message(message, expiration=max(seconds, 0.001))
    properties = message.properties
    if properties.expiration is not None or seconds == NEVER:
        return message
    own = Properties(**properties.as_dict())  # type: ignore[arg-type]  # They come from there.
    own.expiration = str(max(round(seconds * 1000), 1))
    return Message(message.body, properties=own)
