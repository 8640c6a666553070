"""What open consoles cost: the broker's processor time, and the round trips of another client beside them.

`python -m bench.console` starts a broker with `--queues` queues. It measures without a console, with `--consoles`
streams of events, with as many consoles that also show the list of queues by depth, and with `penstock top` and a
scrape of `/metrics` each second beside those. The goals are less than 3 % of a core for the consoles, and a 99th
percentile of the round trips of at most 1.1 times the quiet one. Windows are interleaved. Whoever looks is in a
process of its own, so that the round trips are not slowed by their client.

In the last window all of them look at a second broker on the same machine. So its percentile is what the competition
for processors costs, whatever the first broker does.
"""

import argparse
import http.client
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import processes
from bench.brokers import COMPILED, INTERPRETED, PenstockNode
from penstock.cli.common import Feed
from penstock.client.engine.messages import Message
from penstock.sync import connect

LOGIN = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
LIST = "/api/queues?page=1&page_size=50&sort=messages&sort_reverse=true"
AGAIN_S = 10.0
BUSY = 50
"""Seconds from one page of a list to the next, or so many times what it took: as the console does."""
RATE = 100
"""Round trips a second."""
TOP = {"order": "blocked", "count": 100, "everywhere": False, "history": 60}
"""What `penstock top` asks for each second on a wide terminal."""


@dataclass(frozen=True)
class Kind:
    """Who looks at the broker in a window."""

    name: str
    consoles: int = 0
    lists: bool = False
    top: bool = False
    """Whether `penstock top` and a scrape are there too."""
    elsewhere: bool = False
    """Whether they look at the other broker."""


@dataclass(frozen=True)
class Target:
    """A broker with queues."""

    url: str
    pid: int
    port: int
    """Port of HTTP."""


class Onlookers:
    """Consoles, `penstock top` and a scraper as far as the broker sees them, in a process of their own."""

    def __init__(self, kind: Kind, url: str, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._end = context.Event()
        self._process = context.Process(target=_look, args=(kind, url, port, self._end), daemon=True)
        self._process.start()

    def close(self) -> None:
        """End them; a stream ends with its next event."""
        self._end.set()
        self._process.join(30)
        self._process.kill()


def _look(kind: Kind, url: str, port: int, end: threading.Event) -> None:
    """Run what the broker is looked at with until `end` is set."""
    parts: list[Callable[[], None]] = []
    parts += [partial(_follow, port, end)] * kind.consoles
    if kind.lists:
        parts += [partial(_list, port, AGAIN_S * number / kind.consoles, end) for number in range(kind.consoles)]
    if kind.top:
        parts += [partial(_top, url, end), partial(_scrape, port, end)]
    threads = [threading.Thread(target=part, daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _follow(port: int, end: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/penstock/events", headers=LOGIN)
    answer = connection.getresponse()
    while not end.is_set() and answer.readline():
        pass
    connection.close()


def _list(port: int, wait: float, end: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not end.wait(wait):
        begun = time.monotonic()
        _get(connection, LIST)
        wait = max(AGAIN_S, BUSY * (time.monotonic() - begun))
    connection.close()


def _top(url: str, end: threading.Event) -> None:
    feed = Feed(url)
    while not end.wait(1.0):
        feed.ask("top", dict(TOP))
        feed.ask("why", {})
    feed.close()


def _scrape(port: int, end: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not end.wait(1.0):
        _get(connection, "/metrics")
    connection.close()


def _get(connection: http.client.HTTPConnection, path: str) -> None:
    with suppress(http.client.HTTPException):
        connection.request("GET", path, headers=LOGIN)
        connection.getresponse().read()


class Window:
    """One measurement: the broker's share of a core, and the round trips of a victim."""

    def __init__(self, url: str, pid: int, seconds: float) -> None:
        with connect(url, protocol="amqp091") as connection:
            queue = connection.declare_queue(exclusive=True)
            publisher, receiver = connection.publisher(queue, durable=False), connection.receiver(queue)
            used, begun = processor_s(pid), time.monotonic()
            self.trips: list[float] = []
            while time.monotonic() - begun < seconds:
                sent = time.monotonic()
                publisher.publish(b"x")
                if (message := receiver.receive(30.0)) is not None:
                    self.trips.append(time.monotonic() - sent)
                    message.accept()
                time.sleep(max(0.0, 1 / RATE - (time.monotonic() - sent)))
            self.percent = 100 * (processor_s(pid) - used) / (time.monotonic() - begun)

    def p99_ms(self) -> float:
        """Return the 99th percentile of the round trips in milliseconds."""
        return statistics.quantiles(self.trips, n=100)[98] * 1000


def processor_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepare(url: str, queues: int) -> None:
    """Declare queues, some of them with a message."""
    with connect(url, protocol="amqp091") as connection:
        publisher = connection.publisher(durable=False)
        for number in range(queues):
            connection.declare_queue(f"q{number}", durable=False)
            if number % 100 == 0:
                publisher.publish(Message(b"x", routing_key=f"q{number}"))


def measure(broker: Target, other: Target, options: argparse.Namespace) -> None:
    """Print each kind of window: medians of the rounds."""
    kinds = (
        Kind("no console"),
        Kind("events", options.consoles),
        Kind("events and lists", options.consoles, lists=True),
        Kind("the same, top, scrape", options.consoles, lists=True, top=True),
        Kind("all at another broker", options.consoles, lists=True, top=True, elsewhere=True),
    )
    found: dict[str, list[Window]] = {kind.name: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind in kinds:
            looked_at = other if kind.elsewhere else broker
            onlookers = Onlookers(kind, looked_at.url, looked_at.port)
            time.sleep(6.0)
            found[kind.name].append(Window(broker.url, broker.pid, options.seconds))
            onlookers.close()
    for name, windows in found.items():
        share = statistics.median(each.percent for each in windows)
        p99 = statistics.median(each.p99_ms() for each in windows)
        each_p99 = " ".join(f"{each.p99_ms():.2f}" for each in windows)
        print(f"{name:22} {share:6.2f} % of a core   p99 of round trips {p99:6.2f} ms ({each_p99})")


@contextmanager
def running(form: str, queues: int) -> Iterator[Target]:
    """Start a broker with queues; it ends with the context."""
    port = processes.free_port()
    with tempfile.TemporaryDirectory() as folder:
        node = PenstockNode(form, Path(folder), http_port=port)
        process = node.launch()
        try:
            target = Target(f"amqp://guest:guest@127.0.0.1:{node.port(process)}/", process.pid, port)
            prepare(target.url, queues)
            yield target
        finally:
            processes.stop(process)
            node.close()


def main() -> None:
    """Start two brokers, and measure the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interpreted", action="store_true")
    options = parser.parse_args()
    form = INTERPRETED if options.interpreted else COMPILED
    with running(form, options.queues) as broker, running(form, options.queues) as other:
        time.sleep(10.0)  # The sampler has seen them all.
        print(f"{options.queues:,} queues, {options.consoles} consoles, {options.rounds} x {options.seconds:g} s")
        measure(broker, other, options)


if __name__ == "__main__":
    main()
