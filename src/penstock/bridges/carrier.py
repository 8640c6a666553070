"""Carrier: takes messages of one queue and passes them on, one confirm for each acknowledgement.

Theory of operation. A delivery is accepted when the target has confirmed it, so no message is lost; after a lost
connection some may be at the target twice. The carrier has no more messages on their way than the target gives room
for, and no more from the source than its prefetch: a target that is full holds the source's queue, and that its
producers. What the target refuses stays unsettled, and returns to the source at the end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from penstock.bridges.ends import End
from penstock.bridges.hops import with_hop
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED, State
from penstock.client.aio import Connection, Publisher, Receiver
from penstock.client.engine import outcomes
from penstock.client.engine.events import LOST, RECONNECTED, Event
from penstock.client.engine.outcomes import Blocked, FlowControlTimeout, Receipt
from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ClientError, MessageTooLarge
from penstock.client.options import Options
from penstock.errors import PenstockError

PREFETCH: Final = 2000
"""Messages of the source that are on their way at most."""
REFUSED_MOST: Final = 1000
"""Most refused messages that a carrier keeps unsettled; it ends at one more."""
EMPTY_S: Final = 2.0
"""Seconds without a message after which a queue counts as empty."""
LOOK_S: Final = 0.5
"""Seconds between two looks at the state, while nothing else happens."""
ENDING_S: Final = 10.0
"""Most seconds in which the end waits for confirms of messages on their way."""
QUIET_S: Final = 86_400
"""Seconds that the client waits for room before it warns: the carrier says by itself what holds it."""


@dataclass
class Terms:
    """Conditions of a carrier: what it carries, and when it ends."""

    count: int | None = None
    """Number of messages after which it ends; None for no end."""
    selector: str = ""
    """Selector that messages must match; empty for all."""
    until_empty: bool = False
    """True to end when the source has no message for `EMPTY_S`."""
    with_hops: bool = False
    """True to write the source into the header x-received-from."""
    prefetch: int = PREFETCH


NO_REASON: Final = "it gives no reason"
"""Reason of a basic.nack, which has none."""


class TooManyRefused(ClientError):
    """The target has refused so many messages that the carrier has ended."""


class Carrier:
    """Carrier between two ends. `run` carries; `stop` lets it end."""

    def __init__(self, source: End, target: End, old: Options, new: Options, terms: Terms) -> None:
        """`old` and `new` are the options of the connections to the source and the target."""
        self._source = source
        self._target = target
        self._options = (old, new)
        self._terms = terms
        self.state = State()
        self._left: list[Delivery] = []
        """Deliveries that the target has refused."""
        self._underway = 0
        self._taken = 0
        self._settled = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ending = False
        """True once nothing more is sent: refusals are then of messages that were taken back."""
        self._away: dict[str, str] = {}
        """Reasons by the end whose connection is lost."""
        self._refused_at = 0.0
        """Time of the last refusal; 0 before the first."""

    @property
    def underway(self) -> int:
        """Return the number of messages that were sent and have no outcome: they may be in both queues."""
        return self._underway

    def stop(self) -> None:
        """Take no more messages, and end when those on their way have their outcomes."""
        self._stopping.set()

    async def run(self) -> State:
        """Carry until the end that the terms give, or `stop`. Raises `PenstockError` as the client does."""
        old, new = (Connection(options) for options in self._options)
        self._listen(old, "the source")
        self._listen(new, "the target")
        async with new, old:
            if self._target.queue and new.protocol == "amqp091":  # Over AMQP 1.0 the link is refused.
                await new.run(new.core().calling("queue.declare", {"queue": self._target.queue, "passive": True}))
            publisher = new.publisher(
                self._target.queue,
                exchange=self._target.exchange,
                routing_key=self._target.key or "",
                durable=False,
                flow_control_wait_notify_period=QUIET_S,
            )
            prefetch = min(self._terms.prefetch, self._terms.count or self._terms.prefetch)
            async with old.receiver(self._source.queue, prefetch=prefetch, selector=self._terms.selector) as receiver:
                try:
                    await self._carry(receiver, publisher)
                finally:
                    await self._end(publisher)
        return self.state

    def _listen(self, connection: Connection, noun: str) -> None:
        def heard(event: Event) -> None:
            if event.kind == LOST:
                self._away[noun] = event.reason
            elif event.kind == RECONNECTED:
                self._away.pop(noun, None)

        connection.on_event(heard)

    async def _carry(self, receiver: Receiver, publisher: Publisher) -> None:
        loop, terms = asyncio.get_running_loop(), self._terms
        quiet_since = loop.time()
        while not self._stopping.is_set():
            is_all = terms.count is not None and self._taken >= terms.count
            if is_all and not self._underway:
                return
            if is_all:
                delivery = None
                await self._outcome(LOOK_S)
            else:
                delivery = receiver.receive_nowait() or await self._wait(receiver)
            if delivery is not None:
                await self._pass_on(delivery, publisher)
                quiet_since = loop.time()
            elif self._underway or self._away:
                quiet_since = loop.time()
            elif terms.until_empty and loop.time() - quiet_since >= EMPTY_S:
                return
            self._look(publisher)
            if len(self._left) > REFUSED_MOST:
                raise TooManyRefused(
                    f"more than {REFUSED_MOST:,} messages were refused by {self._target}: {self.state.reasons[-1]}"
                )

    async def _wait(self, receiver: Receiver) -> Delivery | None:
        """Wait a moment for the next message, or for `stop`."""
        receiving = asyncio.ensure_future(receiver.receive(LOOK_S))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                return None
            return receiving.result()
        finally:
            stopping.cancel()
            receiving.cancel()

    async def _pass_on(self, delivery: Delivery, publisher: Publisher) -> None:
        """Send one message as soon as there is room."""
        self._taken += 1
        self.state.again += delivery.redelivered
        message = delivery.forwarded(None if self._target.queue else self._target.key or delivery.routing_key)
        if self._terms.with_hops:
            message.properties = with_hop(message.properties, self._source, delivery.redelivered)
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            try:
                receipt = publisher.try_publish(message)
                if isinstance(receipt, Blocked):
                    receipt = await publisher.publish(message, timeout=LOOK_S)
            except FlowControlTimeout:
                self._look(publisher)
                continue
            except (ValueError, MessageTooLarge) as error:  # The target's protocol cannot carry a value, or its size.
                self._refuse(delivery, str(error))
                return
            self._underway += 1
            receipt.add_callback(lambda receipt: self._settle(receipt, delivery, loop.time()))
            return
        self._taken -= 1
        delivery.release()

    def _settle(self, receipt: Receipt, delivery: Delivery, now: float) -> None:
        self._underway -= 1
        self._settled.set()
        if receipt.outcome == outcomes.CONFIRMED:
            delivery.accept()
            self.state.confirmed(len(delivery.body), now)
        elif self._ending:
            delivery.release()
        elif receipt.outcome == outcomes.REFUSED:
            self._refuse(delivery, receipt.reason or NO_REASON)

    async def _outcome(self, seconds: float) -> None:
        """Wait for the next outcome, at most so long."""
        self._settled.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), seconds)

    def _refuse(self, delivery: Delivery, reason: str) -> None:
        self._left.append(delivery)
        self.state.refuse(reason)
        self._refused_at = asyncio.get_running_loop().time()

    def _look(self, publisher: Publisher) -> None:
        """Set the state from what was seen last."""
        now, state = asyncio.get_running_loop().time(), self.state
        blocked = publisher.blocked
        if self._away:
            noun, reason = next(iter(self._away.items()))
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

    async def _end(self, publisher: Publisher) -> None:
        """Take back what the target holds, wait for the outcomes of the rest, and return what was refused."""
        loop = asyncio.get_running_loop()
        self._ending = True
        with suppress(PenstockError):
            await publisher.withdraw(ENDING_S)
        deadline = loop.time() + ENDING_S
        while self._underway and loop.time() < deadline:
            await self._outcome(deadline - loop.time())
        for delivery in self._left:
            delivery.release()
        with suppress(PenstockError):
            await publisher.close(0)
