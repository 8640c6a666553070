"""Credit over AMQP 1.0: what links send, against the places that there are, while nobody consumes.

Senders have no other bound than their credit and a window of unsettled deliveries. All are driven by the C generator
(bench/loadgen10.c).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import loadgen, peers10
from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, Broker
from bench.flow.stops import Stops, stops

MIB = 1024 * 1024
BODY_OCTETS = 1024
SECTION_OCTETS = 8
OVERHEAD = 240
PLACES = 720
"""A capacity in messages: what Artemis finds room for in 1 MiB."""
PLACES_OF = {peers10.ARTEMIS: 720, RABBITMQ: MIB // BODY_OCTETS, peers10.QPIDD: 806}
"""Messages of 1 KiB that fit into 1 MiB as each peer counts them (Artemis 1,456 octets for each)."""
OURS = (COMPILED, INTERPRETED)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What became of the messages in one cell; `depth` is None where the queue cannot be asked."""

    broker: str
    condition: str
    places: int
    sent: int
    accepted: int
    released: int
    rejected: int
    credit_left: int
    depth: int | None

    def met(self) -> bool:
        """Tell whether not one message more was sent than there are places, and none came back."""
        within = self.depth is None or self.depth <= self.places
        return self.sent <= self.places and self.released == 0 and self.rejected == 0 and within

    def words(self) -> str:
        """Return it as one line."""
        over = max(0, self.sent - self.places) / self.places
        line = (
            f"{self.broker}: {self.condition}: sent {self.sent:,} for {self.places:,} places (+{over:.0%}), "
            f"{self.accepted:,} accepted, {self.released:,} released, {self.rejected:,} rejected"
        )
        if self.depth is not None:
            line += f", depth {self.depth:,}"
        return line if self.met() else f"{line}   <- misses the goal"


def _bound(name: str, capacity: int | None) -> tuple[tuple[str, ...], int]:
    """Return the arguments of a queue of 1 MiB, or of so many messages, and its places as the broker counts."""
    if name in OURS:
        if capacity is None:
            return ("--argument", f"capacity-bytes={MIB}"), MIB // (BODY_OCTETS + SECTION_OCTETS + OVERHEAD)
        return ("--argument", f"capacity-messages={capacity}"), capacity
    if name == RABBITMQ:  # Arguments of the generator are integers: such a queue drops its oldest messages.
        if capacity is None:
            return ("--argument", f"x-max-length-bytes={MIB}"), PLACES_OF[name]
        return ("--argument", f"x-max-length={capacity}"), capacity
    return (), PLACES_OF[name]


def overshoot(broker: Broker, name: str, links: int, window: int, capacity: int | None, seconds: float) -> Outcome:
    """Let links send their window to one bounded queue without a consumer."""
    bound, places = _bound(name, capacity)
    result = loadgen.run(
        broker.port, *broker.options, *bound, "--sizes", str(BODY_OCTETS), "--links", str(links), "--confirms",
        str(window), "--no-consumer", "--warm-up", "0", "--seconds", str(seconds), protocol=loadgen.AMQP1,
    )  # fmt: skip
    size = "1 MiB" if capacity is None else f"{capacity} messages"
    return _outcome(name, f"{links} x {window}, {size}", places, result)


def _outcome(name: str, condition: str, places: int, result: dict[str, Any]) -> Outcome:
    return Outcome(
        name,
        condition,
        places,
        result["published"],
        result["accepted"],
        result["released"] + result["modified"],
        result["rejected"],
        result["credit_left"],
        result["depth"] if result["depth"] >= 0 else None,
    )


def beside_idle(broker: Broker, name: str, seconds: float) -> Outcome:
    """Let one link send while 64 others have attached before it and send nothing."""
    queue = f"scorecard-{os.getpid()}"
    options = ("--queue", queue, "--argument", f"capacity-messages={PLACES}", "--sizes", str(BODY_OCTETS))
    program = loadgen.build(loadgen.AMQP1)
    # The first generator declares the queue, and holds it while the second sends.
    holder = subprocess.Popen(
        [str(program), "--port", str(broker.port), *broker.options, *options, "--links", "64", "--idle",
         "--confirms", "50", "--warm-up", "1", "--seconds", str(seconds + 2)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        target = ("--name", f"{queue}.{holder.pid}.0", "--sizes", str(BODY_OCTETS))
        result = None
        for _ in range(20):
            try:
                result = loadgen.run(broker.port, *target, "--confirms", "1000", "--no-consumer", "--warm-up", "0.5",
                                     "--seconds", str(seconds), protocol=loadgen.AMQP1)  # fmt: skip
                break
            except loadgen.LoadError:
                continue  # The queue is not there yet.
        idle = json.loads(holder.communicate()[0])
    finally:
        holder.kill()
        holder.wait()
    if result is None:
        raise loadgen.LoadError("the sender beside idle links found no queue")
    result["depth"] = idle["depth"]
    return _outcome(name, f"1 x 1000 beside 64 idle links, {PLACES} messages", PLACES, result)


def mixed(broker: Broker, name: str, links: int, seconds: float) -> Outcome:
    """Let links send messages of sizes 1:100; the places are those of the smallest."""
    bound, _ = _bound(name, None)
    smallest = 100
    result = loadgen.run(
        broker.port, *broker.options, *bound, "--sizes", f"uniform:{smallest}:{100 * smallest}", "--links",
        str(links), "--confirms", "1000", "--no-consumer", "--warm-up", "0", "--seconds", str(seconds),
        protocol=loadgen.AMQP1,
    )  # fmt: skip
    places = MIB // (smallest + SECTION_OCTETS + OVERHEAD)
    return _outcome(name, f"{links} x 1000, {smallest}-{100 * smallest} octets, 1 MiB", places, result)


def small_credit(broker: Broker, name: str, seconds: float) -> str:
    """Tell what small credit costs: 64 links on 720 places beside one link, with a consumer."""
    cells = []
    for links in (1, 64):
        result = loadgen.run(
            broker.port, *broker.options, *_bound(name, PLACES)[0], "--sizes", str(BODY_OCTETS), "--links", str(links),
            "--confirms", "1000", "--seconds", str(seconds), pids=broker.pids(), protocol=loadgen.AMQP1,
        )  # fmt: skip
        cost = result["broker_cpu"] / max(1, result["messages"]) * 1e6
        cells.append(
            f"{links} links {result['rate']:,.0f}/s, {cost:.2f} us of CPU a message, {result['flows']:,} flows"
        )
    return f"{name}: with a consumer, {PLACES} places: " + "; ".join(cells)


def stop_cells(broker: Broker, name: str, quick: bool) -> Iterator[Stops]:
    """Stop links again and again while somebody consumes; see `stops`."""
    bound = _bound(name, PLACES)[0] if name in OURS or name == RABBITMQ else ()
    if not bound:
        return  # Such a peer has one bound for all queues: there is nothing without it to compare.
    for links in (1, 64):
        for take_rate in (0, 10_000):
            yield stops(broker, name, links, take_rate, bound, f"{PLACES} places", 0.5 if quick else 2.0)


def cells(broker: Broker, name: str, quick: bool, say: Say) -> Iterator[Outcome]:
    """Run the experiments against one broker, with a line for each."""
    seconds = 1.0 if quick else 3.0
    counts = (1, 64) if quick else (1, 8, 64)
    for capacity in (None, PLACES):
        if capacity is not None and name not in OURS and name != RABBITMQ:
            continue
        for links in counts:
            for window in (50, 1000):
                yield overshoot(broker, name, links, window, capacity, seconds)
    if name in OURS:
        yield beside_idle(broker, name, seconds)
        for links in counts:
            yield mixed(broker, name, links, seconds)
    try:
        say(small_credit(broker, name, seconds))
    except loadgen.LoadError as failure:
        say(f"{name}: small credit: FAILED: {failure}")


def all_cells(broker: Broker, name: str, quick: bool, say: Say) -> Iterator[Outcome | Stops]:
    """Run everything against one broker."""
    yield from cells(broker, name, quick, say)
    yield from stop_cells(broker, name, quick)


def main(wanted: argparse.Namespace, say: Say) -> int:
    """Run it; 1 if one of our goals is missed or nothing could be run."""
    found: list[Outcome | Stops] = []
    names = wanted.brokers or [COMPILED, *(name for name in peers10.PEERS if peers10.takes_part(name, False))]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-flow-")))
        for name in names:
            broker = peers10.start(name, scratch, stack, say, MIB)
            if broker is None:
                continue
            try:
                for outcome in all_cells(broker, name, wanted.quick, say):
                    say(outcome.words())
                    found.append(outcome)
            except loadgen.LoadError as failure:
                say(f"{name}: FAILED: {failure}")
    mine = [outcome for outcome in found if outcome.broker in OURS]
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    wanted.output.write_text("".join(json.dumps(asdict(outcome)) + "\n" for outcome in found))
    say(f"{sum(outcome.met() for outcome in mine)} of {len(mine)} cells of ours meet the goal: {wanted.output}")
    return 0 if mine and all(outcome.met() for outcome in mine) else 1
