"""Link of federation: a carrier from an upstream to a queue or an exchange of this broker.

A link of an exchange repeats the exchange's bindings at the upstream, where a queue collects its messages, and drops
messages that were here or have no hops left. A link of a queue takes messages only while the queue here is empty and
has consumers that wait: messages go where they are taken. The broker here answers for its queue or exchange
(`federation.look`), with the rights of the user that the link runs as.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from typing_extensions import override

from penstock.bridges.carrier import NOUNS, QUIET_S, WINDOW_BYTES, Carrier, Change, Terms
from penstock.bridges.ends import End
from penstock.bridges.link_headers import with_exchange, with_queue
from penstock.bridges.link_terms import EXCHANGE, LinkTerms
from penstock.bridges.state import IDLE, State
from penstock.bridges.upstream_exchange import NOT_FOUND, UpstreamExchange, text_of, vhost_of
from penstock.client.aio import Connection, Publisher, Receiver
from penstock.client.engine.messages import Forwarded
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.relay import Relay
from penstock.client.errors import ChannelClosed, Timeout
from penstock.client.options import Options
from penstock.content.properties import Properties
from penstock.content.received_from import may_go_on
from penstock.errors import ConfigError, PenstockError

ASKED: Final = "federation.look"
SOON_S: Final = 0.002
"""Seconds until the broker here is asked again, at first; each answer without a change doubles them."""
STILL_S: Final = 0.5
"""Seconds above which the broker here is only asked again after `LOOK_AGAIN_S`, or when it tells news. An upstream
queue gets back then what was not passed on.
"""
LOOK_AGAIN_S: Final = 10.0
CHECK_S: Final = 60.0
CHECKED_A_SECOND: Final = 10
"""Seconds between two checks of the bindings at an upstream at least, and most bindings that are checked a second."""
LOOK_S: Final = 1.0
"""Seconds between two looks at the state."""
STOCK: Final = 64
"""Messages that a queue gets when its consumers wait, even if they wait for fewer: so fast consumers need not wait."""
PRIORITY: Final = -1
"""Priority of a link as a consumer of an upstream queue: the upstream's own consumers come first, as with RabbitMQ."""


class OwnUpstream(ConfigError):
    """A queue or exchange would be its own upstream."""


class LinkSides:
    """Both sides of a link: the upstream, and the queue or exchange here with its news."""

    def __init__(self, terms: LinkTerms, source: End) -> None:
        self.terms = terms
        self.is_gone = False
        """True if the link will not come back: it then leaves nothing at its upstream."""
        self.news = asyncio.Event()
        """Set when the broker here has news of the queue or exchange."""
        self.check_s = CHECK_S
        self.place: Mapping[str, object] = {"uri": source.broker, terms.kind: terms.upstream}
        self.cluster = ""
        self.vhost = ""
        """Name of the cluster and virtual host of the upstream."""

    @property
    def source(self) -> str:
        """Return the queue or exchange of the upstream, without secrets."""
        return f"{self.terms.kind} {self.terms.upstream} of {self.place['uri']}"

    @property
    def target(self) -> str:
        """Return the queue or exchange here."""
        return f"{self.terms.kind} {self.terms.resource} of this broker"

    def meet(self, old: Connection) -> None:
        """Learn the names of the upstream. Raises `OwnUpstream`."""
        terms = self.terms
        self.cluster, self.vhost = text_of(old.server_properties.get("cluster_name")), vhost_of(old)
        if (self.cluster, self.vhost, terms.upstream) == (terms.cluster, terms.vhost, terms.resource):
            raise OwnUpstream(
                f"{terms.kind} '{terms.resource}' in vhost '{terms.vhost}' of {terms.cluster} would be its own upstream"
            )

    async def ask(self, here: Connection, **fields: object) -> dict[str, Any]:
        """Ask the broker here; return nothing if it is too busy to answer in time."""
        answer: dict[str, Any] = {}
        with suppress(Timeout):
            answer = await here.request(ASKED, **fields)
        return answer

    async def await_news(self, seconds: float) -> None:
        """Wait for news, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.news.wait()

    def vouched(self, properties: Properties) -> Properties:
        """Return properties that were copied, without the user-id of another user: the broker here would refuse it."""
        if not self.terms.trusts_user_id:
            properties.user_id = None
        return properties

    def terms_of_carrier(self, change: Change) -> Terms:
        """Return the terms of the link as a carrier, with the function that changes its messages."""
        terms = self.terms
        is_queue = terms.kind != EXCHANGE
        return Terms(
            prefetch=terms.prefetch,
            ack_mode=terms.ack_mode,
            tries_again=True,
            change=change,
            consumer_name=terms.consumer_tag,
            consumer_arguments={"x-priority": PRIORITY} if is_queue else {},
            begins_paused=is_queue,
            look_s=LOOK_S,
        )


class ExchangeLink(Carrier):
    """Link of an exchange."""

    def __init__(self, terms: LinkTerms, source: End, target: End, old: Options, new: Options, state: State) -> None:
        self.sides = sides = LinkSides(terms, source)
        super().__init__(source, target, old, new, sides.terms_of_carrier(self._change), state)
        self._upstream: UpstreamExchange | None = None
        self._here: dict[str, Any] = {}
        """Bindings at the begin, with their version."""
        self._seen = ""
        """Version of the bindings that the upstream has."""

    @override
    async def _publisher(self, new: Connection) -> Publisher:
        self._here = await new.request(ASKED, exchange=self.sides.terms.resource)
        return new.publisher(
            exchange=self.sides.terms.resource,
            durable=False,
            mandatory=False,  # A message without a queue is dropped, as one that is published here.
            flow_control_wait_notify_period=QUIET_S,
        )

    @override
    async def _receiver(self, old: Connection) -> Receiver | None:
        self.sides.meet(old)
        self._upstream = UpstreamExchange(old, self.sides.terms)
        await self._upstream.begin(self._here["bindings"])
        self._seen, self._here = self._here["version"], {}
        self._source = End(self._source.url, self._upstream.queue, "", None)
        return await super()._receiver(old)

    def look_again(self) -> None:
        """Ask the broker here again at once: it has news."""
        self.sides.news.set()

    @override
    async def _carried(self, receiver: Receiver, publisher: Publisher, old: Connection, new: Connection) -> None:
        following = asyncio.ensure_future(self._follow())
        following.add_done_callback(self._stop_following)
        try:
            await super()._carried(receiver, publisher, old, new)
        finally:
            following.remove_done_callback(self._stop_following)
            following.cancel()
            (problem,) = await asyncio.gather(following, return_exceptions=True)
        if isinstance(problem, Exception):
            raise problem
        if self.sides.is_gone and self.sides.terms.cleans_up:
            assert self._upstream is not None
            with suppress(PenstockError):
                await self._upstream.delete()

    def _stop_following(self, following: asyncio.Task[None]) -> None:
        """Stop the link, which cannot follow its bindings any more; the error is raised at its end."""
        self.stop()

    async def _follow(self) -> None:
        """Repeat changes of the bindings here at the upstream, and check them there from time to time."""
        upstream, time = self._upstream, asyncio.get_running_loop().time
        assert upstream is not None
        pause, checked_at = SOON_S, time()
        while True:
            await self.sides.await_news(min(LOOK_AGAIN_S, self.sides.check_s) if pause > STILL_S else pause)
            if time() - checked_at >= max(self.sides.check_s, upstream.bound / CHECKED_A_SECOND):
                await upstream.check()
                checked_at = time()
            pause = SOON_S if self.sides.news.is_set() else min(2 * pause, 2 * STILL_S)
            self.sides.news.clear()
            answer = await self.sides.ask(
                self._connections[NOUNS[1]], exchange=self.sides.terms.resource, seen=self._seen
            )
            if answer and answer["version"] != self._seen:
                await upstream.bind(answer["bindings"])
                self._seen, pause = answer["version"], SOON_S

    def _change(self, delivery: Delivery, message: Forwarded) -> bool:
        sides, link = self.sides, self.sides.terms
        if not may_go_on(delivery.headers, link.max_hops, link.cluster, link.vhost):
            delivery.accept()
            return False
        message.properties = sides.vouched(
            with_exchange(delivery.properties, sides.place, delivery.redelivered, sides.cluster, sides.vhost)
        )
        return True


class QueueLink(Carrier):
    """Link of a queue."""

    def __init__(self, terms: LinkTerms, source: End, target: End, old: Options, new: Options, state: State) -> None:
        self.sides = sides = LinkSides(terms, source)
        super().__init__(source, target, old, new, sides.terms_of_carrier(self._change), state)
        self._until = 0
        """Number of messages after which the broker here is asked again whether consumers wait."""
        self._receiving: Receiver | None = None
        self._has_window = False
        """True if the upstream bounds the bytes of messages on their way; others bound their number."""
        self._is_resumed = False
        """True while the upstream delivers."""
        self._pause_s = SOON_S
        self._ask_at = 0.0
        """Seconds between two questions without waiting consumers, and the time of the next question."""

    @override
    async def _receiver(self, old: Connection) -> Receiver | None:
        self.sides.meet(old)
        link, call = self.sides.terms, old.core().calling
        try:
            await old.run(call("queue.declare", {"queue": link.upstream, "passive": True}))
        except ChannelClosed as error:
            if error.code != NOT_FOUND:
                raise
            await old.run(call("queue.declare", {"queue": link.upstream, "exclusive": False, **link.declared}))
        self._has_window = old.core().is_penstock()
        self._receiving = await super()._receiver(old)
        return self._receiving

    @override
    def _receiver_options(self) -> dict[str, object]:
        window = {"consumerWindowSize": WINDOW_BYTES} if self._has_window else {}
        return super()._receiver_options() | window

    def look_again(self) -> None:
        """Ask the broker here again soon: it has news."""
        self.sides.news.set()
        if self._relay is not None:
            self._relay.wake()

    @override
    def stop(self) -> None:
        super().stop()
        self.sides.news.set()

    @override
    def _left(self, relay: Relay) -> int:
        return min(super()._left(relay), self._until - self._taken)

    @override
    async def _wait(self, relay: Relay, left: int, old: Connection, new: Connection) -> int:
        if left > 0:
            moved = await super()._wait(relay, left, old, new)
            is_time = asyncio.get_running_loop().time() >= self._ask_at or self.sides.news.is_set()
            if is_time and not relay.receiver.ready and not relay.under_way:
                self._until, self._ask_at = self._taken + moved, 0.0  # Consumers may have gone meanwhile.
            return moved
        if relay.under_way:
            self._ask_at = 0.0
            return await super()._wait(relay, left, old, new)
        await self._ask_for_room()
        return 0

    async def _ask_for_room(self) -> None:
        """Ask whether consumers wait, if it is time. Without any the upstream stops to deliver, after a moment."""
        assert self._receiving is not None
        time = asyncio.get_running_loop().time
        if time() < self._ask_at and not self.sides.news.is_set():
            await self.sides.await_news(min(self._ask_at - time(), LOOK_S))
            return
        if self.sides.news.is_set():
            self.sides.news.clear()
            self._pause_s = SOON_S
        room = int((await self.sides.ask(self._connections[NOUNS[1]], queue=self.sides.terms.resource)).get("room", 0))
        self._ask_at = time() + (LOOK_AGAIN_S if self._pause_s > STILL_S else self._pause_s)
        self._pause_s = min(2 * self._pause_s, 2 * STILL_S)
        if room > 0:
            self._until = self._taken + max(room, STOCK)
            self._ask_at, self._pause_s = time() + LOOK_AGAIN_S, SOON_S
            if not self._is_resumed:
                self._receiving.resume()
                self._is_resumed = True
        elif self._is_resumed and self._pause_s > STILL_S:
            await self._receiving.drain()
            while (unsent := self._receiving.receive_nowait()) is not None:
                unsent.release()
            self._is_resumed = False

    def _change(self, delivery: Delivery, message: Forwarded) -> bool:
        origin = (delivery.exchange, delivery.routing_key)
        message.properties = self.sides.vouched(
            with_queue(delivery.properties, self.sides.place, delivery.redelivered, origin)
        )
        return True

    @override
    def _look(self, relay: Relay, publisher: Publisher) -> None:
        super()._look(relay, publisher)
        if self.state.name == IDLE and not self._is_resumed:
            self.state.reason = f"no consumer waits at queue '{self.sides.terms.resource}'"


FederationLink = ExchangeLink | QueueLink


def link_of(terms: LinkTerms, uri: str, old: Options, local: str, new: Options, state: State) -> FederationLink:
    """Return a link; `uri` and `local` are the URLs of the upstream and of this broker."""
    if terms.kind == EXCHANGE:
        source, target = End(uri, "", terms.upstream, None), End(local, "", terms.resource, None)
        return ExchangeLink(terms, source, target, old, new, state)
    source, target = End(uri, terms.upstream, "", None), End(local, terms.resource, "", None)
    return QueueLink(terms, source, target, old, new, state)
