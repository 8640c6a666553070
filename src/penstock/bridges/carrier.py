"""Carrier: takes messages of one queue and passes them on, one confirm for each acknowledgement.

Theory of operation. A delivery is accepted when the target has confirmed it, so no message is lost; after a lost
connection some may be at the target twice. The carrier has no more messages on their way than the target gives room
for, and no more from the source than its prefetch: a target that is full holds the source's queue, and that its
producers. What the target refuses stays unsettled, and returns to the source at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.bridges.ends import End
from penstock.bridges.hops import with_hop
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED, State
from penstock.client.aio import Connection, Publisher
from penstock.client.engine.events import LOST, RECONNECTED, Event
from penstock.client.engine.messages import Forwarded
from penstock.client.engine.outcomes import ConfirmTimeout, FlowControlTimeout
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.relay import Relay
from penstock.client.errors import ClientError
from penstock.client.handles import relay_of
from penstock.client.options import Options
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.option_types import ReceiverOptions

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
WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of messages that have arrived and wait for room at most, and one message more."""
MOST: Final = 1 << 30
"""Messages that may go on at a time, without a count."""
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
        self._relay: Relay | None = None
        self._taken = 0
        self._is_stopping = False
        self._away: dict[str, str] = {}
        """Reasons by the end whose connection is lost."""

    @property
    def underway(self) -> int:
        """Return the number of messages that were sent and have no outcome: they may be in both queues."""
        return 0 if self._relay is None else self._relay.under_way

    def stop(self) -> None:
        """Take no more messages, and end when those on their way have their outcomes."""
        self._is_stopping = True
        if self._relay is not None:
            self._relay.wake()

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
            async with old.receiver(self._source.queue, **self._receiver_options()) as receiver:
                keeps_key = not self._target.queue and self._target.key is None
                relay = self._relay = relay_of(receiver, publisher, keeps_key, self._prepared())
                try:
                    await self._carry(relay, publisher, old, new)
                finally:
                    await self._end(relay, publisher, new)
        return self.state

    def _receiver_options(self) -> ReceiverOptions:
        """Return the options of the receiver, whose bytes are bounded at each broker."""
        terms, options = self._terms, self._options[0]
        found: ReceiverOptions = {"prefetch": min(terms.prefetch, terms.count or terms.prefetch)}
        if not options.is_window_chosen:
            found["consumerWindowSize"] = WINDOW_BYTES
        if terms.selector:
            found["selector"] = terms.selector
        return found

    def _listen(self, connection: Connection, noun: str) -> None:
        def heard(event: Event) -> None:
            if event.kind == LOST:
                self._away[noun] = event.reason
            elif event.kind == RECONNECTED:
                self._away.pop(noun, None)

        connection.on_event(heard)

    async def _carry(self, relay: Relay, publisher: Publisher, old: Connection, new: Connection) -> None:
        loop, terms = asyncio.get_running_loop(), self._terms
        quiet_since = loop.time()
        while not self._is_stopping:
            left = MOST if terms.count is None else terms.count - self._taken
            if left == 0 and not relay.under_way:
                return
            moved = relay.move(left)
            if not moved:
                moved = await self._wait(relay, left, old, new)
            self._taken += moved
            if moved or relay.under_way or self._away:
                quiet_since = loop.time()
            elif terms.until_empty and loop.time() - quiet_since >= EMPTY_S:
                return
            self._look(relay, publisher)
            if len(relay.left) > REFUSED_MOST:
                raise TooManyRefused(
                    f"more than {REFUSED_MOST:,} messages were refused by {self._target}: {relay.reasons[-1]}"
                )

    async def _wait(self, relay: Relay, left: int, old: Connection, new: Connection) -> int:
        """Wait a moment for what is missing: outcomes, room, or a message. Return how many messages went on."""
        if left == 0:
            with suppress(ConfirmTimeout):
                await new.run(relay.finishing(LOOK_S))
        elif relay.is_blocked():
            with suppress(FlowControlTimeout):
                return await new.run(relay.moving(LOOK_S))
        else:
            await old.run(relay.waiting(LOOK_S))
        return 0

    def _prepared(self) -> Callable[[Delivery, Forwarded], bool] | None:
        """Return a function that changes each message before it is sent; None if messages stay as they are."""
        return self._add_hop if self._terms.with_hops else None

    def _add_hop(self, delivery: Delivery, message: Forwarded) -> bool:
        message.properties = with_hop(message.properties, self._source, delivery.redelivered)
        return True

    def _look(self, relay: Relay, publisher: Publisher) -> None:
        """Set the state from what was seen last."""
        now, state = asyncio.get_running_loop().time(), self.state
        state.count(relay)
        if self._away:
            noun, reason = next(iter(self._away.items()))
            state.change(AWAY, f"{noun} is away: {reason}", now)
            return
        if relay.refused_at and (relay.refused_at >= state.last or now - relay.refused_at < EMPTY_S):
            state.change(REFUSED, f"{self._target} refuses: {relay.reasons[-1]}", now)
            return
        blocked = publisher.blocked
        if blocked is not None and (relay.under_way or blocked.queue is not None):
            state.change(HELD, f"{self._target} has no room: {blocked.reason}", now)
        elif state.last and now - state.last < EMPTY_S:
            state.change(MOVING, "", now)
        elif relay.under_way:
            state.change(HELD, f"{self._target} has not confirmed {relay.under_way:,} messages", now)
        else:
            state.change(IDLE, "", now)

    async def _end(self, relay: Relay, publisher: Publisher, new: Connection) -> None:
        """Take back what the target holds, wait for the outcomes of the rest, and return what was refused."""
        relay.is_ending = True
        with suppress(PenstockError):
            await publisher.withdraw(ENDING_S)
        with suppress(PenstockError, TimeoutError):
            async with asyncio.timeout(ENDING_S):
                await new.run(relay.finishing(ENDING_S))
        relay.return_refused()
        self.state.count(relay)
        with suppress(PenstockError):
            await publisher.close(0)
