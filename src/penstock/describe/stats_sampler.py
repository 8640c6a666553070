"""The sampler of counts: every five seconds it visits all queues, exchanges, channels and connections, in slices.

Theory of operation. The core only counts. A pass visits each object once and passes its counts on to its series, from
which rates, samples and histories are read (flow/series.py). An object that has counted nothing yet has no series, and
costs a few comparisons. The sums of virtual hosts, users and the node are the sums over visited connections, plus
closed connections. A connection that closes after its visit is counted among the closed ones, so its visit is
subtracted.

A pass is a chore of the broker: it has a bounded share of each turn. A pass that takes longer than five seconds delays
the next pass, and rates are divided by the true interval.

Histories of the last 24 hours are in three tiers: five minutes by five seconds, an hour by minutes, and a day by five
minutes. A longer tier has the average rate and the highest depth of each entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.peer import Traffic
from penstock.core.broker import Broker
from penstock.core.gates.registry import USERS_COUNTED
from penstock.core.publish.session_counts import tally_of
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Exchange
from penstock.describe.gate import closed_s
from penstock.describe.message_stats import (
    CLOSED_MS,
    DELIVERIES,
    EXCHANGE_KEYS,
    QUEUE_COUNTERS,
    QUEUE_KEYS,
    QUEUE_LEVELS,
    SUM_CLOSED_MS,
    SUM_COUNTERS,
    UNROUTABLE_KEYS,
    Depths,
    Row,
    connection_tally,
    exchange_counts,
    queue_counts,
)
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.series import FINE, MINUTES, PERIOD, PERIODS, SLOT_S, TALLY_KEYS, TIERS, SampleTimes, Series, Tally
from penstock.flow.work import Chore

SERIES_MOST: Final = 10_000
"""Most series with slots, about 11 KiB each after a day; further objects have only rates."""
SKIPPED_A_UNIT: Final = 8
"""Objects without counts that cost a unit of work."""
LISTED_AT_ONCE: Final = 500
"""Queues that are listed at once for their visits."""
SLICE: Final = 500
"""Units of work of a slice: half a millisecond."""
SAMPLED_WORK: Final = 4
"""Units of work of an object with a series."""
NOTHING: Final = Tally()
DAY: Final = PERIOD * PERIODS
"""Slots of a day."""


class Sum:
    """The counts of a virtual host, of a user or of the node."""

    __slots__ = ("tally", "levels", "series", "_next", "_depths")

    def __init__(self) -> None:
        self.tally = Tally()
        """Counts of the last pass."""
        self.series: Series | None = None
        """Samples; None before the first message."""
        self.levels: list[int] = [0, 0, 0]
        """Messages, unacknowledged messages, and bytes in the queues, as of the last pass."""
        self._next = Tally()
        self._depths = Depths()

    def add_queue(self, queue: Queue) -> None:
        """Add the depth of a queue in the present pass."""
        self._depths.add(queue)

    def add_levels(self, other: Sum) -> None:
        """Add the depths of a part whose pass has ended."""
        self._depths.messages += other.levels[0]
        self._depths.unacknowledged += other.levels[1]
        self._depths.bytes += other.levels[2]

    def add(self, tally: Tally) -> None:
        """Add the counts of a part in the present pass."""
        self._next.add(tally)

    def take_back(self, tally: Tally) -> None:
        """Subtract the amounts added for a connection that has closed since."""
        self._next = self._next.less(tally)

    def conclude(self, closed: Tally) -> None:
        """End the pass, and add the counts of closed connections."""
        self._next.add(closed)
        self.tally = self._next
        self._next = Tally()
        depths = self._depths
        self.levels = [int(depths.messages), int(depths.unacknowledged), int(depths.bytes)]
        self._depths = Depths()


class StatsSampler(Chore):
    """The sampler of one broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.times = SampleTimes(broker.now)
        self.vhosts: dict[str, Sum] = {}
        self.users: dict[str, Sum] = {}
        """Sums by name; of users, only those with counts."""
        self.node = Sum()
        self.closed_gates: Series | None = None
        """Milliseconds for which gates were closed, summed over all gates; None before the first."""
        self.ended_traffic = Traffic()
        """Bytes of the connections that have ended."""
        self._connections: list[Connection] = []
        self._roll: Iterator[list[Queue]] = iter(())
        self._queues: list[Queue] = []
        self._exchanges: list[Exchange] = []
        """Objects that the pass must still visit."""
        self._sum = Sum()
        """Sum of the virtual host of these objects."""
        self._vhosts: list[str] = []
        """Virtual hosts whose queues and exchanges must still be listed."""
        self._visited: dict[int, tuple[Tally, list[Sum]]] = {}
        """Counts of the visited connections, by number, and the sums that include them."""
        self._deleted = Tally()
        """Counts of deleted virtual hosts."""
        self._closed_ms: i64 = 0
        """Value of `closed_gates`, with the increases of the present pass."""
        self._sums: list[tuple[Sum, Gate | None]] = []
        """Sums to record at the end of the pass."""
        self._stored: i64 = 0
        self._last_slot: i64 = 0
        """Slot of the previous pass: a late pass skips slots."""
        self._passing: bool = False
        self._concluded: bool = False

    def tick(self, connections: dict[int, Connection]) -> None:
        """Begin a pass if one is due; called each second."""
        if not self._passing and self.times.slot_at(self.broker.now) > self.times.slot:
            self._begin(connections)
            self.broker.turns.chores.add(self)

    def sample(self, connections: dict[int, Connection]) -> None:
        """Do a whole pass at once, if one is due."""
        self.tick(connections)
        while self._passing:
            self.work(DAY, self.broker.now)

    def forget(self, connection: Connection) -> None:
        """Subtract the visit of a connection that closes: its counts are added to the closed ones."""
        self.ended_traffic.add(connection.peer.traffic)
        visited = self._visited.pop(connection.number, None)
        if visited is not None:
            for each in visited[1]:
                each.take_back(visited[0])

    def forget_vhost(self, name: str) -> None:
        """Add the counts of a deleted virtual host to the node; a host created again begins at 0."""
        vhost = self.vhosts.pop(name, None)
        if vhost is not None:
            self._deleted.add(vhost.tally)

    def _begin(self, connections: dict[int, Connection]) -> None:
        self._passing = True
        self._stored = 0
        self._last_slot = self.times.slot
        self.times.begin(self.broker.now)
        self._vhosts = list(self.broker.vhosts)
        self._connections = list(connections.values())

    # A pass

    @override
    def has_more(self) -> bool:
        return self._passing

    def work(self, most: i64, now: float) -> i64:
        """Visit some objects, for at most `SLICE` units; returns the units of work."""
        units: i64 = 0
        if most > SLICE:
            most = SLICE
        while units < most and self._passing:
            if self._connections:
                units += self._visit_connection(self._connections.pop())
            elif self._queues:
                units += self._visit_queues(most - units)
                if not self._queues:
                    self._queues = next(self._roll, self._queues)
            elif self._exchanges:
                units += self._visit_exchange(self._exchanges.pop())
            elif self._vhosts:
                vhost = self.broker.vhosts.get(self._vhosts.pop())
                if vhost is not None:
                    self._sum = _sum_of(self.vhosts, vhost.name)
                    self._roll = vhost.roll.parts(LISTED_AT_ONCE)
                    self._queues = next(self._roll, self._queues)
                    self._exchanges.extend(vhost.exchanges.values())
                    units += len(self._queues) // 100 + 1
            elif not self._concluded:
                units += self._conclude()
            elif self._sums:
                each, gate = self._sums.pop()
                units += self._record_sum(each, gate)
            else:
                self.times.stored = self._stored
                self._concluded = False
                self._passing = False
        return units

    def _new_series(self, counters: int, levels: int, is_long: bool) -> Series:
        stored = self.times.stored < SERIES_MOST
        if stored:
            self.times.stored += 1
        return Series(self.times, counters, levels, stored, is_long)

    def _record(self, series: Series, counts: list[int]) -> i64:
        if series.is_stored:
            self._stored += 1
        if not series.record(counts) and self.times.slot - series.slot >= DAY > self._last_slot - series.slot:
            series.forget()
        return SAMPLED_WORK

    def _visit_queues(self, most: i64) -> i64:
        """Visit some of the listed queues."""
        units: i64 = 0
        skipped: i64 = 0
        now = self.broker.now
        queues = self._queues
        while queues and units < most:
            queue = queues.pop()
            self._sum.add_queue(queue)
            series = queue.counters.series
            if series is None and not queue.counters.has_counted(queue):
                skipped += 1
                if skipped == SKIPPED_A_UNIT:
                    skipped = 0
                    units += 1
                continue
            if series is None:
                series = self._new_series(QUEUE_COUNTERS, len(QUEUE_LEVELS), True)
                queue.counters.own().series = series
            counts = queue_counts(queue, now)
            self._add_closed(counts[CLOSED_MS] - series.totals[CLOSED_MS])
            units += self._record(series, counts)
        return units + 1

    def _visit_exchange(self, exchange: Exchange) -> i64:
        counters = exchange.counters
        if counters.published == 0:
            return 1
        if counters.series is None:
            counters.series = self._new_series(len(EXCHANGE_KEYS) + len(UNROUTABLE_KEYS), 0, False)
        return self._record(counters.series, exchange_counts(counters))

    def _visit_connection(self, connection: Connection) -> i64:
        origin = connection.origin
        if origin is None or connection.vhost is None or origin.sinks:
            return 1  # The connection is not open, or its counts were added already.
        connection.peer.traffic.sample(self.broker.now, connection.times.opened)
        units: i64 = SAMPLED_WORK
        sessions = list(connection.engine.sessions())
        for session in sessions:
            counts = tally_of(session).values()
            if session.series is None and any(counts):
                session.series = self._new_series(len(TALLY_KEYS), 0, False)
            units += 1 if session.series is None else self._record(session.series, counts)
        tally = connection_tally(origin, sessions)
        counts = tally.values()
        if origin.series is None and any(counts):
            origin.series = self._new_series(len(TALLY_KEYS), 0, False)
        if origin.series is not None:
            units += self._record(origin.series, counts)
        sums = self._sums_of(connection)
        self._visited[connection.number] = tally, sums
        for each in sums:
            each.add(tally)
        return units

    def _sums_of(self, connection: Connection) -> list[Sum]:
        sums: list[Sum] = []
        if connection.user in self.users or len(self.users) < USERS_COUNTED:
            sums.append(_sum_of(self.users, connection.user))
        vhost = connection.vhost
        if vhost is not None and self.broker.vhosts.get(vhost.name) is vhost:  # Not while its vhost is deleted.
            sums.append(_sum_of(self.vhosts, vhost.name))
        return sums

    def _conclude(self) -> i64:
        """End the visits: sum up in one step, so that no connection closes in between."""
        self._concluded = True
        sums = self._sums
        for name, vhost in self.broker.vhosts.items():
            each = _sum_of(self.vhosts, name)
            each.conclude(vhost.closed_counts)
            self.node.add(each.tally)
            self.node.add_levels(each)
            limit = self.broker.gates.vhosts.get(name)
            sums.append((each, None if limit is None else limit.gate))
        self.node.conclude(self._deleted)
        memory = self.broker.gates.memory
        sums.append((self.node, None if memory is None else memory.gate))
        closed = self.broker.gates.closed_counts
        for user in closed:
            _sum_of(self.users, user)
        for user in list(self.users):
            each = self.users[user]
            each.conclude(closed.get(user, NOTHING))
            if any(each.tally.values()):
                sums.append((each, None))
            else:
                del self.users[user]
        self._visited.clear()
        return len(sums) + self._conclude_gates()

    def _add_closed(self, milliseconds: int) -> None:
        """Count the time for which a gate was closed; of one that nobody visited for long, only the last interval."""
        if milliseconds > 0:
            self._closed_ms += min(milliseconds, round(self.times.interval_s() * 1000))

    def _conclude_gates(self) -> i64:
        """Add the gates above the queues that are closed now, and record the sum."""
        gates = self.broker.gates
        above = [each.gate for each in gates.operator_gates.values()]
        above += [each.gate for each in gates.vhosts.values()] + [each.gate for each in gates.depths.values()]
        above += gates.disk.gates()
        if gates.memory is not None:
            above.append(gates.memory.gate)
        for gate in above:
            if gate.stats.since is not None:
                self._add_closed(round((self.times.now - gate.stats.since) * 1000))
        series = self.closed_gates
        if series is None and self._closed_ms > 0:
            series = self.closed_gates = self._new_series(1, 0, True)
        if series is not None:
            self._record(series, [int(self._closed_ms)])
        return len(above) // SKIPPED_A_UNIT + 1

    def _record_sum(self, each: Sum, gate: Gate | None) -> i64:
        """Record a sum, with the time for which its gate was closed."""
        counts = each.tally.values()
        counts.append(0 if gate is None else int(closed_s(gate, self.times.now) * 1000))
        counts += each.levels
        if each.series is None:
            if not any(counts):
                return 1
            each.series = self._new_series(SUM_COUNTERS, len(QUEUE_LEVELS), True)
        return self._record(each.series, counts)


def _sum_of(sums: dict[str, Sum], name: str) -> Sum:
    present = sums.get(name)
    if present is None:
        present = Sum()
        sums[name] = present
    return present


STEPS_S: Final = tuple([round(slots * SLOT_S) for slots, _ in TIERS])
"""Seconds of an entry of each tier."""
RATES: Final = ("publish", "deliver_get", "ack", "redeliver")
BYTES_LEVEL: Final[int] = QUEUE_LEVELS.index("bytes")


def of_queue(queue: Queue, stats: StatsSampler, tier: int) -> Row:
    """Return a tier of a queue's history."""
    return _tier(_of(queue, stats), stats, tier, QUEUE_KEYS, CLOSED_MS)


def recent(queue: Queue, stats: StatsSampler, samples: int) -> Row:
    """Return the newest depths of a queue, in messages and in percent of its present capacity, and the fractions of
    time that its gate was closed, by five seconds.
    """
    series = _of(queue, stats)
    messages = series.values(CLOSED_MS + 1, FINE)
    octets = series.values(CLOSED_MS + 1 + BYTES_LEVEL, FINE)
    closed = _closed(series, CLOSED_MS, FINE, _seconds(series, FINE))
    first = max(len(messages) - samples, 0)
    return {
        "seconds": STEPS_S[FINE],
        "messages": messages[first:],
        "fill": _fills(queue, messages[first:], octets[first:]),
        "closed": closed[first:],
    }


def _fills(queue: Queue, messages: list[int], octets: list[int]) -> list[float] | None:
    """Return depths in percent of a queue's capacity; None without one, and for a queue that pages: its depths include
    messages on the disk, which its capacity does not limit.
    """
    capacity = queue.thresholds.capacity
    if queue.pager is not None or capacity.unlimited():
        return None
    fills: list[float] = []
    for count, size in zip(messages, octets, strict=True):
        percent = 0.0
        if capacity.messages != UNLIMITED and capacity.messages > 0:
            percent = 100.0 * count / float(capacity.messages)
        if capacity.bytes != UNLIMITED and capacity.bytes > 0:
            percent = max(percent, 100.0 * float(capacity.counted(count, size)) / float(capacity.bytes))
        fills.append(round(percent, 1))
    return fills


def hour(queue: Queue, stats: StatsSampler) -> Row:
    """Return the last hour of a queue by minutes, the oldest first: highest depths, and seconds of a closed gate."""
    series = _of(queue, stats)
    closed = [round(value / 1000, 1) for value in series.values(CLOSED_MS, MINUTES)]
    return {"messages": series.values(CLOSED_MS + 1, MINUTES), "closed_s": closed}


def ended(stats: StatsSampler) -> int:
    """Return when the last entries of all tiers ended: milliseconds since 1970."""
    return round((stats.times.now + stats.broker.wall_offset) * 1000)


def of_sum(counted: Sum | None, stats: StatsSampler, tier: int) -> Row:
    """Return a tier of the history of a virtual host or of the node; None means that no pass has visited it."""
    series = None if counted is None else counted.series
    if series is None:
        series = _without(stats, [0] * (SUM_COUNTERS + len(QUEUE_LEVELS)), SUM_COUNTERS)
    return _tier(series, stats, tier, TALLY_KEYS, SUM_CLOSED_MS)


def closed_gates(stats: StatsSampler, tier: int) -> list[float]:
    """Return the average number of closed gates in each entry of a tier, the oldest first."""
    series = stats.closed_gates
    if series is None:
        series = Series(stats.times, 1, 0, False, True)
    return [
        round(value / 1000 / each, 4)
        for value, each in zip(series.values(0, tier), _seconds(series, tier), strict=True)
    ]


def _of(queue: Queue, stats: StatsSampler) -> Series:
    """Return the series of a queue, which has none before its first message."""
    own = queue.counters.series
    return _without(stats, queue_counts(queue, stats.broker.now), QUEUE_COUNTERS) if own is None else own


def _without(stats: StatsSampler, counts: list[int], counters: int) -> Series:
    """Return the series of an object without activity since the start."""
    series = Series(stats.times, counters, len(QUEUE_LEVELS), False, True)
    series.totals = counts
    return series


def _tier(series: Series, stats: StatsSampler, tier: int, keys: tuple[str, ...], closed: int) -> Row:
    """Return the entries of a tier, the oldest first; rates are by the second, `closed` is a fraction of time."""
    seconds = _seconds(series, tier)
    row: Row = {
        "seconds": STEPS_S[tier],
        "end": ended(stats),
        "publish": _rates(series, [0], tier, seconds),
        "deliver_get": _rates(series, [keys.index(key) for key in DELIVERIES], tier, seconds),
    }
    for key in RATES[2:]:
        row[key] = _rates(series, [keys.index(key)], tier, seconds)
    row["closed"] = _closed(series, closed, tier, seconds)
    for at, key in enumerate(QUEUE_LEVELS):
        row[key] = series.values(closed + 1 + at, tier)
    return row


def _closed(series: Series, column: int, tier: int, seconds: list[float]) -> list[float]:
    """Return the fraction of each entry for which the gate was closed."""
    fractions = [value / 1000 / each for value, each in zip(series.values(column, tier), seconds, strict=True)]
    return [min(round(each, 4), 1.0) for each in fractions]


def _seconds(series: Series, tier: int) -> list[float]:
    """Return the seconds of each entry of a tier: the newest may have begun just now, and the first lacks slot 0."""
    slots, entries = TIERS[tier]
    newest = int(series.times.slot) // slots
    count = min(newest + 1, entries)
    seconds = [slots * SLOT_S] * count
    seconds[-1] = (int(series.times.slot) % slots + 1) * SLOT_S
    return seconds


def _rates(series: Series, columns: list[int], tier: int, seconds: list[float]) -> list[float]:
    sums = series.values(columns[0], tier)
    for at in columns[1:]:
        sums = [one + more for one, more in zip(sums, series.values(at, tier), strict=True)]
    return [round(value / each, 3) for value, each in zip(sums, seconds, strict=True)]
