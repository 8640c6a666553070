"""Figures of the node for the metrics, which only the server knows: the process, the store, the certificates."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

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
        figures = NodeFigures()
        figures.ready = not event_loop.readiness.obstacle
        figures.uptime_s = event_loop.loop.time() - event_loop.started
        figures.sockets = len(event_loop.transports)
        figures.python = platform.python_version()
        figures.compiled = not str(sys.modules[Broker.__module__].__file__).endswith(".py")
        figures.turns = driver.scheduler.turn_times.seconds
        figures.long_entries = driver.scheduler.entries.view()
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
        """Take what RabbitMQ has under a name of its own."""
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


GROUPS: Final = Path("/proc/self/cgroup")
"""File with the control groups of this process: a line HIERARCHY:CONTROLLERS:PATH for each."""
CGROUPS: Final = Path("/sys/fs/cgroup")
"""Folder with the files of all control groups."""


def memory_bytes() -> int:
    """Return the memory that this process may have; 0 if unknown.

    It is the least of the machine's memory, the limits of its control groups, and the rest of its limits of address
    space and data (`ulimit -v`, `ulimit -d`): the program itself is mapped already.
    """
    try:
        least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
    for which, field in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit = resource.getrlimit(which)[0]
        if limit != resource.RLIM_INFINITY:
            least = min(least, max(1, limit - mapped_bytes(field)))
    return min(least, group_bytes(GROUPS, CGROUPS))


def mapped_bytes(field: int) -> int:
    """Return a field of /proc/self/statm (0: all mapped, 1: resident, 5: data and stacks) in bytes; 0 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def group_bytes(groups: Path, folder: Path) -> int:
    """Return the least memory limit of the control groups in a file and of their parents (version 2 or 1).

    A container may show its own group as the root of `folder`. Without a limit it is `sys.maxsize`.
    """
    least = sys.maxsize
    for path in _limit_files(groups, folder):
        with contextlib.suppress(OSError, ValueError):  # There is none, or it is "max".
            least = min(least, int(path.read_text()))
    return least


def _limit_files(groups: Path, folder: Path) -> Iterator[Path]:
    """Yield the files that may have the limit of a group or of one of its parents."""
    lines = ["0::/", "0:memory:/"]
    with contextlib.suppress(OSError):
        lines += groups.read_text().splitlines()
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = folder / "memory" if controllers else folder
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield root.joinpath(*parts[:depth]) / name


def open_files() -> int:
    """Return the limit of open files and sockets of this process."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""Options of glibc's mallopt(3), from malloc.h."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Freed memory that the process may retain."""
MAPPED_BYTES: Final = 4 * 1024 * 1024
"""Size from which blocks are mapped, and returned to the system when freed."""


def keep_freed_memory() -> None:
    """Let glibc retain some freed memory.

    The output of a turn has some hundred kilobytes. By default glibc may map and unmap them in every turn, depending on
    earlier sizes; the new pages then cost more than the messages in them.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(M_TRIM_THRESHOLD, KEPT_BYTES)
        tune(M_MMAP_THRESHOLD, MAPPED_BYTES)
