"""What the store on disk costs: CPU and bytes written for each message, and the time until a million are back.

Messages of 1 KiB in group commits that are on the disk when they return. "fifo": each is settled 5,000 messages later,
in order, so that rows go whole. "random": half of them are settled, wherever they are, so that rows stay, and notes
say what has become of their messages. What the broker does to make and read rows is not in it.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.store.records import MessageRow, SettlementRecord, StoreTransaction
from penstock.store.sqlite import SqliteStore

ROOT = Path(__file__).resolve().parent.parent
MESSAGE = 1024
BEHIND = 5000
"""Messages that are live in "fifo"."""
SETTLED_BYTES = 6
"""Octets of a note for each message that was settled, about."""
RECOVERY_GOAL_S = 10.0
"""Seconds until a million messages of 1 KiB are ready; reading them from the store is a part of that."""


@dataclass(frozen=True)
class Cost:
    """What one message costs."""

    cpu_us: float
    wall_us: float
    written: float | None
    """Bytes that went to the disk; None where the system does not tell."""

    def __str__(self) -> str:
        written = "?" if self.written is None else f"{self.written:,.0f}"
        return f"{self.cpu_us:8.2f} {self.wall_us:8.2f} {written:>8}"


def fifo(group: int, commits: int) -> Iterator[StoreTransaction]:
    """Settle in order: the row that has become too old goes with each new one."""
    octets = random.Random(1).randbytes(group * MESSAGE)
    behind = max(1, BEHIND // group)
    for number in range(1, commits + 1):
        commit = StoreTransaction()
        commit.rows.append(MessageRow(number, octets))
        if number > behind:
            commit.rows_gone.append(number - behind)
        yield commit


def scattered(group: int, commits: int) -> Iterator[StoreTransaction]:
    """Settle half as many as come, anywhere; a row goes when the last of its messages is settled."""
    chance = random.Random(1)
    octets = chance.randbytes(group * MESSAGE)
    waiting: list[int] = []
    live: Counter[int] = Counter()
    for number in range(1, commits + 1):
        commit = StoreTransaction()
        commit.rows.append(MessageRow(2 * number, octets))
        waiting += [2 * number] * group
        live[2 * number] = group
        for _ in range(group // 2):
            at = chance.randrange(len(waiting))
            row, waiting[at] = waiting[at], waiting[-1]
            waiting.pop()
            live[row] -= 1
            if not live[row]:
                commit.rows_gone.append(row)
        commit.settlements.append(SettlementRecord(2 * number + 1, chance.randbytes(group // 2 * SETTLED_BYTES)))
        yield commit


WAYS = {"fifo": fifo, "random": scattered}


def measure(place: Path, way: str, group: int, commits: int) -> Cost:
    """Commit so many groups; making them does not count."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        store = SqliteStore(Path(folder))
        store.open()
        cpu = wall = 0.0
        before = _written()
        for commit in WAYS[way](group, commits):
            cpu -= time.process_time()
            wall -= time.perf_counter()
            store.commit(commit)
            wall += time.perf_counter()
            cpu += time.process_time()
        after = _written()
        store.close()
    messages = group * commits
    written = None if before is None or after is None else (after - before) / messages
    return Cost(cpu / messages * 1e6, wall / messages * 1e6, written)


def recovery(place: Path, messages: int, group: int) -> tuple[float, float, float]:
    """Let a process write so many messages and end without a goodbye; seconds to open and to read, CPU of both."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        command = [sys.executable, "-m", "bench.store", "--child", folder, "--messages", str(messages)]
        subprocess.run([*command, "--group", str(group)], cwd=ROOT, check=True)
        store = SqliteStore(Path(folder))
        begun, cpu = time.perf_counter(), time.process_time()
        store.open()
        opened = time.perf_counter()
        octets = sum(len(row.data) for row in store.rows())
        done, cpu = time.perf_counter(), time.process_time() - cpu
        assert octets == messages * MESSAGE
        assert not store.damaged
        store.close()
    return opened - begun, done - opened, cpu


def _fill(folder: Path, messages: int, group: int) -> None:
    store = SqliteStore(folder)
    store.open()
    octets = random.Random(1).randbytes(group * MESSAGE)
    for number in range(1, messages // group + 1):
        commit = StoreTransaction()
        commit.rows.append(MessageRow(number, octets))
        store.commit(commit)
    os._exit(0)


def _written() -> int | None:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


def main() -> int:
    """Measure and print; 1 when reading a million messages alone takes longer than their recovery may."""
    parser = argparse.ArgumentParser(prog="python -m bench.store", description=__doc__)
    parser.add_argument(
        "--directory", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to be measured"
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="for the recovery")
    parser.add_argument("--group", type=int, default=1000, help="messages in a row, for the recovery")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child is not None:
        _fill(wanted.child, wanted.messages, wanted.group)
    print(f"Messages of {MESSAGE:,} bytes, each group on the disk of {wanted.directory} when its commit returns.")
    print(f"{'way':8} {'group':>6} {'CPU us':>8} {'us':>8} {'written':>8}   for each message")
    for way in WAYS:
        for group, commits in ((1000, 200), (100, 1000), (10, 3000), (1, 3000)):
            print(f"{way:8} {group:6,} {measure(wanted.directory, way, group, commits)}")
    opening, reading, cpu = recovery(wanted.directory, wanted.messages, wanted.group)
    print(
        f"{wanted.messages:,} messages in rows of {wanted.group:,}, after a process that was killed: opened in "
        f"{opening:.2f} s, read in {reading:.2f} s, {cpu:.2f} s of CPU (goal: under {RECOVERY_GOAL_S:.0f} s)."
    )
    return 0 if opening + reading < RECOVERY_GOAL_S * wanted.messages / 1_000_000 else 1


if __name__ == "__main__":
    sys.exit(main())
