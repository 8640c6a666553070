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

from penstock.bridges.carrier import NOUNS, QUIET_S, Carrier, Terms
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

LOOK: Final = "federation.look"
SOON_S: Final = 0.002
"""Seconds until the broker here is asked again, at first; each answer without a change doubles them."""
QUEUE_LOOK_S: Final = 0.5
EXCHANGE_LOOK_S: Final = 1.0
"""Most seconds between two looks at a queue, and at the bindings of an exchange."""
STOCK: Final = 64
"""Messages that a queue gets when its consumers wait, even if they wait for fewer: so fast consumers need not wait."""
GRACE_S: Final = 0.5
"""Seconds without a waiting consumer after which the upstream gets back what was not passed on."""
PRIORITY: Final = -1
"""Priority of a link as a consumer of an upstream queue: the upstream's own consumers come first, as with RabbitMQ."""


class OwnUpstream(ConfigError):
    """A queue or exchange would be its own upstream."""


class FederationLink(Carrier):
    """What both kinds of links have."""

    def __init__(self, terms: LinkTerms, source: End, target: End, old: Options, new: Options, state: State) -> None:
        is_queue = terms.kind != EXCHANGE
        super().__init__(
            source,
            target,
            old,
            new,
            Terms(
                prefetch=terms.prefetch,
                ack_mode=terms.ack_mode,
                tries_again=True,
                change=self._change,
                consumer_name=terms.consumer_tag,
                consumer_arguments={"x-priority": PRIORITY} if is_queue else {},
                begins_paused=is_queue,
            ),
            state,
        )
        self._link = terms
        self.is_gone = False
        """True if the link will not come back: it then leaves nothing at its upstream."""
        self._place: Mapping[str, object] = {"uri": source.broker, terms.kind: terms.upstream}
        self._cluster = ""
        self._vhost = ""
        """Name of the cluster and virtual host of the upstream."""

    @property
    def source(self) -> str:
        """Return the queue or exchange of the upstream, without secrets."""
        return f"{self._link.kind} {self._link.upstream} of {self._place['uri']}"

    @property
    def target(self) -> str:
        """Return the queue or exchange here."""
        return f"{self._link.kind} {self._link.resource}"

    def _change(self, delivery: Delivery, message: Forwarded) -> bool:
        """Write the place of a message into its headers; return False for a message that goes no further."""
        raise NotImplementedError

    def _meet(self, old: Connection) -> None:
        """Learn who the upstream is. Raises `OwnUpstream`."""
        link = self._link
        self._cluster, self._vhost = text_of(old.server_properties.get("cluster_name")), vhost_of(old)
        if (self._cluster, self._vhost, link.upstream) == (link.cluster, link.vhost, link.resource):
            raise OwnUpstream(
                f"{link.kind} '{link.resource}' in vhost '{link.vhost}' of {link.cluster} would be its own upstream"
            )

    async def _ask(self, **fields: object) -> dict[str, Any]:
        """Ask the broker here; return nothing if it is too busy to answer in time."""
        answer: dict[str, Any] = {}
        with suppress(Timeout):
            answer = await self._connections[NOUNS[1]].request(LOOK, **fields)
        return answer

    def _vouched(self, properties: Properties) -> Properties:
        """Return properties that were copied, without the user-id of another user: the broker here would refuse it."""
        if not self._link.trusts_user_id:
            properties.user_id = None
        return properties


class ExchangeLink(FederationLink):
    """Link of an exchange."""

    def __init__(self, terms: LinkTerms, source: End, target: End, old: Options, new: Options, state: State) -> None:
        super().__init__(terms, source, target, old, new, state)
        self._upstream: UpstreamExchange | None = None
        self._seen = ""
        """Version of the bindings that the upstream has."""

    @override
    async def _publisher(self, new: Connection) -> Publisher:
        return new.publisher(
            exchange=self._link.resource,
            durable=False,
            mandatory=False,  # A message without a queue is dropped, as one that is published here.
            flow_control_wait_notify_period=QUIET_S,
        )

    @override
    async def _receiver(self, old: Connection) -> Receiver | None:
        self._meet(old)
        self._upstream = UpstreamExchange(old, self._link)
        answer = await self._connections[NOUNS[1]].request(LOOK, exchange=self._link.resource)
        await self._upstream.begin(answer["bindings"])
        self._seen = answer["version"]
        self._source = End(self._source.url, self._upstream.queue, "", None)
        return await super()._receiver(old)

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
        if self.is_gone and self._link.cleans_up:
            assert self._upstream is not None
            with suppress(PenstockError):
                await self._upstream.delete()

    def _stop_following(self, following: asyncio.Task[None]) -> None:
        """Stop the link, which cannot follow its bindings any more; the error is raised at its end."""
        self.stop()

    async def _follow(self) -> None:
        """Repeat changes of the bindings here at the upstream."""
        assert self._upstream is not None
        pause = SOON_S
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, EXCHANGE_LOOK_S)
            answer = await self._ask(exchange=self._link.resource, seen=self._seen)
            if answer and answer["version"] != self._seen:
                await self._upstream.bind(answer["bindings"])
                self._seen, pause = answer["version"], SOON_S

    @override
    def _change(self, delivery: Delivery, message: Forwarded) -> bool:
        link = self._link
        if not may_go_on(delivery.headers, link.max_hops, link.cluster, link.vhost):
            delivery.accept()
            return False
        message.properties = self._vouched(
            with_exchange(delivery.properties, self._place, delivery.redelivered, self._cluster, self._vhost)
        )
        return True


class QueueLink(FederationLink):
    """Link of a queue."""

    def __init__(self, terms: LinkTerms, source: End, target: End, old: Options, new: Options, state: State) -> None:
        super().__init__(terms, source, target, old, new, state)
        self._until = 0
        """Number of messages after which the broker here is asked again whether consumers wait."""
        self._receiving: Receiver | None = None
        self._is_resumed = False
        """True while the upstream delivers."""
        self._asked_in_vain_since = 0.0
        """Time of the first of the last answers without waiting consumers; 0 after another one."""
        self._look_pause = SOON_S

    @override
    async def _receiver(self, old: Connection) -> Receiver | None:
        self._meet(old)
        link, call = self._link, old.core().calling
        try:
            await old.run(call("queue.declare", {"queue": link.upstream, "passive": True}))
        except ChannelClosed as error:
            if error.code != NOT_FOUND:
                raise
            await old.run(call("queue.declare", {"queue": link.upstream, "exclusive": False, **link.declared}))
        self._receiving = await super()._receiver(old)
        return self._receiving

    @override
    def _left(self, relay: Relay) -> int:
        return min(super()._left(relay), self._until - self._taken)

    @override
    async def _wait(self, relay: Relay, left: int, old: Connection, new: Connection) -> int:
        if left > 0:
            moved = await super()._wait(relay, left, old, new)
            if not relay.receiver.ready and not relay.under_way:
                self._until = self._taken + moved  # Nothing has come: consumers may have gone meanwhile.
            return moved
        if relay.under_way:
            return await super()._wait(relay, left, old, new)
        await self._ask_for_room()
        return 0

    async def _ask_for_room(self) -> None:
        """Ask whether consumers wait. Without any the upstream stops to deliver, after a moment."""
        assert self._receiving is not None
        now = asyncio.get_running_loop().time()
        room = int((await self._ask(queue=self._link.resource)).get("room", 0))
        if room > 0:
            self._until = self._taken + max(room, STOCK)
            self._asked_in_vain_since, self._look_pause = 0.0, SOON_S
            if not self._is_resumed:
                self._receiving.resume()
                self._is_resumed = True
            return
        self._asked_in_vain_since = self._asked_in_vain_since or now
        if self._is_resumed and now - self._asked_in_vain_since >= GRACE_S:
            await self._receiving.drain()
            while (unsent := self._receiving.receive_nowait()) is not None:
                unsent.release()
            self._is_resumed = False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._look_pause)
        self._look_pause = min(2 * self._look_pause, QUEUE_LOOK_S)

    @override
    def _change(self, delivery: Delivery, message: Forwarded) -> bool:
        origin = (delivery.exchange, delivery.routing_key)
        message.properties = self._vouched(with_queue(delivery.properties, self._place, delivery.redelivered, origin))
        return True

    @override
    def _look(self, relay: Relay, publisher: Publisher) -> None:
        super()._look(relay, publisher)
        if self.state.name == IDLE and not self._is_resumed:
            self.state.reason = f"no consumer waits at queue '{self._link.resource}'"


def link_of(terms: LinkTerms, uri: str, old: Options, local: str, new: Options, state: State) -> FederationLink:
    """Return a link; `uri` and `local` are the URLs of the upstream and of this broker."""
    if terms.kind == EXCHANGE:
        source, target = End(uri, "", terms.upstream, None), End(local, "", terms.resource, None)
        return ExchangeLink(terms, source, target, old, new, state)
    source, target = End(uri, terms.upstream, "", None), End(local, terms.resource, "", None)
    return QueueLink(terms, source, target, old, new, state)
