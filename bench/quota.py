"""The disk-quota experiment: a store that may not grow further blocks its producers, is drained, and lets them go on.

One broker with `disk-overfull` and `disk-underfull`, one publisher of persistent messages with confirms, and one
consumer that begins two seconds after the gate has closed. What the store takes is looked at from outside, as the file
system counts it; gate and depth are what the broker says. It prints the broker's own log lines about the gate and what
was seen, and draws it.
"""

from __future__ import annotations

import argparse
import re
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from bench import processes
from penstock.client.engine.window import SendResult
from penstock.sync import connect

OUTPUT = Path(__file__).resolve().parent / "output" / "quota.png"
MIB = 1024 * 1024
QUEUE = "orders"
BODY = 4096
LOOK_S = 0.05
"""Seconds between two looks at the files, the gate and the depth."""
AT_EASE_S = 2.0
"""Seconds that the gate stays closed before anybody consumes."""
PATIENCE_S = 300.0
ABOUT = re.compile(r"(MST|CHN|PST)-\d+")


@dataclass
class Look:
    """What was seen at one moment; amounts in bytes, times in seconds since the experiment began."""

    at: float
    taken: int
    """By the store's files, as the file system counts them."""
    used: int
    """Of that, what holds something: what the quota is judged by."""
    depth: int
    confirmed: int
    open: bool


@dataclass
class Run:
    """One run."""

    overfull: int
    underfull: int
    messages: int
    url: str
    data: Path
    looks: list[Look] = field(default_factory=list)
    result: SendResult = field(default_factory=SendResult)
    consumed: int = 0
    failure: BaseException | None = None

    def publish(self) -> None:
        """Publish all messages; each is on the disk before it is confirmed."""
        with connect(self.url, protocol="amqp091", flow_control_wait_failure=0) as connection:
            publisher = connection.publisher(QUEUE, window=500, producerWindowSize=-1)
            publisher.send_many(repeat(bytes(BODY), self.messages // 100 * 100), result=self.result)

    def consume(self) -> None:
        """Take and acknowledge all messages."""
        with connect(self.url, protocol="amqp091") as connection:
            receiver = connection.receiver(QUEUE, prefetch=500, consumerWindowSize=-1)
            while self.consumed < self.messages:
                delivery = receiver.receive(PATIENCE_S)
                assert delivery is not None, "no message came"
                self.consumed += 1
                delivery.accept()
            receiver.close()

    def begin(self, action: Any) -> threading.Thread:
        """Do something in a thread of its own."""

        def act() -> None:
            try:
                action()
            except BaseException as failure:
                self.failure = failure

        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        return thread

    def watch(self) -> None:
        """Publish, and consume once the gate has been closed for a while; look until all of it is over."""
        with connect(self.url, protocol="amqp091") as control:
            control.declare_queue(QUEUE, capacity_bytes=4096 * MIB)
            began = time.monotonic()
            threads = [self.begin(self.publish)]
            closed_at: float | None = None
            while (now := time.monotonic() - began) < PATIENCE_S and self.failure is None:
                look = self._look(now, control.status())
                self.looks.append(look)
                closed_at = now if closed_at is None and not look.open else closed_at
                if len(threads) == 1 and closed_at is not None and now > closed_at + AT_EASE_S:
                    threads.append(self.begin(self.consume))
                if len(threads) == 2 and not any(thread.is_alive() for thread in threads) and look.open:
                    break
                time.sleep(LOOK_S)
        if self.failure is not None:
            raise self.failure

    def _look(self, now: float, status: dict[str, Any]) -> Look:
        gates = {gate["name"]: gate for gate in status["disk"]["gates"]}
        taken = sum(path.stat().st_blocks * 512 for path in self.data.glob("messages.sqlite*"))
        queue = next(each for each in status["queues"] if each["queue"] == QUEUE)
        used, depth = int(status["disk"]["used"]), int(queue["depth"]["bytes"])
        return Look(now, taken, used, depth, self.result.confirmed, bool(gates["quota"]["open"]))

    def blocked(self) -> list[tuple[float, float]]:
        """Return from when to when the gate was closed, as it was seen."""
        found: list[tuple[float, float]] = []
        since: float | None = None
        for look in self.looks:
            if not look.open and since is None:
                since = look.at
            elif look.open and since is not None:
                found.append((since, look.at))
                since = None
        return found if since is None else [*found, (since, self.looks[-1].at)]

    def told(self) -> list[str]:
        """Return what was seen, line by line."""
        times = self.blocked()
        highest_taken = max(look.taken for look in self.looks)
        highest_used = max(look.used for look in self.looks)
        return [
            f"confirmed {self.result.confirmed:,}, consumed {self.consumed:,} persistent messages of {BODY:,} bytes",
            f"quota {self.overfull / MIB:,.0f} MiB, opens at {self.underfull / MIB:,.0f} MiB; used at most "
            f"{highest_used / MIB:,.1f} MiB, taken from the file system at most {highest_taken / MIB:,.1f} MiB",
            f"blocked {len(times)} times, {sum(end - start for start, end in times):.1f} s in all of "
            f"{self.looks[-1].at:.1f} s; at the end {self.looks[-1].taken / MIB:,.1f} MiB are taken",
        ]


def draw(run: Run, path: Path) -> None:
    """Write the picture (matplotlib is in the dependency group `demo`)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    at = [look.at for look in run.looks]
    figure, (sizes, progress) = plt.subplots(2, 1, figsize=(12, 7), sharex=True, layout="constrained")
    figure.suptitle("A disk quota: blocked, drained, resumed", x=0.01, ha="left", fontweight="bold")
    sizes.plot(at, [look.taken / MIB for look in run.looks], color="#8C8C8C", label="taken from the file system")
    sizes.plot(at, [look.used / MIB for look in run.looks], color="#0072B2", label="used (what the quota is judged by)")
    sizes.plot(at, [look.depth / MIB for look in run.looks], color="#00785A", ls="--", label="depth of the queue")
    sizes.axhline(run.overfull / MIB, color="#D55E00", lw=1, ls=":", label="disk-overfull")
    sizes.axhline(run.underfull / MIB, color="#A65F00", lw=1, ls="-.", label="disk-underfull")
    sizes.set_ylabel("MiB")
    progress.plot(at, [look.confirmed for look in run.looks], color="#0072B2", label="confirmed")
    progress.set_ylabel("messages")
    progress.set_xlabel("seconds")
    for panel in (sizes, progress):
        for number, (start, end) in enumerate(run.blocked()):
            panel.axvspan(start, end, color="#8C8C8C", alpha=0.2, label="gate closed" if number == 0 else None)
        panel.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(words: list[str] | None = None) -> int:
    """Run the experiment; returns the exit code: 0 if it was blocked, drained and resumed, and nothing was lost."""
    parser = argparse.ArgumentParser(prog="python -m bench.quota", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--overfull", type=int, default=64, metavar="MIB", help="disk-overfull (64)")
    parser.add_argument("--underfull", type=int, default=32, metavar="MIB", help="disk-underfull (32)")
    parser.add_argument("--messages", type=int, default=40_000, help=f"messages of {BODY} bytes (40000)")
    parser.add_argument("--picture", type=Path, default=OUTPUT, help="where to write the picture (%(default)s)")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config = place / "settings.toml"
        config.write_text(f'[broker]\ndisk-overfull = "{given.overfull}MiB"\ndisk-underfull = "{given.underfull}MiB"\n')
        log = place / "log"
        with log.open("w") as errors:
            command = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--config", str(config)]
            command += ["--data", str(place / "data")]
            broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
        try:
            url = _url(broker)
            run = Run(given.overfull * MIB, given.underfull * MIB, given.messages, url, place / "data")
            run.watch()
        finally:
            processes.stop(broker)
        lines = [line for line in log.read_text().splitlines() if ABOUT.search(line)]
        for line in lines[:10] + ([f"... {len(lines) - 10} more lines like these"] if len(lines) > 10 else []):
            print(line)
    for line in run.told():
        print(line)
    try:
        draw(run, given.picture)
        print(f"picture: {given.picture}")
    except ImportError:
        print("no picture: matplotlib is not installed (dependency group demo)")
    return 0 if run.blocked() and run.consumed == run.result.confirmed == run.messages else 1


def _url(broker: subprocess.Popen[str]) -> str:
    assert broker.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(broker.stdout, selectors.EVENT_READ)
        assert selector.select(60.0), "the broker was not ready within a minute"
    ready = broker.stdout.readline()
    address = next(word for word in ready.split() if word.startswith("amqp://"))
    return address.replace("amqp://", "amqp://guest:guest@") + "/"


if __name__ == "__main__":
    sys.exit(main())
