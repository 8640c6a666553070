"""Handlers of metrics: `/metrics`, `/metrics/per-object` and `/metrics/detailed`, streamed in slices.

The format is chosen by the header Accept, by prometheus_client's rules. A scraper that does not read occupies its
socket and the labels of its objects for `SCRAPE_S` at most. Scrapes in progress are bounded by a pool.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, Protocol

from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.describe.exposition import COUNTER, Family, label
from penstock.describe.metrics import GROUPS, Scrape, Selection
from penstock.describe.node import NodeFigures
from penstock.flow.pool import Pool, PoolHolder, Pools
from penstock.server.event_loop import EventLoop
from penstock.server.http.request import ApiRequest, HttpError, StreamedAnswer, bad_request
from penstock.settings.pools import HTTP_SCRAPES

SCRAPE_S: Final = 30.0
"""Seconds that a scraper has to read its answer."""
OPENMETRICS: Final = "application/openmetrics-text"
PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PATHS: Final = ("/metrics", "/metrics/per-object", "/metrics/detailed")
"""Paths of metrics. They are not below /api: scrapers look here."""
IGNORED: Final = frozenset(
    (
        "auth_attempt_detailed_metrics", "auth_attempt_metrics", "channel_process_metrics", "connection_churn_metrics",
        "connection_coarse_metrics", "exchange_bindings", "exchange_names", "federation_link_metrics",
        "node_coarse_metrics", "node_metrics", "node_persister_metrics", "queue_exchange_metrics", "ra_metrics",
        "stream_consumer_metrics", "vhost_status",
    )
)  # fmt: skip
"""Groups of RabbitMQ for which there are no figures by object here: a scrape that asks for them gets the others."""
Pause = Callable[[], Awaitable[None]]
"""Function that lets the broker work."""


class Collector(Protocol):
    """Source of metrics in the library's form."""

    def collect(self) -> Iterable[Metric]:
        """Return the present metrics."""


class FigureSource:
    """Source of the figures of one broker."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._event_loop = event_loop
        none = CollectorRegistry()
        self._collectors: list[Collector] = [ProcessCollector(registry=none), GCCollector(registry=none)]

    def process(self) -> list[Metric]:
        """Return the metrics of the process. Called in a thread, because listing many open files takes long."""
        return [metric for collector in self._collectors for metric in collector.collect()]

    def figures(self, process: list[Metric]) -> NodeFigures:
        """Return the present figures, with the metrics of the process."""
        event_loop = self._event_loop
        driver = event_loop.driver
        figures = NodeFigures()
        figures.ready = not event_loop.readiness.obstacle
        figures.uptime_s = event_loop.loop.time() - event_loop.started
        figures.sockets = len(event_loop.transports)
        figures.python = platform.python_version()
        figures.build = driver.control.build
        figures.turns = driver.scheduler.turn_times.seconds
        figures.long_entries = driver.scheduler.entries.view()
        figures.jobs, figures.jobs_ended = driver.jobs.counts(), driver.jobs.ended
        figures.alarms, figures.hook = driver.alarms.counts(), driver.alarms.listener.fates()
        figures.connections_opened = driver.connected
        if driver.tracer is not None:
            figures.spans = driver.tracer.collector.exported(), driver.tracer.collector.dropped()
        writer = event_loop.store_writer
        if writer is not None:
            figures.store = type(writer.store).__name__.removesuffix("Store").lower()
            figures.transactions = writer.transactions
            figures.transaction_bytes = writer.transaction_bytes
        figures.certificates += driver.certificates.ends()
        for metric in process:
            figures.process.append(_family(metric))
            self._note(figures, metric)
        return figures

    def _note(self, figures: NodeFigures, metric: Metric) -> None:
        """Store a value that RabbitMQ has under another name."""
        value = int(metric.samples[0].value) if metric.samples else 0
        if metric.name == "process_open_fds":
            figures.open_files = value
        elif metric.name == "process_max_fds":
            figures.files_max = value
        elif metric.name == "process_resident_memory_bytes":
            figures.resident_bytes = value


def _family(metric: Metric) -> tuple[Family, list[tuple[str, str, float]]]:
    """Return a metric of the library as a family with its samples."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    kind = COUNTER if metric.type == "counter" else metric.type
    samples = [
        (sample.name, ",".join(label(key, value) for key, value in sample.labels.items()), float(sample.value))
        for sample in metric.samples
    ]
    return Family(name, metric.documentation, kind), samples


class MetricsService:
    """Metrics of one broker, for all its listeners."""

    def __init__(self, event_loop: EventLoop, objects_max: int, pools: Pools) -> None:
        self.pool = pools.of(HTTP_SCRAPES)
        """Scrapes in progress."""
        self.event_loop = event_loop
        self.source = FigureSource(event_loop)
        self._objects_max = objects_max

    async def scraped(self, request: ApiRequest) -> Response:
        """Answer a user of the HTTP API."""
        return await self.answer(request.http_request, request.pause, request.holder)

    async def answer(self, http_request: Request, pause: Pause, holder: PoolHolder) -> Response:
        """Answer a scrape of one of `PATHS`; `pause` lets the broker work. Raises HttpError (400, 503)."""
        process = await asyncio.to_thread(self.source.process)
        await pause()
        self.check_room(holder)
        openmetrics = choose_encoder(http_request.headers.get("accept", ""))[1].startswith(OPENMETRICS)
        scrape = Scrape(self.event_loop.driver, self.source.figures(process), openmetrics)
        path = http_request.scope["path"]
        if path == "/metrics":
            slices = scrape.aggregated()
        elif path == "/metrics/per-object":
            slices = scrape.per_object(Selection(self._objects_max))
        else:
            slices = scrape.per_object(self.selection(http_request))
        media_type = OPENMETRICS_TYPE if openmetrics else PLAIN
        return BoundedStream(self.pool, holder, _texts(slices, pause), media_type, http_request)

    def check_room(self, holder: PoolHolder) -> None:
        """Check that there is room for a scrape. Raises HttpError (503)."""
        if not self.pool.fits(holder, 1):
            reason = self.pool.refusal(holder, 1)
            raise HttpError(503, "service_unavailable", reason, {"Retry-After": "1"})

    def selection(self, http_request: Request) -> Selection:
        """Return the families and virtual hosts in the query of `/metrics/detailed`; both may be repeated.

        Raises HttpError (400).
        """
        wanted = http_request.query_params.getlist("family")
        unknown = [name for name in wanted if name not in GROUPS and name not in IGNORED]
        if unknown:
            raise bad_request(f"family '{unknown[0][:100]}' is unknown; known are {', '.join(sorted(GROUPS))}")
        vhosts = http_request.query_params.getlist("vhost")
        return Selection(self._objects_max, frozenset(wanted), frozenset(vhosts) if vhosts else None, True)


class BoundedStream(StreamedAnswer):
    """Streamed answer; the socket is closed if the client does not read the answer in time."""

    def __init__(
        self, pool: Pool, holder: PoolHolder, texts: AsyncIterator[bytes], media_type: str, http_request: Request
    ) -> None:
        super().__init__(texts)
        self.headers["Content-Type"] = media_type  # Starlette would append a second charset.
        self._pool = pool
        self._holder = holder
        self._http_request = http_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        self._pool.add(self._holder, 1)
        try:
            async with asyncio.timeout(SCRAPE_S):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            self._http_request.state.socket.hang_up()
        finally:
            self._pool.give(self._holder, 1)


async def _texts(slices: Iterator[str], pause: Pause) -> AsyncIterator[bytes]:
    for text in slices:
        if text:
            yield text.encode(errors="replace")
        await pause()
