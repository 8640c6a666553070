"""What open consoles cost: the broker's processor time, and the round trips of another client beside them.

`python -m bench.console` starts a broker with `--queues` queues. It measures without a console, with `--consoles`
streams of events, and with as many consoles that also show the list of queues by depth. The goals are less than 3 % of
a core, and a 99th percentile of the round trips of at most 1.1 times the quiet one. Windows are interleaved.
"""

import argparse
import http.client
import os
import statistics
import tempfile
import threading
import time
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

from bench import processes
from bench.brokers import COMPILED, INTERPRETED, PenstockNode
from penstock.client import Connection

LOGIN = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
LIST = "/api/queues?page=1&page_size=50&sort=messages&sort_reverse=true"
AGAIN_S = 10.0
BUSY = 50
"""Seconds from one page of a list to the next, or so many times what it took: as the console does."""
RATE = 100
"""Round trips a second."""


class Consoles:
    """Consoles as far as the broker sees them."""

    def __init__(self, port: int, count: int, lists: bool) -> None:
        self.port = port
        self.stopped = threading.Event()
        self.listed: list[float] = []
        """Seconds that each page of the list took."""
        self.threads = [threading.Thread(target=self._follow, daemon=True) for _ in range(count)]
        if lists:
            self.threads += [
                threading.Thread(target=self._list, args=(at / count,), daemon=True) for at in range(count)
            ]
        for thread in self.threads:
            thread.start()

    def _follow(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/penstock/events", headers=LOGIN)
        answer = connection.getresponse()
        while not self.stopped.is_set() and answer.readline():
            pass
        connection.close()

    def _list(self, part: float) -> None:
        self.stopped.wait(AGAIN_S * part)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.stopped.is_set():
            begun = time.monotonic()
            with suppress(http.client.HTTPException):
                connection.request("GET", LIST, headers=LOGIN)
                connection.getresponse().read()
            self.listed.append(time.monotonic() - begun)
            self.stopped.wait(max(AGAIN_S, BUSY * self.listed[-1]))
        connection.close()

    def close(self) -> None:
        """End them; a stream ends with its next event."""
        self.stopped.set()
        for thread in self.threads:
            thread.join(30)


class Window:
    """One measurement: the broker's share of a core, and the round trips of a victim."""

    def __init__(self, url: str, pid: int, seconds: float) -> None:
        with Connection(url) as connection:
            channel = connection.channel()
            queue = channel.queue_declare(exclusive=True)[0]
            channel.consume(queue, no_ack=True)
            used, begun = processor_s(pid), time.monotonic()
            self.trips: list[float] = []
            while time.monotonic() - begun < seconds:
                sent = time.monotonic()
                channel.publish(b"x", routing_key=queue)
                if channel.receive(30.0) is not None:
                    self.trips.append(time.monotonic() - sent)
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
    with Connection(url) as connection:
        channel = connection.channel()
        for number in range(queues):
            channel.queue_declare(f"q{number}")
            if number % 100 == 0:
                channel.publish(b"x", routing_key=f"q{number}")


def measure(url: str, pid: int, port: int, options: argparse.Namespace) -> None:
    """Print each kind of window: medians of the rounds."""
    kinds = (
        ("no console", 0, False),
        ("events", options.consoles, False),
        ("events and lists", options.consoles, True),
    )
    found: dict[str, list[Window]] = {name: [] for name, _, _ in kinds}
    for _ in range(options.rounds):
        for name, number, lists in kinds:
            consoles = Consoles(port, number, lists)
            time.sleep(6.0 if number else 1.0)
            found[name].append(Window(url, pid, options.seconds))
            consoles.close()
    for name, windows in found.items():
        share = statistics.median(each.percent for each in windows)
        p99 = statistics.median(each.p99_ms() for each in windows)
        print(f"{name:18} {share:6.2f} % of a core   p99 of round trips {p99:7.2f} ms")


def main() -> None:
    """Start a broker, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interpreted", action="store_true")
    options = parser.parse_args()
    port = processes.free_port()
    with tempfile.TemporaryDirectory() as folder:
        node = PenstockNode(INTERPRETED if options.interpreted else COMPILED, Path(folder), http_port=port)
        process = node.launch()
        try:
            url = f"amqp://guest:guest@127.0.0.1:{node.port(process)}/"
            prepare(url, options.queues)
            time.sleep(10.0)  # The sampler has seen them all.
            print(f"{options.queues:,} queues, {options.consoles} consoles, {options.rounds} x {options.seconds:g} s")
            measure(url, process.pid, port, options)
        finally:
            processes.stop(process)
            node.close()


if __name__ == "__main__":
    main()
