"""Senders and receivers of a load, each in a process of its own, so that none waits for the other's processor time.

The first eight bytes of a body are a time of the system's monotonic clock, which all processes of a machine share. With
a rate they are the time at which the message was due. A late sender also writes that time, so a pause of the broker
counts for every message that it delays (no coordinated omission).
"""

from __future__ import annotations

import gc
import select
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from math import ceil
from multiprocessing.connection import Connection as Pipe
from operator import itemgetter
from typing import Any, Final, NamedTuple

from penstock import sync
from penstock.client.engine.outcomes import CONFIRMED, Receipt
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.window import SendResult
from penstock.errors import PenstockError

BITS: Final = 7
"""Each power of two has 2 ** BITS buckets."""


class Histogram:
    """Counts of values by bucket; values are whole numbers from 0, here nanoseconds. At most 7,424 buckets exist.

    Buckets are as in HdrHistogram: linear within a power of two, less than 0.8 % wide. The package hdrhistogram is an
    extension in C with a serialization that the bench does not need, so it is not required.
    """

    def __init__(self, counts: Iterable[tuple[int, int]] = ()) -> None:
        self.counts: dict[int, int] = dict(counts)
        """Counts by the index of their bucket."""

    def add(self, value: int, count: int = 1) -> None:
        """Count a value; a value below 0 counts as 0, a value above 2 ** 64 as 2 ** 64."""
        index = bucket_of(value)
        self.counts[index] = self.counts.get(index, 0) + count

    def merge(self, other: Histogram) -> None:
        """Add all counts of another histogram."""
        for index, count in other.counts.items():
            self.counts[index] = self.counts.get(index, 0) + count

    @property
    def total(self) -> int:
        """Return the number of values."""
        return sum(self.counts.values())

    def percentile(self, share: float) -> int | None:
        """Return the highest value of the bucket at a share from 0 to 1; None without values.

        At least this share of the values is at or below it, as in HdrHistogram's `getValueAtPercentile`.
        """
        wanted = max(1, ceil(self.total * share))
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return highest_of(index)
        return None

    def milliseconds(self, share: float) -> float | None:
        """Return `percentile` in milliseconds, to the microsecond."""
        found = self.percentile(share)
        return None if found is None else round(found / 1e6, 3)


def bucket_of(value: int) -> int:
    """Return the index of the bucket of a value."""
    value = min(max(value, 0), 1 << 64)
    shift = max(0, value.bit_length() - BITS - 1)
    return (shift << BITS) + (value >> shift)


def highest_of(index: int) -> int:
    """Return the highest value of a bucket."""
    shift = max(0, (index >> BITS) - 1)
    return ((index - (shift << BITS) + 1) << shift) - 1


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of histograms."""
    found = Histogram()
    for each in histograms:
        found.merge(each)
    return found


STAMP: Final = 8
"""Bytes of the time in a body."""
BURST: Final = 256
"""Messages that are published, or taken, between two readings of the clock."""
QUIET_S: Final = 0.5
"""Seconds without a message after which a receiver ends, once the senders have ended."""
GRACE_S: Final = 5.0
"""Seconds after the end of a run in which late messages are still sent, and received."""


class Load(NamedTuple):
    """Load of one run; times are seconds."""

    seconds: float = 10.0
    warm_up: float = 1.0
    interval: float = 1.0
    senders: int = 1
    receivers: int = 1
    size: int = 100
    window: int = 1000
    prefetch: int = 1000
    rate: float = 0.0
    """Messages a second that are due, of all senders; 0: full speed."""
    most: int = 0
    """Most messages of all senders; 0: until the end."""
    durable: bool = False

    def words(self) -> str:
        """Return the load as the name of a row."""
        parties = f"{self.senders} to {self.receivers}, " if (self.senders, self.receivers) != (1, 1) else ""
        rate = f", {self.rate:,.0f}/s" if self.rate else ""
        return f"{parties}{self.size:,} B{', durable' if self.durable else ''}, window {self.window:,}{rate}"


class Plan(NamedTuple):
    """Part of one sender or receiver, sent to another process."""

    url: str
    queue: str
    start: int
    """Begin of the run, nanoseconds of the monotonic clock."""
    intervals: int
    load: Load = Load()
    """Share of the load: the rate and the most messages of one sender."""

    @property
    def end(self) -> int:
        """Return the end of the run."""
        return self.start + round(self.load.interval * self.intervals * 1e9)


class Track:
    """Times of messages by interval of the run."""

    def __init__(self, plan: Plan) -> None:
        self._start = plan.start
        self._length = round(plan.load.interval * 1e9)
        self.intervals = [Histogram() for _ in range(plan.intervals + 1)]
        """Intervals of the run, and one for times after its end."""

    def add(self, at: int, value: int, count: int = 1) -> None:
        """Count a value in the interval of a time."""
        index = min(max((at - self._start) // self._length, 0), len(self.intervals) - 1)
        self.intervals[index].add(value, count)

    def plain(self) -> list[list[tuple[int, int]]]:
        """Return the counts as plain data."""
        return [list(each.counts.items()) for each in self.intervals]


class Party:
    """One process's part: it reports its counts once an interval, and at its end."""

    def __init__(self, plan: Plan, pipe: Pipe) -> None:
        self.plan = plan
        self.pipe = pipe
        self.track = Track(plan)
        self.messages = 0
        self._report_at = plan.start
        self._cpu = 0.0

    def begin_at_word(self) -> None:
        """Report readiness, and receive the start of the run from the parent process."""
        self.pipe.send({"ready": True, "messages": 0})
        self.plan = self.plan._replace(start=self.pipe.recv())
        self.track = Track(self.plan)
        self._report_at = self.plan.start
        self._cpu = time.process_time()

    def tell(self, now: int) -> None:
        """Report the number of messages, if an interval has passed."""
        if now >= self._report_at:
            self.pipe.send({"messages": self.messages})
            self._report_at = now + round(self.plan.load.interval * 1e9)

    def finish(self, **found: Any) -> None:
        """Report all counts."""
        cpu = time.process_time() - self._cpu
        self.pipe.send({"done": True, "messages": self.messages, "track": self.track.plain(), "cpu_s": cpu, **found})


def run_party(role: str, plan: Plan, pipe: Pipe) -> None:
    """Run a party in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends this process.
    gc.freeze()
    take_part(role, plan, pipe)


def take_part(role: str, plan: Plan, pipe: Pipe) -> None:
    """Run as "sender" or "receiver"; reports and errors are written to the pipe, and the start command is read from
    it."""
    party = Party(plan, pipe)
    try:
        with sync.connect(plan.url) as connection:
            if role == "receiver":
                receive(party, connection)
            else:
                party.begin_at_word()
                (send_at_rate if plan.load.rate else send)(party, connection)
    except PenstockError as error:
        pipe.send({"error": str(error)})


def send(party: Party, connection: sync.Connection) -> None:
    """Send as fast as the broker confirms, until the end or the count."""
    plan = party.plan
    _sleep_until(plan.start)
    publisher = connection.publisher(plan.queue, window=plan.load.window, window_bytes=-1, durable=plan.load.durable)

    def note(result: SendResult) -> None:
        now = time.monotonic_ns()
        party.track.add(now, 0, result.confirmed - party.messages)
        party.messages = result.confirmed
        party.tell(now)

    result = publisher.send_many(_stamped(plan), progress=note)
    note(result)
    publisher.close()
    party.finish(refused=result.refused_count, unknown=result.unknown)


def _stamped(plan: Plan) -> Iterator[bytes]:
    padding = bytes(plan.load.size - STAMP)
    left = plan.load.most or 1 << 62
    while left > 0 and (now := time.monotonic_ns()) < plan.end:
        yield from repeat(now.to_bytes(STAMP, "big") + padding, min(BURST, left))
        left -= BURST


class Outcomes:
    """Outcomes of messages that were sent at their due times."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.refused = 0
        self.unknown = 0

    def note(self, receipt: Receipt, due: int) -> None:
        """Count the outcome of a message that was due at a time."""
        if receipt.outcome == CONFIRMED:
            self.party.messages += 1
            self.party.track.add(due, time.monotonic_ns() - due)
        elif receipt.state == "refused":
            self.refused += 1
        else:
            self.unknown += 1


def send_at_rate(party: Party, connection: sync.Connection) -> None:
    """Send each message at its due time, regardless of earlier messages; measure from then to the confirm."""
    plan, outcomes, late = party.plan, Outcomes(party), Histogram()
    padding = bytes(plan.load.size - STAMP)
    step = 1e9 / plan.load.rate
    total = plan.load.most or int(plan.load.interval * plan.intervals * plan.load.rate)
    publisher = connection.publisher(plan.queue, window=plan.load.window, window_bytes=-1, durable=plan.load.durable)
    _sleep_until(plan.start)
    sent = 0
    while sent < total and (now := time.monotonic_ns()) < plan.end + GRACE_S * 1e9:
        due = plan.start + int(sent * step)
        if now < due:
            _await(connection, due - now)
            continue
        had_room = publisher.blocked is None
        if had_room:
            late.add(now - due)  # The bench is late: the broker did not block it.
        with publisher.batch():
            for _ in range(BURST):
                receipt = publisher.publish(due.to_bytes(STAMP, "big") + padding)
                receipt.add_callback(lambda found, due=due: outcomes.note(found, due))  # type: ignore[misc]
                sent += 1
                due = plan.start + int(sent * step)
                if due > now or sent == total:
                    break
        connection.poll(0)
        party.tell(now)
    publisher.drain(GRACE_S)
    open_count = len(publisher.close(0))
    party.finish(
        refused=outcomes.refused,
        unknown=outcomes.unknown + open_count,
        unsent=total - sent,
        late=list(late.counts.items()),
    )


def _await(connection: sync.Connection, nanoseconds: int) -> None:
    """Wait for input, at most `nanoseconds`: to the microsecond, which the system's `poll` cannot."""
    if select.select((connection.fileno(),), (), (), nanoseconds / 1e9)[0]:
        connection.poll(0)


def _sleep_until(start: int) -> None:
    time.sleep(max(0, start - time.monotonic_ns()) / 1e9)


STAMP_OF: Final = itemgetter(slice(0, STAMP))


def receive(party: Party, connection: sync.Connection) -> None:
    """Take and accept messages, and measure from the times in them, until the senders have ended and no message
    comes."""
    plan = party.plan
    by_due = plan.load.rate > 0
    last, is_ending = time.monotonic_ns(), False
    receiver = connection.receiver(plan.queue, prefetch=plan.load.prefetch, consumerWindowSize=-1)
    with receiver:
        party.begin_at_word()
        plan = party.plan
        while True:
            delivery = receiver.receive(QUIET_S / 5)
            now = time.monotonic_ns()
            if delivery is not None:
                last = now
                _count(party, _batch(receiver, delivery), now, by_due)
            is_ending = is_ending or party.pipe.poll()
            party.tell(now)
            if is_ending and (now - last > QUIET_S * 1e9 or now > plan.end + 2 * GRACE_S * 1e9):
                break
    party.finish()


def _batch(receiver: sync.Receiver, delivery: Delivery | None) -> list[bytes]:
    """Take all messages that came with a message, and accept them."""
    bodies = []
    while delivery is not None:
        bodies.append(delivery.body)
        delivery.accept()
        delivery = receiver.receive_nowait() if len(bodies) < BURST else None
    return bodies


def _count(party: Party, bodies: list[bytes], now: int, by_due: bool) -> None:
    party.messages += len(bodies)
    for stamp, count in Counter(map(STAMP_OF, bodies)).items():
        at = int.from_bytes(stamp, "big")
        party.track.add(at if by_due else now, now - at, count)
