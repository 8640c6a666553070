"""What queues can do, and what it costs: priorities beside none, messages that expire one by one, queues that idle."""

import argparse
import gc
import random
import sys
import time
from pathlib import Path

import penstock
from bench.hotpath import BATCH, PUBLISH, QUEUE, Bench, make_driver
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame
from penstock.wire.amqp091.content_header import encode_header

LEVELS = 10
PRIORITIES_GOAL = 1.3
"""CPU of a message through a queue of so many priorities, all in use, over one through a queue without."""
EXPIRING = 100_000
PAUSE_GOAL_MS = 10.0
"""The longest turn of the broker while so many messages with times of their own expire."""
IDLE = 100_000
IDLE_GOAL = 2048
"""Octets of a queue that is declared and idle."""
BODY = bytes(100)
REPETITIONS = 5
PAGE = 4096


def reason_to_skip() -> str | None:
    """Say in one sentence why the goals do not apply here; None when they do."""
    return None if penstock.compiled() else "Penstock runs interpreted here; the goals are about the compiled form."


def message(properties: Properties) -> bytes:
    """Return the frames of one publish to the queue."""
    return PUBLISH + frame(2, 1, encode_header(len(BODY), properties)) + frame(3, 1, BODY)


def with_priorities() -> Bench:
    """Make a broker whose queue tells priorities apart."""
    bench = Bench()
    bench.call(bench.publisher, spec.QUEUE_DELETE, queue=QUEUE)
    arguments = {"capacity-bytes": 1 << 40, "x-max-priority": LEVELS}
    bench.call(bench.publisher, spec.QUEUE_DECLARE, queue=QUEUE, arguments=arguments)
    return bench


def through(bench: Bench, messages: int, levels: int) -> float:
    """Take, deliver and settle messages of so many priorities, a hundred at a time; microseconds of CPU for each."""
    bench.deliver(0)
    some = [Properties(priority=number % levels) if levels else Properties() for number in range(BATCH)]
    read = b"".join(message(properties) for properties in some)
    begun = time.process_time()
    for _ in range(messages // BATCH):
        bench.feed(bench.publisher, read)
        bench.acknowledge(BATCH)
    assert bench.queue.messages == 0
    return (time.process_time() - begun) / messages * 1e6


def priorities(messages: int) -> tuple[float, float]:
    """Return the microseconds of a message without and with priorities, each at its least disturbed."""
    plain = min(through(Bench(), messages, 0) for _ in range(REPETITIONS))
    ranked = min(through(with_priorities(), messages, LEVELS) for _ in range(REPETITIONS))
    return plain, ranked


def expiring(messages: int, step_s: float) -> float:
    """Let messages expire that have all different times, looking at the clock so often; the longest turn in ms."""
    bench = Bench()
    driver = bench.driver
    times = list(range(2000, 2000 + messages))
    random.Random(1).shuffle(times)
    for at in range(0, messages, BATCH):
        bench.feed(bench.publisher, b"".join(message(Properties(expiration=str(ms))) for ms in times[at : at + BATCH]))
    assert bench.queue.messages == messages
    now, longest = 1.0, 0.0
    gc.collect()
    gc.freeze()  # As `penstock serve` does: what stays is no work for the collector.
    while bench.queue.messages:
        now = max(now + step_s, driver.broker.next_deadline() or 0.0)
        driver.begin(now)
        begun = time.perf_counter()
        driver.run_turn()
        longest = max(longest, time.perf_counter() - begun)
    gc.unfreeze()
    return longest * 1000


def idle(queues: int) -> float:
    """Declare queues that nobody uses; the octets of memory for each."""
    vhost = make_driver().broker.vhosts["/"]
    for number in range(queues // 100):
        vhost.declare_queue(f"before.{number}", {}, True, False, None, None)
    gc.collect()
    before = _resident()
    for number in range(queues):
        vhost.declare_queue(f"queue.{number}", {}, True, False, None, None)
    gc.collect()
    return (_resident() - before) / queues


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def main() -> int:
    """Measure and compare with the goals; 1 when one is missed."""
    argparse.ArgumentParser(prog="python -m bench.queues", description=__doc__).parse_args()
    octets = idle(IDLE)
    plain, ranked = priorities(50_000)
    single, together = expiring(EXPIRING, 0.001), expiring(EXPIRING, 1.0)
    print(f"A queue that is declared and idle takes {octets:,.0f} octets (goal: under {IDLE_GOAL:,}); of {IDLE:,}.")
    print(
        f"A message takes {plain:.2f} us through a queue without priorities and {ranked:.2f} us through one of "
        f"{LEVELS}: {ranked / plain:.2f}x (goal: at most {PRIORITIES_GOAL}x)."
    )
    print(
        f"While {EXPIRING:,} messages with times of their own expire, the longest turn lasts {single:.1f} ms when the "
        f"broker looks each ms, {together:.1f} ms when it looks each second (goal: under {PAUSE_GOAL_MS:.0f} ms)."
    )
    why_not = reason_to_skip()
    if why_not is not None:
        print(why_not)
        return 0
    met = octets < IDLE_GOAL and ranked <= PRIORITIES_GOAL * plain and max(single, together) < PAUSE_GOAL_MS
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
