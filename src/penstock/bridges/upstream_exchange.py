"""Declarations of a link at the upstream of a federated exchange: a queue, and an exchange that feeds it.

Messages collect in the queue while the link is away. An internal fanout exchange between the federated exchange and the
queue has the bindings: two names for it, A and B, take turns, so that a link that comes back gets rid of bindings that
have gone meanwhile. The new exchange is complete before the old one is deleted: no message is lost, and none comes
twice, because a message is routed to a queue once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from penstock.bridges.link_terms import LinkTerms
from penstock.bridges.upstream_bindings import Bindings, entry, repeated
from penstock.client.aio import Connection
from penstock.client.errors import ChannelClosed

NOT_FOUND: Final = 404
AT_ONCE: Final = 100
"""Bindings that are asked for before the first one is answered."""
SUFFIXES: Final = ("A", "B")
PURPOSE: Final = {"x-internal-purpose": "federation"}


class UpstreamExchange:
    """Declarations of one link at its upstream, over one connection."""

    def __init__(self, connection: Connection, terms: LinkTerms) -> None:
        self._connection = connection
        self._terms = terms
        self.cluster = text_of(connection.server_properties.get("cluster_name"))
        """Name of the upstream's cluster; empty if it tells none."""
        self.vhost = vhost_of(connection)
        self.queue = queue_name(terms, self.vhost)
        self._suffix = SUFFIXES[0]
        self._bound: Bindings = {}

    async def begin(self, bindings: list[tuple[str, Mapping[str, Any]]]) -> None:
        """Declare exchange, queue and bindings; bindings of an earlier life go at the end."""
        terms = self._terms
        if not await self._exists(terms.upstream):
            await self._call(
                "exchange.declare", exchange=terms.upstream, internal=False, **terms.declared,
            )  # fmt: skip
        await self._call(
            "queue.declare", queue=self.queue, durable=True, exclusive=False, auto_delete=False,
            arguments=dict(terms.queue_arguments),
        )  # fmt: skip
        old = [suffix for suffix in SUFFIXES if await self._exists(self._inner(suffix))]
        # After an end in the middle there are two: the first one is completed, and the second one goes.
        self._suffix = SUFFIXES[1] if old == [SUFFIXES[0]] else SUFFIXES[0]
        inner = self._inner(self._suffix)
        await self._call(
            "exchange.declare", exchange=inner, type="fanout", durable=True, auto_delete=True, internal=True,
            arguments=PURPOSE,
        )  # fmt: skip
        await self._call("queue.bind", queue=self.queue, exchange=inner, routing_key="", arguments={})
        await self.bind(bindings)
        for suffix in old:
            if suffix != self._suffix:
                await self._call("exchange.delete", exchange=self._inner(suffix), if_unused=False)

    async def bind(self, bindings: list[tuple[str, Mapping[str, Any]]]) -> None:
        """Make the bindings at the upstream those of the exchange here: new ones first, then those that have gone."""
        terms = self._terms
        here = entry(terms.cluster, terms.vhost, terms.resource, self._suffix)
        wanted = repeated(bindings, here, (self.cluster, self.vhost), terms.max_hops)
        await self._each("exchange.bind", {name: wanted[name] for name in wanted if name not in self._bound})
        self._bound |= wanted
        gone = {name: self._bound[name] for name in self._bound if name not in wanted}
        await self._each("exchange.unbind", gone)
        self._bound = wanted

    @property
    def bound(self) -> int:
        """Return the number of bindings at the upstream."""
        return len(self._bound)

    async def check(self) -> None:
        """Make all bindings again, which changes nothing unless somebody has deleted and declared the exchange there.

        Raises `ChannelClosed` if it is gone.
        """
        await self._exists(self._terms.upstream, True)
        await self._each("exchange.bind", self._bound)

    async def _each(self, method: str, bindings: Bindings) -> None:
        """Make or remove bindings, some at a time: each by itself would take a round trip."""
        each = list(bindings.values())
        for start in range(0, len(each), AT_ONCE):
            calls = [
                self._call(
                    method, destination=self._inner(self._suffix), source=self._terms.upstream, routing_key=key,
                    arguments=arguments,
                )
                for key, arguments in each[start : start + AT_ONCE]
            ]  # fmt: skip
            for result in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result

    async def delete(self) -> None:
        """Delete the queue, and with it the exchange that feeds it."""
        await self._call("queue.delete", queue=self.queue, if_unused=False, if_empty=False)
        for suffix in SUFFIXES:
            with suppress(ChannelClosed):  # It goes with its last binding.
                await self._call("exchange.delete", exchange=self._inner(suffix), if_unused=False)

    async def _exists(self, exchange: str, is_needed: bool = False) -> bool:
        try:
            await self._call(
                "exchange.declare", exchange=exchange, type="", passive=True, durable=False, auto_delete=False,
                internal=False, arguments={},
            )  # fmt: skip
        except ChannelClosed as error:
            if error.code != NOT_FOUND or is_needed:
                raise
            return False
        return True

    def _inner(self, suffix: str) -> str:
        return f"{self.queue} {suffix}"

    async def _call(self, method: str, **fields: Any) -> None:
        await self._connection.run(self._connection.core().calling(method, fields))


def queue_name(terms: LinkTerms, vhost: str) -> str:
    """Return the name of the queue at the upstream, as RabbitMQ forms it; `vhost` is the virtual host there."""
    if terms.vhost != vhost:
        here = f":{terms.vhost}:{terms.resource}"
    else:
        here = "" if terms.resource == terms.upstream else f":{terms.resource}"
    return f"federation: {terms.upstream} -> {terms.cluster}{here}"


def vhost_of(connection: Connection) -> str:
    """Return the virtual host of a connection."""
    vhost: str = connection.core().terms.virtual_host
    return vhost


def text_of(value: object) -> str:
    """Return a text of a peer's properties; empty for anything else."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else ""
