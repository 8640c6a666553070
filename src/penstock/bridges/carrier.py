"""Carrier: takes messages of one queue and passes them on, one confirm for each acknowledgement.

Theory of operation. A delivery is accepted when the target has confirmed it, so no message is lost; after a lost
connection some may be at the target twice. The carrier has no more messages on their way than the target gives room
for, and no more from the source than its prefetch: a target that is full holds the source's queue, and that its
producers. What the target refuses stays unsettled: it returns to the source at the end, or is tried again.

One task carries, and another tries refused messages again. `run` watches both, the connections and the state.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.bridges.ends import End
from penstock.bridges.hops import with_hop
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED, State
from penstock.client.aio import Connection, Publisher, Receiver
from penstock.client.engine import outcomes
from penstock.client.engine.events import CLOSED, LOST, RECONNECTED, Event
from penstock.client.engine.messages import Forwarded, Message
from penstock.client.engine.outcomes import NO_ROUTE, Blocked, FlowControlTimeout, Receipt, no_route
from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ClientError, MessageTooLarge
from penstock.client.options import Options
from penstock.errors import PenstockError

PREFETCH: Final = 2000
"""Messages of the source that are on their way at most."""
REFUSED_MOST: Final = 1000
"""Most refused messages that a carrier keeps unsettled: it ends at one more, or takes no other while it tries again."""
EMPTY_S: Final = 2.0
"""Seconds without a message after which a queue counts as empty."""
LOOK_S: Final = 0.5
"""Seconds between two looks at the state."""
LAG_S: Final = 5.0
"""Seconds between two questions how many messages the source has, while messages move or are held."""
ENDING_S: Final = 10.0
"""Most seconds in which the end waits for confirms of messages on their way."""
CLOSE_S: Final = 5.0
"""Most seconds for the close of a connection."""
QUIET_S: Final = 86_400
"""Seconds that the client waits for room before it warns: the carrier says by itself what holds it."""
RETRY_S: Final = 1.0
RETRY_MOST_S: Final = 30.0
"""Seconds until a refused message is tried again: at first, and at most, as the pause doubles with each refusal."""
ON_CONFIRM: Final = "on-confirm"
ON_PUBLISH: Final = "on-publish"
NO_ACK: Final = "no-ack"
"""Moments at which a message leaves its queue: confirmed by the target, sent to it, or received."""

Setup = Callable[[Connection], Coroutine[Any, Any, str]]
"""Function that prepares an end on its open connection. It returns the name of the queue; empty for an exchange."""
Change = Callable[[Forwarded, Delivery], None]
"""Function that changes a message before it is sent."""


@dataclass
class Terms:
    """Conditions of a carrier: what it carries, how, and when it ends."""

    count: int | None = None
    """Number of messages after which it ends; None for no end."""
    selector: str = ""
    """Selector that messages must match; empty for all."""
    until_empty: bool = False
    """True to end when the source has no message for `EMPTY_S`."""
    with_hops: bool = False
    """True to write the source into the header x-received-from."""
    prefetch: int = PREFETCH
    ack_mode: str = ON_CONFIRM
    tries_again: bool = False
    """True to try refused messages again for as long as it runs."""
    counts_first: bool = False
    """True to end after as many messages as the source has at the beginning."""
    keeps_target: bool = False
    """True to send each message to the exchange and key with which it was published at the source."""
    change: Change | None = None
    source_setup: Setup | None = None
    target_setup: Setup | None = None
    consumer_arguments: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the consumer, over AMQP 0-9-1."""
    look_s: float = LOOK_S


NO_REASON: Final = "it gives no reason"
"""Reason of a basic.nack, which has none."""
NOUNS: Final = ("the source", "the target")
SILENT: Final = 0.6
"""Part of the time after which a silent connection is given up: from then on it is reported as silent."""


class TooManyRefused(ClientError):
    """The target has refused so many messages that the carrier has ended."""


class EndLost(ClientError):
    """The connection to the source or the target could not be opened, or is lost."""


class Carrier:
    """Carrier between two ends. `run` carries; `stop` lets it end."""

    def __init__(
        self, source: End, target: End, old: Options, new: Options, terms: Terms, state: State | None = None
    ) -> None:
        """`old` and `new` are the options of the connections to the source and the target."""
        self._source = source
        self._target = target
        self._options = (old, new)
        self._terms = terms
        self.state = State() if state is None else state
        self.lag: int | None = None
        """Messages in the source when it was asked last; None if unknown."""
        self._left: deque[Delivery] = deque()
        """Deliveries that the target has refused, the next to be tried again first."""
        self._underway = 0
        self._taken = 0
        self._settled = asyncio.Event()
        """Set at each outcome."""
        self._stopping = asyncio.Event()
        self._broken = asyncio.Event()
        """Set when a connection is lost for good."""
        self._ending = False
        """True once nothing more is sent: refusals are then of messages that were taken back."""
        self._away: dict[str, str] = {}
        """Reasons by the end whose connection is lost."""
        self._refused_at = 0.0
        """Time of the last refusal; 0 before the first."""
        self._reason = ""
        """Reason of the last refusal."""
        self._pause = RETRY_S
        """Seconds until the next refused message is tried again."""
        self._passed_at = 0.0
        """Time at which the last message was taken."""
        self._count = terms.count
        self._is_to_empty = terms.until_empty
        self._connections: dict[str, Connection] = {}
        """Open connections by their end."""
        self._length: Callable[[], Coroutine[Any, Any, int | None]] | None = None
        """Function that asks how many messages the source has; None if it does not tell."""

    @property
    def underway(self) -> int:
        """Return the number of messages that were sent and have no outcome: they may be in both queues."""
        return self._underway

    def stop(self) -> None:
        """Take no more messages, and end when those on their way have their outcomes."""
        self._stopping.set()

    async def run(self) -> State:
        """Carry until the end that the terms give, or `stop`. Raises `PenstockError` as the client does."""
        async with AsyncExitStack() as stack:
            new = await self._opened(1, stack)
            old = await self._opened(0, stack)
            publisher = await self._publisher(new)
            receiver = await self._receiver(old)
            if receiver is not None:
                await self._carried(receiver, publisher)
        return self.state

    # Ends

    async def _opened(self, index: int, stack: AsyncExitStack) -> Connection:
        noun, connection = NOUNS[index], Connection(self._options[index])

        def heard(event: Event) -> None:
            if event.kind in (LOST, CLOSED):
                self._away[noun] = event.reason
            elif event.kind == RECONNECTED:
                self._away.pop(noun, None)
            if event.kind == CLOSED:
                self._broken.set()

        async def close() -> None:
            with suppress(PenstockError):
                await connection.close(CLOSE_S)

        connection.on_event(heard)
        try:
            await connection
        except PenstockError as error:
            raise EndLost(f"{noun} cannot be reached: {error}") from error
        stack.push_async_callback(close)
        self._connections[noun] = connection
        return connection

    async def _publisher(self, new: Connection) -> Publisher:
        target, terms = self._target, self._terms
        queue = target.queue
        if terms.target_setup is not None:
            queue = await terms.target_setup(new)
        elif queue and new.protocol == "amqp091":  # Over AMQP 1.0 the link is refused.
            await new.run(new.core().calling("queue.declare", {"queue": queue, "passive": True}))
        return new.publisher(
            queue,
            exchange="" if queue else target.exchange,
            routing_key="" if queue else target.key or "",
            durable=False,
            flow_control_wait_notify_period=QUIET_S,
        )

    async def _receiver(self, old: Connection) -> Receiver | None:
        """Return the receiver of the source; None if there is nothing to carry."""
        terms, queue = self._terms, self._source.queue
        if terms.source_setup is not None:
            queue = await terms.source_setup(old)
        if terms.counts_first:
            self._count = await _length_of(old, queue)
            self._is_to_empty = self._count is None
            if self._count == 0:
                return None
        most = min(terms.prefetch, self._count or terms.prefetch)
        given = old.options.receiver_terms(queue, {"prefetch": most, "selector": terms.selector})
        given = given._replace(arguments=terms.consumer_arguments)
        receiver = Receiver(old, queue, lambda: old.core().receiver(given))
        await receiver
        if old.protocol == "amqp091":
            self._length = lambda: _length_of(old, queue)
        else:
            self._length = lambda: receiver.count(LOOK_S)
        return receiver

    # Carrying

    async def _carried(self, receiver: Receiver, publisher: Publisher) -> None:
        """Carry, and end in order."""
        tasks = [asyncio.ensure_future(each) for each in self._tasks(receiver, publisher)]
        try:
            await self._watch(tasks, publisher)
        finally:
            self._ending = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end(publisher)

    def _tasks(self, receiver: Receiver, publisher: Publisher) -> list[Coroutine[Any, Any, None]]:
        """Return the tasks that run until the end; the carrier ends with the first of them that does."""
        tasks = [self._carry(receiver, publisher), self._measure()]
        if self._terms.tries_again:
            tasks.append(self._try_again(publisher))
        return tasks

    async def _watch(self, tasks: list[asyncio.Task[None]], publisher: Publisher) -> None:
        """Look at the state until the end: by the terms, by `stop`, or because a connection is lost."""
        loop = asyncio.get_running_loop()
        self._passed_at = loop.time()
        others = [asyncio.ensure_future(event.wait()) for event in (self._stopping, self._broken)]
        try:
            while True:
                await asyncio.wait((*tasks, *others), timeout=self._terms.look_s, return_when=asyncio.FIRST_COMPLETED)
                self._look(publisher)
                if self._stopping.is_set():
                    return
                if self._broken.is_set():
                    noun, reason = next(iter(self._away.items()))
                    raise EndLost(f"{noun} is away: {reason}")
                if len(self._left) > REFUSED_MOST and not self._terms.tries_again:
                    raise TooManyRefused(
                        f"more than {REFUSED_MOST:,} messages were refused by {self._target}: {self._reason}"
                    )
                for task in tasks:
                    if task.done():
                        task.result()
                        return
                if self._underway or self._away or (self._left and self._terms.tries_again):
                    self._passed_at = loop.time()
                elif self._is_to_empty and loop.time() - self._passed_at >= EMPTY_S:
                    return
        finally:
            for each in others:
                each.cancel()

    async def _measure(self) -> None:
        """Ask how many messages the source has, while there are some; a source that does not tell is not asked again.

        The task runs until it is cancelled.
        """
        while self._length is not None:
            try:
                self.lag = await self._length()
            except PenstockError:
                self.lag = None
                break
            await asyncio.sleep(LAG_S)
            while self.state.name == IDLE:
                self.lag = 0
                await asyncio.sleep(LAG_S)
        await asyncio.Event().wait()

    async def _carry(self, receiver: Receiver, publisher: Publisher) -> None:
        """Take messages and pass them on. Returns when as many were carried as the terms say."""
        while self._count is None or self._taken < self._count:
            while len(self._left) >= REFUSED_MOST and self._terms.tries_again:
                await self._outcome()
            delivery = receiver.receive_nowait() or await receiver.receive()
            if delivery is None:
                return
            await self._take(delivery, publisher)
        while self._underway:
            await self._outcome()

    async def _take(self, delivery: Delivery, publisher: Publisher) -> None:
        """Pass on a message that has arrived."""
        self._taken += 1
        self.state.again += delivery.redelivered
        if self._terms.ack_mode == NO_ACK:
            delivery.accept()
        try:
            await self._pass_on(delivery, publisher)
        except BaseException:
            self._taken -= 1
            delivery.release()
            raise
        self._passed_at = asyncio.get_running_loop().time()

    async def _pass_on(self, delivery: Delivery, publisher: Publisher) -> None:
        """Send one message as soon as there is room; a cancelled call has sent nothing."""
        try:
            message = self._message_of(delivery)
            receipt = publisher.try_publish(message)
            while isinstance(receipt, Blocked):
                with suppress(FlowControlTimeout):
                    receipt = await publisher.publish(message, timeout=QUIET_S)
        except (ValueError, MessageTooLarge) as error:  # The target's protocol cannot carry a value, or its size.
            self._refuse(delivery, str(error))
            return
        self._underway += 1
        if self._terms.ack_mode == ON_PUBLISH:
            delivery.accept()
        loop = asyncio.get_running_loop()
        receipt.add_callback(lambda receipt: self._settle(receipt, delivery, loop.time()))

    def _message_of(self, delivery: Delivery) -> Message:
        """Return the message that is sent for a delivery."""
        terms = self._terms
        if terms.keeps_target:
            message = delivery.forwarded(delivery.routing_key, delivery.exchange)
        elif self._target.queue:
            message = delivery.forwarded(None)
        else:
            message = delivery.forwarded(delivery.routing_key if self._target.key is None else self._target.key)
        if terms.with_hops:
            message.properties = with_hop(message.properties, self._source, delivery.redelivered)
        if terms.change is not None:
            terms.change(message, delivery)
        return message

    def _settle(self, receipt: Receipt, delivery: Delivery, now: float) -> None:
        self._underway -= 1
        self._settled.set()
        if receipt.outcome == outcomes.CONFIRMED:
            delivery.accept()
            self.state.confirmed(len(delivery.body), now)
            if self.state.name != MOVING:
                self.state.change(MOVING, "", now)
        elif self._ending:
            delivery.release()
        elif receipt.outcome == outcomes.REFUSED:
            reason = receipt.reason or NO_REASON
            self._refuse(delivery, no_route(receipt) + reason if reason == NO_ROUTE else reason)

    async def _outcome(self, seconds: float | None = None) -> None:
        """Wait for the next outcome, at most so long."""
        self._settled.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), seconds)

    # Refused messages

    def _refuse(self, delivery: Delivery, reason: str) -> None:
        if self._terms.ack_mode == ON_CONFIRM:  # Otherwise it has left its queue, and is lost.
            self._left.append(delivery)
        self.state.refuse(reason)
        self._reason = reason
        self._refused_at = asyncio.get_running_loop().time()
        self._settled.set()

    async def _try_again(self, publisher: Publisher) -> None:
        """Send refused messages again: one after each pause, and all once one was taken."""
        while True:
            while not self._left:
                await self._outcome()
            await asyncio.sleep(random.uniform(self._pause / 2, self._pause))
            self._pause = min(self._pause * 2, RETRY_MOST_S)
            before = self.state.carried
            waiting = len(self._left)
            for number in range(waiting):
                delivery = self._left.popleft()
                try:
                    await self._pass_on(delivery, publisher)
                except BaseException:
                    delivery.release()
                    raise
                if number == 0:
                    while self._underway and self.state.carried == before and delivery not in self._left:
                        await self._outcome()
                if self.state.carried == before:
                    if self._terms.target_setup is not None and self._reason.endswith(NO_ROUTE):
                        raise EndLost(f"{self._target} is gone: {self._reason}")
                    break
                self._pause = RETRY_S

    # State

    def _look(self, publisher: Publisher) -> None:
        """Set the state from what was seen last."""
        now, state = asyncio.get_running_loop().time(), self.state
        blocked = publisher.blocked
        away = self._away or self._silent(now)
        if away:
            noun, reason = next(iter(away.items()))
            state.change(AWAY, f"{noun} is away: {reason}", now)
        elif self._refused_at and (self._refused_at >= state.last or now - self._refused_at < EMPTY_S):
            state.change(REFUSED, f"{self._target} refuses: {state.reasons[-1]}", now)
        elif blocked is not None and (self._underway or blocked.queue is not None):
            state.change(HELD, f"{self._target} has no room: {blocked.reason}", now)
        elif state.last and now - state.last < EMPTY_S:
            state.change(MOVING, "", now)
        elif self._underway:
            state.change(HELD, f"{self._target} has not confirmed {self._underway:,} messages", now)
        else:
            state.change(IDLE, "", now)

    def _silent(self, now: float) -> dict[str, str]:
        """Return an end from which nothing has come for longer than the time between two heartbeats."""
        for noun, connection in self._connections.items():
            heart = connection.core().heart
            if now - heart.heard_at > heart.hears_within * SILENT:
                return {noun: f"nothing has come for {now - heart.heard_at:.0f} s"}
        return {}

    async def _end(self, publisher: Publisher) -> None:
        """Take back what the target holds, wait for the outcomes of the rest, and return what was refused."""
        loop = asyncio.get_running_loop()
        with suppress(PenstockError):
            await publisher.withdraw(ENDING_S)
        deadline = loop.time() + ENDING_S
        while self._underway and loop.time() < deadline:
            await self._outcome(deadline - loop.time())
        for delivery in self._left:
            delivery.release()
        with suppress(PenstockError):
            await publisher.close(0)


async def _length_of(connection: Connection, queue: str) -> int | None:
    """Return the number of ready messages of a queue; None over AMQP 1.0, which has no question for it."""
    if connection.protocol != "amqp091":
        return None
    answer = await connection.run(connection.core().calling("queue.declare", {"queue": queue, "passive": True}))
    return int(answer["message_count"])
