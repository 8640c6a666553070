"""The sampler of counts: CPU and longest slice of a pass over idle and busy queues, and the octets of their samples."""

import argparse
import gc
import sys
import time
from pathlib import Path

import penstock
from bench.hotpath import make_driver
from penstock.driver.driver import BrokerDriver
from penstock.flow.series import SLOT_S
from penstock.flow.work import UNITS_A_TURN
from penstock.server.collector import COLLECT_AFTER

QUEUES = 100_000
SLICE_GOAL_MS = 10.0
"""Longest slice of a pass: it is a part of a turn."""
PAGE = 4096
BUSY = 10_000
"""Busy queues: as many as have samples."""


def resident() -> int:
    """Return the resident octets of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def touch(driver: BrokerDriver, count: int) -> None:
    """Let something happen in so many queues."""
    for queue in list(driver.broker.vhosts["/"].queues.values())[:count]:
        queue.counters.own().gets_empty += 1


def one_pass(driver: BrokerDriver, slot: int) -> tuple[float, float]:
    """Make one pass; return its CPU and its longest slice, in milliseconds."""
    driver.begin(slot * SLOT_S)
    begun = time.process_time()
    driver.stats.tick(driver.connections)
    longest = 0.0
    while driver.stats.has_more():
        before = time.process_time()
        driver.stats.work(UNITS_A_TURN, slot * SLOT_S)
        longest = max(longest, time.process_time() - before)
    return (time.process_time() - begun) * 1e3, longest * 1e3


def main() -> int:
    """Print the figures; return 1 if a compiled broker misses the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=QUEUES)
    queues = parser.parse_args().queues
    driver = make_driver()
    for number in range(queues):
        driver.broker.vhosts["/"].declare_queue(f"queue-{number}", {}, False, False, None, None)
    gc.collect()
    gc.freeze()  # As `penstock serve` does: what stays is no work for the collector.
    gc.set_threshold(*COLLECT_AFTER)
    worst = 0.0
    slot = 1
    for name, busy in (("idle", 0), ("busy", min(BUSY, queues)), ("all busy", queues)):
        before = resident()
        cpu = []
        for _ in range(3):
            touch(driver, busy)
            found = one_pass(driver, slot)
            cpu.append(found[0])
            worst = max(worst, found[1])
            slot += 1
        octets = (resident() - before) / busy if busy else 0.0
        print(
            f"{queues:,} queues, {busy:,} {name}: {sorted(cpu)[1]:.1f} ms of CPU a pass (every {SLOT_S:g} s), "
            f"{octets:,.0f} B of samples a busy queue"
        )
    print(f"longest slice: {worst:.2f} ms (goal: {SLICE_GOAL_MS:g})")
    return 1 if penstock.compiled() and worst > SLICE_GOAL_MS else 0


if __name__ == "__main__":
    sys.exit(main())
