"""Facts about this process for operations: cheap facts at once, and samples that a thread reads."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
from functools import partial

from typing_extensions import override

from penstock.flow.wait import Wait
from penstock.management.process_facts import ProcessFacts, ProcessSample
from penstock.server.event_loop import EventLoop
from penstock.server.process_limits import mapped_bytes, memory_bytes


class ServerFacts(ProcessFacts):
    """Facts about the process of a server."""

    def __init__(self, event_loop: EventLoop, listeners: list[tuple[str, str, int]]) -> None:
        """`listeners` is the list of the node, which grows as ports are opened."""
        super().__init__()
        self.pid = os.getpid()
        self.python = sys.version.split()[0]
        self.listeners = listeners
        self._event_loop = event_loop
        self._sampling: Wait | None = None
        """Wait for the sample that a thread is reading; None without one."""

    @override
    def uptime_s(self) -> float:
        return self._event_loop.loop.time() - self._event_loop.started

    @override
    def sockets(self) -> int:
        return len(self._event_loop.transports)

    @override
    def obstacle(self) -> str:
        return self._event_loop.readiness.obstacle

    @override
    def sample(self) -> Wait:
        """Read a sample in a thread. Requests that come meanwhile share the sample, so that one thread reads."""
        if self._sampling is None:
            self._sampling = Wait()
            reading = self._event_loop.loop.run_in_executor(None, read_sample)
            reading.add_done_callback(partial(self._sampled, self._sampling))
        return self._sampling

    def _sampled(self, wait: Wait, reading: asyncio.Future[ProcessSample]) -> None:
        self._sampling = None
        if not reading.cancelled():
            error = reading.exception()
            if error is None:
                self.last = reading.result()
            elif isinstance(error, Exception):
                self._event_loop.driver.failures.report("a sample of the process", error)
        wait.end()


def read_sample() -> ProcessSample:
    """Read a sample: in a thread, because reading the open files and files of the system may take long."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    threads, processors = threading.active_count(), os.cpu_count() or 1
    return ProcessSample(_open_files(), files_max, used_memory(), memory_bytes(), threads, processors)


def used_memory() -> int:
    """Return the resident memory in bytes; where the system does not report it, the highest value so far."""
    return mapped_bytes(1) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _open_files() -> int:
    """Return the number of open files; 0 if the system does not know."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
