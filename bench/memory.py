"""Memory per queued 100-byte message, and per idle connection and link of AMQP 1.0: what the process really grows by.

That of a message stands beside what it is charged.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import penstock
from bench import large_memory

ROOT = Path(__file__).resolve().parent.parent
GOAL = 350
"""Bytes of memory for a message with a body of 100 octets, all told."""
MESSAGES = 1_000_000
CONNECTION_GOAL = 12 * 1024
"""Bytes of an idle connection of AMQP 1.0 with a session."""
LINK_GOAL = 3 * 1024
"""Bytes of an idle link."""
CONNECTIONS = 500
LINKS = 1000
"""Links of each kind, on one session."""


@dataclass(frozen=True)
class Memory:
    """Bytes per queued message: of the process's memory, and charged to the queue."""

    bytes_per_message: float
    charge: float


@dataclass(frozen=True)
class Idle:
    """Bytes of what is idle, over AMQP 1.0: a connection with a session, and links of both kinds."""

    connection: float
    incoming_link: float
    outgoing_link: float

    def met(self) -> bool:
        """Tell whether all are within the goals."""
        links = max(self.incoming_link, self.outgoing_link)
        return self.connection <= CONNECTION_GOAL and links <= LINK_GOAL


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


def measure_idle() -> Idle:
    """Open connections and attach links in a process of their own. Raises CalledProcessError when it fails."""
    command = [sys.executable, "-m", "bench.memory", "--idle-child"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Idle(**json.loads(done.stdout))


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


def _idle_child() -> Idle:
    from bench.hotpath10 import Bench10, receiver_attach, sender_attach

    bench = Bench10()
    for _ in range(50):  # Buffers and caches have their size before it counts.
        bench.connect()
    sizes = []
    begun = _settled()
    kept = [bench.connect() for _ in range(CONNECTIONS)]
    sizes.append((_settled() - begun) / CONNECTIONS)
    assert len(kept) == CONNECTIONS
    for attach in (sender_attach, receiver_attach):
        connection = bench.connect()
        for number in range(20):
            bench.feed(connection, attach(number))
        begun = _settled()
        for number in range(20, LINKS):
            bench.feed(connection, attach(number))
        sizes.append((_settled() - begun) / (LINKS - 20))
    return Idle(*sizes)


def _settled() -> int:
    """Return the resident memory after the garbage is collected."""
    gc.collect()
    return _resident()


def main() -> int:
    """Measure and judge; 1 when a message takes more than promised or more than it is charged."""
    parser = argparse.ArgumentParser(prog="bench.memory", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--idle", action="store_true", help="idle connections and links of AMQP 1.0 instead")
    parser.add_argument("--idle-child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--large", action="store_true", help="one large message instead (bench.large_memory)")
    if "--large" in sys.argv[1:]:
        return large_memory.main([word for word in sys.argv[1:] if word != "--large"])
    wanted = parser.parse_args()
    if wanted.idle_child:
        print(json.dumps(_idle_child().__dict__))
        return 0
    if wanted.child:
        print(json.dumps(_child(wanted.child).__dict__))
        return 0
    if reason := reason_to_skip():
        print(f"Skipped: {reason}")
        return 0
    if wanted.idle:
        idle = measure_idle()
        print(f"An idle connection of AMQP 1.0 takes {idle.connection:,.0f} bytes (goal: at most {CONNECTION_GOAL:,}), "
              f"an incoming link {idle.incoming_link:,.0f} and an outgoing one {idle.outgoing_link:,.0f} "
              f"(goal: at most {LINK_GOAL:,}).")  # fmt: skip
        return 0 if idle.met() else 1
    found = measure(wanted.messages)
    print(f"A queued message of 100 bytes takes {found.bytes_per_message:.0f} bytes of memory (goal: under {GOAL}) "
          f"and is charged {found.charge:.0f}.")  # fmt: skip
    return 0 if found.bytes_per_message < GOAL and found.bytes_per_message <= found.charge else 1


if __name__ == "__main__":
    sys.exit(main())
