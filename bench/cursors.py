"""Cost of cursors on a long queue: finding a plan and a range, and what a publish pays beside a plan that waits.

`python -m bench.cursors MESSAGES` fills a queue in this process and prints milliseconds for a cursor at its beginning
and one at its end, and nanoseconds for a publish: without cursors, with cursors that lag, and beside a plan that waits
at the end of the queue. That one is answered in the turn of the publish, and asked again after each 100 messages.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from bench.hotpath import BATCH, MESSAGE, QUEUE, Bench
from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges.cursors import Cursor

ROUNDS = 21
ROWS = 1_000
ANY = 1 << 60


def median_ms(action: Callable[[], object]) -> float:
    """Return the median time of an action, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


class LongQueue(Bench):
    """A broker with a long queue, and control requests to it."""

    def fill(self, count: int) -> None:
        """Enqueue messages."""
        queue = self.queue
        content = make_content(Properties(), bytes(100))
        envelope = Envelope("", QUEUE)
        for _ in range(count):
            queue.enqueue(envelope, content, 340, 1.0)

    def ask(self, operation: str, **fields: object) -> None:
        """Ask for a control operation; nobody waits for its answer."""
        vhost = self.driver.broker.vhosts["/"]
        content = make_content(Properties(), json.dumps(fields).encode())
        self.driver.control.request(vhost, self.consumer, operation, content)

    def publish_ns(self, count: int, after: Callable[[], None] | None) -> float:
        """Return the CPU time of a publish in nanoseconds: reads of 100 messages with a turn after each.

        `after` is done between them and not counted.
        """
        data = MESSAGE * BATCH
        spent = 0.0
        for _ in range(count // BATCH):
            began = time.process_time()
            self.feed(self.publisher, data)
            spent += time.process_time() - began
            if after is not None:
                after()
        return spent / count * 1e9


def found_from(cursor: Cursor, start: int) -> str:
    """Return the times of plans and of a range after a sequence."""
    few = median_ms(partial(cursor.plan, QUEUE, start, ROWS, ANY, ANY))
    many = median_ms(partial(cursor.plan, QUEUE, start, 100_000, ANY, ANY))
    read = median_ms(partial(cursor.read, QUEUE, start, start + ROWS, ROWS, ANY))
    return f"plan of {ROWS:,} {few:.4f} ms, of 100,000 {many:.4f} ms; range of {ROWS:,} {read:.4f} ms"


def main(messages: int) -> None:
    """Measure and print."""
    plain, bench = LongQueue(), LongQueue()
    for each in (plain, bench):
        each.fill(messages)
        each.publish_ns(20_000, None)
    cursors = bench.driver.broker.vhosts["/"].cursors
    bench.ask("cursor.attach", cursor="lags", queues=[QUEUE])
    began = time.perf_counter()
    bench.ask("cursor.attach", cursor="tails", queues=[QUEUE], starting="latest")
    lags = cursors["lags"]
    assert isinstance(lags, Cursor)
    print(f"attach at the end: {(time.perf_counter() - began) * 1000:.3f} ms")
    tail = int(bench.queue.tail)
    began = time.perf_counter()
    bench.ask("cursor.plan", cursor="lags", token=1, start={QUEUE: tail - 1})
    while bench.driver.run_turn():
        pass
    print(f"first look at the whole queue, in slices: {(time.perf_counter() - began) * 1000:.0f} ms in all")
    for start in (0, tail - ROWS):
        print(f"from {start:>10,}: {found_from(lags, start)}")

    def plan_again() -> None:
        position = int(bench.queue.tail)
        bench.ask("cursor.plan", cursor="tails", token=1, start={QUEUE: position}, wait_ms=1000)

    rounds: dict[str, list[float]] = {"no cursors": [], "two cursors": [], "one waits and plans again": []}
    for _ in range(ROUNDS):
        rounds["no cursors"].append(plain.publish_ns(20_000, None))
        rounds["two cursors"].append(bench.publish_ns(20_000, None))
        plan_again()
        rounds["one waits and plans again"].append(bench.publish_ns(20_000, plan_again))
    for what, times in rounds.items():
        print(f"publish, {what}: {statistics.median(times):.0f} ns of CPU, least {min(times):.0f} ns")


if __name__ == "__main__":
    main(int(sys.argv[1]))
