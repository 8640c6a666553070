"""Memory per queued 100-byte message: what the process really grows by, beside what the message is charged."""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import penstock

ROOT = Path(__file__).resolve().parent.parent
GOAL = 350
"""Bytes of memory for a message with a body of 100 octets, all told."""
MESSAGES = 1_000_000


@dataclass(frozen=True)
class Memory:
    """Bytes per queued message: of the process's memory, and charged to the queue."""

    bytes_per_message: float
    charge: float


def reason_to_skip() -> str | None:
    """Say in one sentence why nothing can be measured here; None when it can be."""
    if not Path("/proc/self/statm").exists():
        return "The resident memory of a process is read from /proc, which this system does not have."
    if not penstock.compiled():
        return "Penstock runs interpreted here; the goal is about the compiled form."
    return None


def measure(messages: int = MESSAGES) -> Memory:
    """Queue so many messages in a process of their own. Raises CalledProcessError when it fails."""
    command = [sys.executable, "-m", "bench.memory", "--child", str(messages)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Memory(**json.loads(done.stdout))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _child(messages: int) -> Memory:
    from bench.hotpath import Bench

    bench = Bench()
    bench.publish(10_000)  # buffers and caches have their size before it counts
    before, charged = _resident(), int(bench.queue.bytes)
    bench.publish(messages)
    assert bench.queue.messages == messages + 10_000
    return Memory((_resident() - before) / messages, (int(bench.queue.bytes) - charged) / messages)


def main() -> int:
    """Measure and judge; 1 when a message takes more than promised or more than it is charged."""
    parser = argparse.ArgumentParser(prog="bench.memory", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        print(json.dumps(_child(wanted.child).__dict__))
        return 0
    if reason := reason_to_skip():
        print(f"Skipped: {reason}")
        return 0
    found = measure(wanted.messages)
    print(f"A queued message of 100 bytes takes {found.bytes_per_message:.0f} bytes of memory (goal: under {GOAL}) "
          f"and is charged {found.charge:.0f}.")  # fmt: skip
    return 0 if found.bytes_per_message < GOAL and found.bytes_per_message <= found.charge else 1


if __name__ == "__main__":
    sys.exit(main())
