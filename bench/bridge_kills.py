"""Kill a bridge that carries exactly once, its source and its target, again and again: nothing lost, nothing twice.

    python -m bench.bridge_kills [--kills 200] [--seed N] [--victims bridge source target] [--port N]

Both brokers have a store. In each round the bridge is stopped for a moment while messages are published, and confirmed;
it goes on, and within half a second one of the three is killed with SIGKILL and started again. After ten rounds the
target must have every message once, in the order in which it was published. Exit code 1 when it has not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from bench.processes import free_port
from penstock.sync import Connection, connect

BRIDGE, SOURCE, TARGET = "bridge", "source", "target"
QUEUE, MARKER = "kills", "marker"
ROUNDS_A_LOOK = 10
MESSAGES = 4_000
"""Messages of a round."""
LATEST_S = 0.5
"""Seconds after which a round has killed its victim, at the latest."""
PATIENCE_S = 120.0


class Broker:
    """A broker with a store, which is killed and started again."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self._command = [sys.executable, "-m", "penstock", "serve", "--listen", f"127.0.0.1:{port}", "--data"]
        self._command += [str(folder / name), "--http", "off", "--quiet"]
        self.restarts: list[float] = []
        self.start()

    def start(self) -> None:
        began = time.monotonic()
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            raise SystemExit(f"a broker did not start: {line}")
        self.restarts.append(time.monotonic() - began)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Bridge:
    """The bridge between them, as a process of its own."""

    def __init__(self, source: Broker, target: Broker) -> None:
        self._command = [sys.executable, "-m", "penstock", "bridges", "run", f"{source.url}?queue={QUEUE}", target.url]
        self._command += ["--exactly-once", "--name", "kills"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        if self.process.poll() is not None:
            raise SystemExit(f"the bridge has ended with {self.process.returncode}")
        self.process.send_signal(number)


class Rounds:
    """Rounds of kills, and what the target has."""

    def __init__(self, folder: Path, seed: int, victims: list[str], port: int) -> None:
        self._chance = random.Random(seed)
        self._victims = victims
        ports = (port, port + 1) if port else (free_port(), free_port())
        self.source, self.target = (Broker(folder, name, at) for name, at in zip((SOURCE, TARGET), ports, strict=True))
        for broker in (self.source, self.target):
            with connect(broker.url) as connection:
                for queue in (QUEUE, MARKER):
                    connection.declare_queue(queue)
        self.bridge = Bridge(self.source, self.target)
        self.kills: Counter[str] = Counter()
        self.published = 0
        self.seen = 0
        self.lost, self.twice, self.misplaced = 0, 0, 0

    def round(self) -> None:
        self._await_bridge()
        self.bridge.send(signal.SIGSTOP)
        self._publish()
        self.bridge.send(signal.SIGCONT)
        name = self._chance.choice(self._victims)
        victims: dict[str, Broker | Bridge] = {BRIDGE: self.bridge, SOURCE: self.source, TARGET: self.target}
        victim = victims[name]
        time.sleep(self._chance.uniform(0, LATEST_S))
        victim.kill()
        if name == BRIDGE:
            with connect(self.source.url) as connection:
                while self._is_read(connection):
                    time.sleep(0.01)
        victim.start()
        self.kills[name] += 1
        print(f"\r{self.kills.total()} kills, {name} last", end="", flush=True)

    def _await_bridge(self) -> None:
        """Wait until the bridge reads the source; it is started again if it came when a broker was not there."""
        deadline = time.monotonic() + PATIENCE_S
        with connect(self.source.url) as connection:
            while not self._is_read(connection):
                if time.monotonic() > deadline:
                    raise SystemExit(f"the bridge does not read the source within {PATIENCE_S:g} s")
                if self.bridge.process.poll() is not None:
                    time.sleep(0.5)
                    self.bridge.start()
                time.sleep(0.05)

    def _is_read(self, connection: Connection) -> bool:
        rows = [row for row in connection.list("cursors") if row["name"] == "bridge kills"]
        return any((row["reader"] or {}).get("open") for row in rows)

    def _publish(self) -> None:
        """Publish the messages of a round, half of them in one protocol, and wait for the confirms."""
        protocol: Literal["amqp091", "amqp10"] = "amqp091" if self._chance.random() < 0.5 else "amqp10"
        size = self._chance.choice((0, 60, 600))
        with (
            connect(self.source.url, protocol=protocol) as connection,
            connection.publisher(QUEUE, durable=True) as sender,
        ):
            first = self.published
            sender.send_many(b"%d " % number + bytes(size) for number in range(first, first + MESSAGES))
        self.published += MESSAGES

    def look(self) -> bool:
        """Take what the target has, once all has been carried; return whether it is what was published."""
        self._await_empty()
        self.bridge.send(signal.SIGSTOP)
        found = self._taken()
        self.bridge.send(signal.SIGCONT)
        expected = range(self.seen, self.published)
        counts = Counter(found)
        self.lost += sum(number not in counts for number in expected)
        self.twice += sum(count - 1 for count in counts.values())
        firsts = list(dict.fromkeys(found))
        self.misplaced += sum(later < earlier for earlier, later in pairwise(firsts))
        self.seen = self.published
        return found == list(expected)

    def _await_empty(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with connect(self.source.url) as connection:
                row: dict[str, Any] = next(each for each in connection.list("queues") if each["name"] == QUEUE)
            if row["messages"] == 0:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{row['messages']:,} messages were not carried within {PATIENCE_S:g} s")
            time.sleep(0.1)

    def _taken(self) -> list[int]:
        found: list[int] = []
        with connect(self.target.url, protocol="amqp091") as connection:
            with connection.receiver(QUEUE) as receiver:
                while (delivery := receiver.receive(1.0)) is not None:
                    found.append(int(delivery.body.split(b" ")[0]))
                    delivery.accept()
            # What is confirmed now was written behind the acknowledgements, so no kill brings them back.
            connection.publisher(MARKER, durable=True).send(b"")
        return found

    def close(self) -> None:
        for each in (self.bridge, self.source, self.target):
            each.kill()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.bridge_kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="what chance begins with")
    parser.add_argument("--victims", nargs="+", choices=(BRIDGE, SOURCE, TARGET), default=[BRIDGE, SOURCE, TARGET])
    parser.add_argument("--port", type=int, default=0, help="first of two ports (default: free ones)")
    return parser.parse_args()


def main() -> int:
    """Run it; 1 when a message was lost, twice or out of order."""
    wanted = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="bridge-kills-"))
    print(f"seed {wanted.seed}, in {folder}", flush=True)
    rounds = Rounds(folder, wanted.seed, wanted.victims, wanted.port)
    began, is_kept = time.monotonic(), True
    try:
        while is_kept and rounds.kills.total() < wanted.kills:
            for _ in range(min(ROUNDS_A_LOOK, wanted.kills - rounds.kills.total())):
                rounds.round()
            is_kept = rounds.look()
            print(f"\r{rounds.kills.total()} kills, {rounds.published:,} messages: lost {rounds.lost:,}, twice "
                  f"{rounds.twice:,}, out of order {rounds.misplaced:,}", flush=True)  # fmt: skip
    finally:
        rounds.close()
    restarts = sorted(rounds.source.restarts + rounds.target.restarts)
    seconds = time.monotonic() - began
    print(f"{dict(rounds.kills)} in {seconds:,.0f} s; median restart {restarts[len(restarts) // 2]:.2f} s")
    if is_kept:
        shutil.rmtree(folder)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
