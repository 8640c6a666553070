"""Metrics of a node: those of all shards, with the label `shard`, and those of the node's own process without it.

Sums over shards are the work of who scrapes. What names the node in RabbitMQ's dashboards (`rabbitmq_identity_info`) is
written once, because the dashboards join it to everything else of the instance. A shard that does not answer in time is
left out, and has `penstock_shard_up` 0. A shard that ends within its answer keeps what it has written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from penstock.cluster.http_pass import target_of
from penstock.cluster.metrics_join import OF_OBJECTS, OF_SUMS, BadAnswer, Order, Source, joined
from penstock.cluster.node_api import asker_of
from penstock.cluster.shard_http import ShardCut, ShardRequest
from penstock.cluster.ways import Ways
from penstock.describe.exposition import Exposition, Family, label
from penstock.describe.node import BUILD as VERSIONS
from penstock.describe.node import CERTIFICATE, IDENTITY, NODE, NodeFigures, write, write_identity
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from penstock.flow.pool import PoolHolder, Pools
from penstock.server.asker import Asker
from penstock.server.event_loop import EventLoop
from penstock.server.http.metrics import (
    OPENMETRICS,
    OPENMETRICS_TYPE,
    PLAIN,
    BoundedStream,
    MetricsService,
    Pause,
)
from penstock.server.http.request import ApiRequest, HttpError
from penstock.server.inside import SILENCE_S

SCRAPER: Final = Asker(user="", scopes=("tag:management", "tag:monitoring"), label="a scraper")
"""User of scrapes without a login."""
OF_NODE: Final = frozenset((IDENTITY.name, VERSIONS.name))
"""Families that the node alone writes."""
WITHOUT: Final = frozenset([name.encode() for each in (IDENTITY, VERSIONS) for name in (each.name, each.base())])
LOGINS: Final = (
    "rabbitmq_auth_attempts_total", "rabbitmq_auth_attempts_succeeded_total", "rabbitmq_auth_attempts_failed_total",
    "penstock_logins_refused_total",
)  # fmt: skip
"""Families of the node itself that are sums over its brokers: clients log in at both."""
OF_PROCESS: Final = (
    "rabbitmq_erlang_uptime_seconds", "rabbitmq_process_open_fds", "rabbitmq_process_max_fds",
    "rabbitmq_process_resident_memory_bytes",
)  # fmt: skip
"""Families of the node's own process."""
SHARD_UP: Final = Family("penstock_shard_up", "Whether a shard has answered this scrape (1), or not (0)")
SHARD_STARTS: Final = Family("penstock_shard_starts_total", "Processes of a shard that were started")
PIECE_BYTES: Final = 16 * 1024
"""Bytes of an answer that are written at once: some tenths of a millisecond of work."""
FAMILIES: Final[tuple[Family, ...]] = (SHARD_UP, SHARD_STARTS)
"""Families about the shards of a node, in the order of the answer."""


class NodeMetrics(MetricsService):
    """Metrics of a node, for all its listeners."""

    def __init__(
        self, event_loop: EventLoop, objects_max: int, pools: Pools, ways: Ways, brokers: list[BrokerDriver]
    ) -> None:
        """`brokers` are those in the node's process at which clients log in."""
        super().__init__(event_loop, objects_max, pools)
        self._ways = ways
        self._brokers = brokers

    @override
    async def scraped(self, request: ApiRequest) -> Response:
        return await self._answer(request.http_request, request.pause, request.holder, asker_of(request))

    @override
    async def answer(self, http_request: Request, pause: Pause, holder: PoolHolder) -> Response:
        return await self._answer(http_request, pause, holder, SCRAPER)

    async def _answer(self, http_request: Request, pause: Pause, holder: PoolHolder, asker: Asker) -> Response:
        path = http_request.scope["path"]
        if path == "/metrics/detailed":
            self.selection(http_request)
        process = await asyncio.to_thread(self.source.process)
        await pause()
        self.check_room(holder)
        accept = http_request.headers.get("accept", "")
        openmetrics = choose_encoder(accept)[1].startswith(OPENMETRICS)
        figures = self.source.figures(process)
        figures.ready = not all(self._ways.obstacle(name) for name in self._ways.names())
        own = self._own_text(figures, openmetrics, path == "/metrics")
        scrape = _Scrape(self._ways, asker, OF_SUMS if path == "/metrics" else OF_OBJECTS, openmetrics)
        media_type = OPENMETRICS_TYPE if openmetrics else PLAIN
        texts = scrape.texts(target_of(http_request), own, pause)
        return BoundedStream(self.pool, holder, texts, media_type, http_request)

    def _own_text(self, figures: NodeFigures, openmetrics: bool, has_sums: bool) -> bytes:
        """Return the families of the node's own process, in the order of all."""
        out, driver = Exposition(openmetrics), self.event_loop.driver
        figures.store = ""
        write_identity(out, driver, figures)
        for family in NODE.families if has_sums else ():
            if family.name in LOGINS:
                values = [family.value(figures, reading(each)) for each in self._brokers]
                out.single(family, sum([value for value in values if isinstance(value, int)]))
            elif family.name in OF_PROCESS:
                value = family.value(figures, reading(driver))
                if value is not None:
                    out.single(family, value)
        if has_sums:
            ends = [(f"{label('file', file)},{label('name', name)}", end) for file, name, end in figures.certificates]
            write(out, CERTIFICATE, ends)
            for process, samples in figures.process:
                out.begin(process)
                for name, labels, number in samples:
                    out.add(name, labels, number)
        return out.take().encode(errors="replace")


class _Scrape:
    """One scrape of all shards."""

    def __init__(self, ways: Ways, asker: Asker, order: Order, openmetrics: bool) -> None:
        self._ways = ways
        self._asker = asker
        self._order = order
        self._openmetrics = openmetrics
        self._up: dict[str, bool] = dict.fromkeys(ways.names(), False)
        self._shards: dict[Source, str] = {}
        self._requests: list[ShardRequest] = []

    async def texts(self, target: bytes, own: bytes, pause: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
        """Yield the answer in parts."""
        try:
            begun = await asyncio.gather(*[self._begin(name, target) for name in self._up])
            sources = [await _own_source(own, self._order), *[source for source in begun if source is not None]]
            parts: list[bytes] = []
            size = 0
            async for part in joined(sources, self._fail):
                parts.append(part)
                size += len(part)
                if size >= PIECE_BYTES:
                    yield b"".join(parts)
                    parts, size = [], 0
                    await pause()
            yield b"".join([*parts, self._end()])
        finally:
            for request in self._requests:
                request.close()

    async def _begin(self, name: str, target: bytes) -> Source | None:
        """Begin the scrape of a shard; None if it does not answer in time."""
        wanted = OPENMETRICS_TYPE if self._openmetrics else PLAIN
        try:
            async with asyncio.timeout(SILENCE_S):
                headers = [(b"accept", wanted.encode())]
                request = await self._ways.request(name, self._asker, b"GET", target, headers, 0.0)
                self._requests.append(request)
                await request.end()
                await request.answer()
                if request.status != 200:
                    return None
                shard = label("shard", name).encode()
                source = Source(shard, _timed(request.parts()), self._order, WITHOUT)
                await source.begin()
        except (HttpError, OSError, ShardCut, BadAnswer, TimeoutError):
            return None
        self._up[name] = True
        self._shards[source] = name
        return source

    def _fail(self, source: Source, error: Exception) -> None:
        self._up[self._shards[source]] = False

    def _end(self) -> bytes:
        out = Exposition(self._openmetrics)
        write(out, SHARD_UP, [(label("shard", name), up) for name, up in self._up.items()])
        write(out, SHARD_STARTS, [(label("shard", name), self._ways.starts(name)) for name in self._up])
        out.end()
        return out.take().encode()


async def _own_source(text: bytes, order: Order) -> Source:
    async def parts() -> AsyncIterator[bytes]:
        yield text

    source = Source(b"", parts(), order)
    await source.begin()
    return source


async def _timed(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield parts of an answer. Raises ShardCut after too long a silence."""
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                part = await anext(parts, None)
        except TimeoutError:
            raise ShardCut(f"the shard has not answered for {SILENCE_S:g} s") from None
        if part is None:
            return
        yield part
