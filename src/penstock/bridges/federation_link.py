"""Link of federation: a carrier from an upstream to a queue or an exchange of this broker.

A link of an exchange repeats the exchange's bindings at the upstream, where a queue collects its messages, and drops
messages that were here or have no hops left. A link of a queue takes messages only while the queue here is empty and
has consumers that wait: messages go where they are taken. The broker here answers for its queue or exchange
(`federation.look`), with the rights of the user that the link runs as.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
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
from penstock.client.engine.messages import Message
from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ChannelClosed, ClientError, Timeout
from penstock.client.options import Options
from penstock.content.properties import Properties
from penstock.content.received_from import may_go_on

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


class OwnUpstream(ClientError):
    """A queue or exchange would be its own upstream."""


class FederationLink(Carrier):
    """What both kinds of links have."""

    def __init__(self, terms: LinkTerms, source: End, target: End, old: Options, new: Options, state: State) -> None:
        super().__init__(source, target, old, new, _terms_of(terms), state)
        self._link = terms
        self._place: Mapping[str, object] = {"uri": source.broker, terms.kind: terms.upstream}
        self._cluster = ""
        self._vhost = ""
        """Name of the cluster and virtual host of the upstream."""

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

    def _sent(self, delivery: Delivery, properties: Properties, key: str | None) -> Message:
        """Return the message that is sent; the broker here vouches only for the user of the link."""
        if properties.user_id is not None and not (self._link.trusts_user_id and properties.user_id == self._link.user):
            properties.user_id = None
        return Message(delivery.body, properties=properties, routing_key=key)


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
        self._source.queue = self._upstream.queue
        return await super()._receiver(old)

    @override
    def _tasks(self, receiver: Receiver, publisher: Publisher) -> list[Coroutine[Any, Any, None]]:
        return [*super()._tasks(receiver, publisher), self._follow()]

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
    async def _pass_on(self, delivery: Delivery, publisher: Publisher) -> None:
        link = self._link
        if may_go_on(delivery.headers, link.max_hops, link.cluster, link.vhost):
            await super()._pass_on(delivery, publisher)
        else:
            delivery.accept()

    @override
    def _message_of(self, delivery: Delivery) -> Message:
        properties = with_exchange(delivery.properties, self._place, delivery.redelivered, self._cluster, self._vhost)
        return self._sent(delivery, properties, delivery.routing_key)

    async def clean_up(self) -> None:
        """Delete what the link has declared at its upstream; the link must have ended."""
        if self._link.cleans_up:
            async with Connection(self._options[0]) as old:
                await UpstreamExchange(old, self._link).delete()


class QueueLink(FederationLink):
    """Link of a queue."""

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
        return await super()._receiver(old)

    @override
    async def _carry(self, receiver: Receiver, publisher: Publisher) -> None:
        while True:
            room = await self._room(None)
            receiver.resume()
            while room > 0:
                await self._pass_some(receiver, publisher, max(room, STOCK))
                room = await self._room(GRACE_S)
            await receiver.drain()
            while (unsent := receiver.receive_nowait()) is not None:
                unsent.release()

    async def _pass_some(self, receiver: Receiver, publisher: Publisher, most: int) -> None:
        """Pass on messages until there are so many, or no more come, and wait for their outcomes."""
        for _ in range(most):
            delivery = receiver.receive_nowait() or await receiver.receive(QUEUE_LOOK_S)
            if delivery is None:
                break
            await self._take(delivery, publisher)
        while self._underway:
            await self._outcome()

    async def _room(self, seconds: float | None) -> int:
        """Return how many messages consumers wait for; wait for some, at most so long. Without any 0 is returned."""
        time = asyncio.get_running_loop().time
        began, pause = time(), SOON_S
        while True:
            room = int((await self._ask(queue=self._link.resource)).get("room", 0))
            if room or (seconds is not None and time() - began >= seconds):
                return room
            await asyncio.sleep(pause)
            pause = min(2 * pause, QUEUE_LOOK_S)

    @override
    def _message_of(self, delivery: Delivery) -> Message:
        origin = (delivery.exchange, delivery.routing_key)
        return self._sent(delivery, with_queue(delivery.properties, self._place, delivery.redelivered, origin), None)

    @override
    def _look(self, publisher: Publisher) -> None:
        super()._look(publisher)
        if self.state.name == IDLE:
            self.state.reason = f"no consumer waits at queue '{self._link.resource}', or the upstream has no message"


def link_of(terms: LinkTerms, uri: str, old: Options, local: str, new: Options, state: State) -> FederationLink:
    """Return a link; `uri` and `local` are the URLs of the upstream and of this broker."""
    if terms.kind == EXCHANGE:
        source, target = End(uri, "", terms.upstream, None), End(local, "", terms.resource, None)
        return ExchangeLink(terms, source, target, old, new, state)
    source, target = End(uri, terms.upstream, "", None), End(local, terms.resource, "", None)
    return QueueLink(terms, source, target, old, new, state)


def _terms_of(link: LinkTerms) -> Terms:
    arguments = {} if link.kind == EXCHANGE else {"x-priority": PRIORITY}
    return Terms(prefetch=link.prefetch, ack_mode=link.ack_mode, tries_again=True, consumer_arguments=arguments)
