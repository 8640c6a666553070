"""Scrapes of a broker with many queues: time, processor time, size, and the longest pass of the event loop.

`python -m bench.scrape [QUEUES]` runs a broker in this process, declares the queues, and scrapes each path five times,
and then again while it watches the passes of the loop. The goals are 200 ms for `/metrics` with 10,000 queues, and no
pass of the loop above 10 ms of its own processor time: what other programs take is not counted.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import statistics
import sys
import time
from dataclasses import dataclass

import penstock
from penstock.settings.config import Settings

QUEUES = 10_000
TIMES = 5
PATHS = (
    "/metrics",
    "/metrics/detailed?family=queue_coarse_metrics",
    "/metrics/detailed?family=penstock_queue_gate_metrics",
    "/metrics/per-object",
)
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


@dataclass
class Scrape:
    """One scrape: wall and processor milliseconds of broker and scraper, octets, and the longest pass of the loop."""

    ms: float
    cpu_ms: float
    octets: int
    longest_ms: float = 0.0


class Watch:
    """Watch over the passes of the loop: it comes again in each, and notes the most processor time between two."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = time.thread_time()
        self.longest_s = 0.0
        self.stopped = False
        loop.call_soon(self._look)

    def _look(self) -> None:
        now = time.thread_time()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        if not self.stopped:
            self._loop.call_soon(self._look)


def ask(address: tuple[str, int], path: str) -> Scrape:
    """Scrape a path once, in a thread beside the broker."""
    connection = http.client.HTTPConnection(*address)
    begun, used = time.perf_counter(), time.process_time()
    connection.request("GET", path, headers=LOGIN)
    octets = len(connection.getresponse().read())
    connection.close()
    return Scrape((time.perf_counter() - begun) * 1000, (time.process_time() - used) * 1000, octets)


async def measured(queues: int) -> dict[str, list[Scrape]]:
    """Return the scrapes of each path, after one that is not counted."""
    settings = Settings(metrics_objects_max=max(queues, 1))
    found: dict[str, list[Scrape]] = {}
    async with penstock.Broker(listen="127.0.0.1:0", http="127.0.0.1:0", settings=settings) as broker:
        vhost = broker.driver.broker.vhosts["/"]
        for number in range(queues):
            vhost.declare_queue(f"queue-{number}", {}, False, False, None, None)
        for path in PATHS:
            await asyncio.to_thread(ask, broker.http_addresses[0], path)
            found[path] = []
            for _ in range(TIMES):
                scrape = await asyncio.to_thread(ask, broker.http_addresses[0], path)
                watch = Watch(asyncio.get_running_loop())
                await asyncio.to_thread(ask, broker.http_addresses[0], path)
                watch.stopped = True
                scrape.longest_ms = watch.longest_s * 1000
                found[path].append(scrape)
    return found


def main() -> None:
    """Measure, and print a line for each path: medians."""
    queues = int(sys.argv[1]) if len(sys.argv) > 1 else QUEUES
    form = "compiled" if penstock.compiled() else "interpreted"
    print(f"{queues:,} queues, {form}; medians of {TIMES}: ms, ms of processor, KiB, longest pass of the loop in ms")
    for path, scrapes in asyncio.run(measured(queues)).items():
        rows = [(each.ms, each.cpu_ms, each.octets / 1024, each.longest_ms) for each in scrapes]
        ms, cpu, size, longest = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{path:55} {ms:8.1f} {cpu:8.1f} {size:10,.0f} {longest:8.2f}")


if __name__ == "__main__":
    main()
