"""Carrier: takes messages of one queue and passes them on, one confirm for each acknowledgement.

Theory of operation. A delivery is accepted when the target has confirmed it, so no message is lost; after a lost
connection some may be at the target twice. The carrier has no more messages on their way than the target gives room
for, and no more from the source than its prefetch: a target that is full holds the source's queue, and that its
producers. What the target refuses stays unsettled: it returns to the source at the end, or is sent again after a pause.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from penstock.bridges.ends import End
from penstock.bridges.held_why import HeldWhy
from penstock.bridges.hops import hops_of, with_hop
from penstock.bridges.protocols import meet
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED, State
from penstock.client.aio import Connection, Publisher, Receiver
from penstock.client.engine.events import CLOSED, LOST, RECONNECTED, Event
from penstock.client.engine.messages import Forwarded
from penstock.client.engine.outcomes import NO_ROUTE, ConfirmTimeout, FlowControlTimeout
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.relay import Relay
from penstock.client.errors import (
    ChannelClosed,
    ClientError,
    ConnectError,
    ConnectionClosed,
    LinkClosed,
    Timeout,
    WrongProtocol,
)
from penstock.client.handles import relay_of
from penstock.client.options import Options
from penstock.errors import PenstockError
from penstock.texts import counted

PREFETCH: Final = 2000
"""Messages of the source that are on their way at most."""
REFUSED_MOST: Final = 1000
"""Most refused messages that a carrier keeps unsettled: it ends at one more, or takes no other while it tries again."""
EMPTY_S: Final = 2.0
"""Seconds without a message after which a queue counts as empty."""
LOOK_S: Final = 0.5
"""Seconds between two looks at the state, while nothing else happens."""
HELD_S: Final = 0.5
"""Seconds in which nothing was sent or confirmed, from which on a target without room holds the carrier."""
LAG_S: Final = 5.0
"""Seconds between two questions how many messages the source has, while messages move or are held."""
ENDING_S: Final = 10.0
"""Most seconds in which the end waits for confirms of messages on their way."""
CLOSE_S: Final = 5.0
"""Most seconds for the close of a connection."""
WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of messages that have arrived and wait for room at most, and one message more."""
MOST: Final = 1 << 30
"""Messages that may go on at a time, without a count."""
QUIET_S: Final = 86_400
"""Seconds that the client waits for room before it warns: the carrier says by itself what holds it."""
RETRY_S: Final = 1.0
RETRY_MOST_S: Final = 10.0
"""Seconds until a refused message is sent again: at first, and at most, as the pause doubles with each refusal."""
SILENT: Final = 0.6
"""Part of the time after which a silent connection is given up: from then on it is reported as silent."""
ON_CONFIRM: Final = "on-confirm"
"""Mode in which a message leaves its queue when the target has confirmed it; in others, as soon as it is sent."""
NOUNS: Final = ("the source", "the target")

T = TypeVar("T")
SourceSetup = Callable[[Connection], Coroutine[Any, Any, str]]
"""Function that prepares the source on its open connection, and returns the name of the queue."""
TargetSetup = Callable[[Connection], Coroutine[Any, Any, End]]
"""Function that prepares the target on its open connection, and returns it."""
Change = Callable[[Delivery, Forwarded], bool]
"""Function that changes a message before it is sent; it returns False for a message that it has settled itself."""


@dataclass(kw_only=True)
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
    hops_most: int | None = None
    """Entries of this header with which a message goes on at most; None for no limit."""
    prefetch: int = PREFETCH
    ack_mode: str = ON_CONFIRM
    tries_again: bool = False
    """True to send refused messages again for as long as it runs."""
    counts_first: bool = False
    """True to end after as many messages as the source has at the beginning."""
    keeps_target: bool = False
    """True to send each message to the exchange to which it was published, with its key unless the target has one."""
    change: Change | None = None
    source_setup: SourceSetup | None = None
    target_setup: TargetSetup | None = None
    consumer_arguments: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the consumer, over AMQP 0-9-1."""
    consumer_name: str = ""
    begins_paused: bool = False
    """True if the receiver takes nothing before it is resumed."""
    seconds: float | None = None
    """Seconds after which it ends; None for no end."""
    look_s: float = LOOK_S


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
        self.state.begin()
        self.lag: int | None = None
        """Messages in the source when it was asked last; None if unknown."""
        self._relay: Relay | None = None
        self._taken = 0
        self._count = terms.count
        self._is_to_empty = terms.until_empty
        self._stopping = asyncio.Event()
        self._connections: dict[str, Connection] = {}
        """Open connections by their end."""
        self._away: dict[str, str] = {}
        """Reasons by the end whose connection is lost."""
        self._is_lost = False
        """True once a connection is lost for good."""
        self._moved_at = 0.0
        """Time at which a message was sent last."""
        self._pause = RETRY_S
        self._retry_at = 0.0
        """Seconds between two attempts for refused messages, and the time of the next."""
        self._trial: Delivery | None = None
        """Message of the last attempt."""
        self._why = HeldWhy(new, target.queue)
        self._length: Callable[[], Coroutine[Any, Any, int | None]] | None = None
        """Function that asks how many messages the source has; None if it does not tell."""

    @property
    def underway(self) -> int:
        """Return the number of messages that were sent and have no outcome: they may be in both queues."""
        return 0 if self._relay is None else self._relay.under_way

    @property
    def why(self) -> list[str]:
        """Return what the target says of its gates, while it holds."""
        return self._why.sentences

    def stop(self) -> None:
        """Take no more messages, and end when those on their way have their outcomes."""
        self._stopping.set()
        if self._relay is not None:
            self._relay.wake()

    async def run(self) -> State:
        """Carry until the end that the terms give, or `stop`. Raises `PenstockError` as the client does."""
        async with AsyncExitStack() as stack:
            try:
                old, new = await self._opened(stack)
                publisher = await _named(1, self._publisher(new))
                receiver = await _named(0, self._receiver(old))
                if receiver is not None:
                    await self._carried(receiver, publisher, old, new)
            except ClientError as error:
                if not self._is_lost or isinstance(error, EndLost):
                    raise
                noun, reason = next(iter(self._away.items()))
                raise EndLost(f"{noun} is away: {reason}") from error
        return self.state

    # Ends

    async def _opened(self, stack: AsyncExitStack) -> tuple[Connection, Connection]:
        """Return the open connections to the source and the target."""
        (old, new), (source, target) = self._options, NOUNS

        async def close(connection: Connection) -> None:
            for noun in [noun for noun, each in self._connections.items() if each is connection]:
                del self._connections[noun]
            with suppress(PenstockError):
                await connection.close(CLOSE_S)

        async def opened(noun: str, options: Options) -> Connection:
            connection = Connection(options)
            connection.on_event(lambda event: self._heard(noun, connection, event))
            try:
                await connection
            except WrongProtocol:
                raise
            except PenstockError as error:
                reason = error.text if isinstance(error, ConnectError) and options.dial is not None else str(error)
                raise EndLost(f"{noun} cannot be reached: {reason}") from error
            stack.push_async_callback(close, connection)
            self._connections[noun] = connection
            return connection

        try:
            return await meet(old, new, partial(opened, source), partial(opened, target), close)
        except WrongProtocol as error:
            raise EndLost(f"an end cannot be reached: {error}") from error

    def _heard(self, noun: str, connection: Connection, event: Event) -> None:
        """Note a lost connection, or its return; one that another has replaced does not count."""
        if self._connections.get(noun) is not connection:
            return
        if event.kind in (LOST, CLOSED):
            self._away[noun] = event.reason
        elif event.kind == RECONNECTED:
            self._away.pop(noun, None)
        if event.kind == CLOSED:
            self._is_lost = True
            if self._relay is not None:
                self._relay.wake()

    async def _publisher(self, new: Connection) -> Publisher:
        terms = self._terms
        if terms.target_setup is not None:
            self._target = await terms.target_setup(new)
        elif self._target.queue and new.protocol == "amqp091":  # Over AMQP 1.0 the link is refused.
            await new.run(new.core().calling("queue.declare", {"queue": self._target.queue, "passive": True}))
        return new.publisher(
            self._target.queue,
            exchange=self._target.exchange,
            routing_key=self._target.key or "",
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
        given = old.options.receiver_terms(queue, self._receiver_options())
        given = given._replace(arguments=terms.consumer_arguments, paused=terms.begins_paused)
        receiver = Receiver(old, queue, lambda: old.core().receiver(given))
        await receiver
        if old.protocol == "amqp091":
            self._length = lambda: _length_of(old, queue)
        else:
            self._length = lambda: receiver.count(LOOK_S)
        return receiver

    def _receiver_options(self) -> dict[str, object]:
        """Return the options of the receiver, whose bytes are bounded at each broker."""
        terms, options = self._terms, self._options[0]
        found: dict[str, object] = {"prefetch": min(terms.prefetch, self._count or terms.prefetch)}
        if not options.is_window_chosen and not terms.consumer_arguments:  # The window would need other consumers.
            found["consumerWindowSize"] = WINDOW_BYTES
        if terms.selector:
            found["selector"] = terms.selector
        if terms.consumer_name:
            found["name"] = terms.consumer_name
        return found

    # Carrying

    async def _carried(self, receiver: Receiver, publisher: Publisher, old: Connection, new: Connection) -> None:
        """Carry, and end in order."""
        keeps_key = not self._target.queue and self._target.key is None
        relay = self._relay = relay_of(receiver, publisher, keeps_key, self._prepared())
        measuring = asyncio.ensure_future(self._measure())
        try:
            await self._carry(relay, publisher, old, new)
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
            await self._why.close()
            await self._end(relay, publisher, new)

    async def _carry(self, relay: Relay, publisher: Publisher, old: Connection, new: Connection) -> None:
        loop = asyncio.get_running_loop()
        began = quiet_since = loop.time()
        self._look(relay, publisher)
        while not self._stopping.is_set():
            relay.publisher.check()
            left = self._left(relay)
            if self._count is not None and self._taken >= self._count and not relay.under_way:
                return
            moved = relay.move(left)
            if not moved:
                moved = await self._wait(relay, left, old, new)
            self._taken += moved
            if moved:
                self._moved_at = loop.time()
            if moved or relay.under_way or self._away or (relay.left and self._terms.tries_again):
                quiet_since = loop.time()
            elif self._is_to_empty and loop.time() - quiet_since >= EMPTY_S:
                return
            if self._terms.seconds is not None and loop.time() - began >= self._terms.seconds:
                return
            self._look(relay, publisher)
            if self._is_lost:
                raise ConnectionClosed(None, "it is lost")
            if self._terms.tries_again:
                self._try_again(relay, loop.time())
            elif len(relay.left) > REFUSED_MOST:
                raise TooManyRefused(
                    f"more than {REFUSED_MOST:,} messages were refused by {self._target}: {relay.reason}"
                )

    def _left(self, relay: Relay) -> int:
        """Return how many messages may be taken now."""
        if self._terms.tries_again and len(relay.left) >= REFUSED_MOST:
            return 0
        return MOST if self._count is None else self._count - self._taken

    async def _wait(self, relay: Relay, left: int, old: Connection, new: Connection) -> int:
        """Wait a moment for what is missing: outcomes, room, or a message. Return how many messages went on."""
        look_s = self._terms.look_s
        if left == 0 and not relay.under_way:
            with suppress(TimeoutError):  # In Python 3.11 asyncio.wait_for may swallow a cancellation.
                async with asyncio.timeout(look_s):
                    await self._stopping.wait()
        elif left == 0:
            with suppress(ConfirmTimeout):
                await new.run(relay.finishing(look_s))
        elif relay.is_blocked():
            with suppress(FlowControlTimeout):
                return await new.run(relay.moving(look_s))
        else:
            await old.run(relay.waiting(look_s))
        return 0

    def _prepared(self) -> Change | None:
        """Return a function that changes each message before it is sent; None if messages stay as they are."""
        terms = self._terms
        if terms.with_hops or terms.hops_most or terms.keeps_target or terms.ack_mode != ON_CONFIRM:
            return self._prepare
        return terms.change

    def _prepare(self, delivery: Delivery, message: Forwarded) -> bool:
        terms, relay = self._terms, self._relay
        if terms.hops_most and relay is not None and (hops := hops_of(message.properties)) >= terms.hops_most:
            relay.refuse(delivery, f"it has come through {counted(hops, 'bridge')}; max-hops is {terms.hops_most}")
            return False
        if terms.keeps_target:
            message.exchange = delivery.exchange
            message.routing_key = delivery.routing_key if self._target.key is None else self._target.key
        if terms.with_hops:
            message.properties = with_hop(message.properties, self._source, delivery.redelivered)
        if terms.change is not None and not terms.change(delivery, message):
            return False
        if terms.ack_mode != ON_CONFIRM:
            delivery.accept()
        return True

    # Refused messages

    def _try_again(self, relay: Relay, now: float) -> None:
        """Send refused messages again: one after a pause, which doubles, and all once the target has taken one.

        Raises `EndLost` if the target is no more: it is declared again with the next connection.
        """
        if not relay.left:
            self._retry_at, self._pause, self._trial = 0.0, RETRY_S, None
        elif self._retry_at == 0.0:
            self._plan_retry(now)
        elif now >= self._retry_at:
            if relay.reason.startswith(NO_ROUTE) and self._terms.target_setup is not None and self._target.queue:
                raise EndLost(f"{self._target} is gone: {relay.reason}")
            trial, self._trial = self._trial, relay.left[0]
            was_taken = trial is not None and trial.is_settled and trial not in relay.left
            self._pause = RETRY_S if was_taken else min(self._pause * 2, RETRY_MOST_S)
            for _ in range(len(relay.left) if was_taken else 1):
                if not relay.send_left():
                    break
            self._plan_retry(now)

    def _plan_retry(self, now: float) -> None:
        self._retry_at = now + random.uniform(self._pause / 2, self._pause)

    # State

    async def _measure(self) -> None:
        """Ask how many messages the source has, while messages move; a source that does not tell is asked once."""
        while self._length is not None:
            try:
                self.lag = 0 if self.state.name == IDLE else await self._length()
            except PenstockError:
                self.lag = None
                return
            await asyncio.sleep(LAG_S)

    def _look(self, relay: Relay, publisher: Publisher) -> None:
        """Set the state from what was seen last."""
        now, state = asyncio.get_running_loop().time(), self.state
        state.count(relay)
        away = self._away or self._silent(now)
        if away:
            noun, reason = next(iter(away.items()))
            state.change(AWAY, f"{noun} is away: {reason}", now)
            return
        if relay.refused_at and (relay.refused_at >= state.last or now - relay.refused_at < EMPTY_S):
            state.change(REFUSED, f"{self._target} refuses: {relay.reason}", now)
            return
        blocked = publisher.blocked
        quiet_s = now - max(state.last, self._moved_at)
        if blocked is not None and (relay.under_way or blocked.queue is not None) and quiet_s >= HELD_S:
            state.change(HELD, f"{self._target} has no room: {blocked.reason}", now)
        elif quiet_s < EMPTY_S:
            state.change(MOVING, "", now)
        elif relay.under_way:
            state.change(HELD, f"{self._target} has not confirmed {relay.under_way:,} messages", now)
        else:
            state.change(IDLE, "", now)
        if state.name != HELD:
            self._why.sentences = []
        elif self._terms.tries_again:  # Otherwise it ends by itself, and nobody reads the answer.
            self._why.ask_beside(now)

    def _silent(self, now: float) -> dict[str, str]:
        """Return an end from which nothing has come for longer than the time between two heartbeats."""
        for noun, connection in self._connections.items():
            heart = connection.core().heart
            if now - heart.heard_at > heart.hears_within * SILENT:
                return {noun: f"nothing has come for {now - heart.heard_at:.0f} s"}
        return {}

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


async def _length_of(connection: Connection, queue: str) -> int | None:
    """Return the number of ready messages of a queue; None over AMQP 1.0, which has no question for it."""
    if connection.protocol != "amqp091":
        return None
    answer = await connection.run(connection.core().calling("queue.declare", {"queue": queue, "passive": True}))
    return int(answer["message_count"])


async def _named(index: int, preparing: Coroutine[Any, Any, T]) -> T:
    """Prepare an end, and name it in errors."""
    try:
        return await preparing
    except (ChannelClosed, LinkClosed, Timeout) as error:
        raise EndLost(f"{NOUNS[index]}: {error}") from error
