"""Figures of the node that only the server has, for the metrics: the process, the store, the certificates."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from penstock.core.broker import Broker
from penstock.describe.exposition import COUNTER, Family, label
from penstock.describe.node import NodeFigures

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop


class Collector(Protocol):
    """Source of metrics in the library's form."""

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as they are now."""


class FigureSource:
    """Source of the figures of one broker."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._event_loop = event_loop
        none = CollectorRegistry()
        self._collectors: list[Collector] = [ProcessCollector(registry=none), GCCollector(registry=none)]

    def process(self) -> list[Metric]:
        """Return the metrics of the process. They list all open files, which takes long with many: for a thread."""
        return [metric for collector in self._collectors for metric in collector.collect()]

    def figures(self, process: list[Metric]) -> NodeFigures:
        """Return the figures as they are now, with the metrics of the process."""
        event_loop = self._event_loop
        driver = event_loop.driver
        found = NodeFigures()
        found.ready = not event_loop.readiness.obstacle
        found.uptime_s = event_loop.loop.time() - event_loop.started
        found.sockets = len(event_loop.transports)
        found.python = platform.python_version()
        found.compiled = not str(sys.modules[Broker.__module__].__file__).endswith(".py")
        found.turns = driver.scheduler.turn_times.seconds
        found.long_entries = driver.scheduler.entries.view()
        found.connections_opened = driver.connected
        if driver.tracer is not None:
            found.spans = driver.tracer.collector.exported(), driver.tracer.collector.dropped()
        writer = event_loop.store_writer
        if writer is not None:
            found.store = type(writer.store).__name__.removesuffix("Store").lower()
            found.transactions = writer.transactions
            found.transaction_bytes = writer.transaction_bytes
        found.certificates += driver.certificates.ends()
        for metric in process:
            found.process.append(_family(metric))
            self._note(found, metric)
        return found

    def _note(self, found: NodeFigures, metric: Metric) -> None:
        """Take what RabbitMQ has under a name of its own."""
        value = int(metric.samples[0].value) if metric.samples else 0
        if metric.name == "process_open_fds":
            found.open_files = value
        elif metric.name == "process_max_fds":
            found.files_max = value
        elif metric.name == "process_resident_memory_bytes":
            found.resident_bytes = value


def _family(metric: Metric) -> tuple[Family, list[tuple[str, str, float]]]:
    """Return a metric of the library as a family with its samples."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    kind = COUNTER if metric.type == "counter" else metric.type
    samples = [
        (sample.name, ",".join(label(key, value) for key, value in sample.labels.items()), float(sample.value))
        for sample in metric.samples
    ]
    return Family(name, metric.documentation, kind), samples
