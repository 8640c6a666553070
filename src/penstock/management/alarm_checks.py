"""Checks for alarms: a round over the node, its gates and its queues each second, in slices of a turn.

The conditions are those of `why`, the health checks and the metrics: gates, the disk, certificates, the watches of
cursors, and the times of turns. A slice takes the share of a chore, so 10,000 queues delay no client.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.disk import QuotaGate
from penstock.core.gates.operator import ADDRESS, QUEUE, USER, VHOST
from penstock.core.queue.queue import Queue
from penstock.core.settings.table import SettingsTable
from penstock.describe.gate import text_of
from penstock.describe.queue_state import FORECAST_S
from penstock.describe.table import field_at
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from penstock.flow.work import Chore
from penstock.management.alarms import (
    BRIDGE,
    CERTIFICATE,
    CURSOR,
    DISK_FULL,
    DISK_LOW,
    FORECAST_DISK,
    FORECAST_MEMORY,
    FORECAST_QUOTA,
    GATE,
    HELD,
    LOOP,
    MEMORY,
    MEMORY_LOW,
    OLDEST,
    RECENT_S,
    STORE,
    Alarms,
)
from penstock.management.bridges import AWAY, REFUSED
from penstock.management.node import Node
from penstock.management.outlook import BROKER as BROKER_NOUN
from penstock.management.outlook import BYTES, NOW, SECONDS, Outlook, Trends, outlook_of
from penstock.management.why import advice
from penstock.settings.table import ALARM_DEFAULTS, ALARM_GATE_CLOSED_S, BROKER, BY_NAME, SettingValue
from penstock.texts import counted

LISTED_AT_ONCE: Final = 512
"""Queues listed at once."""
QUEUES_A_UNIT: Final = 4
"""Queues in their usual state that are checked for one unit of work."""
SLICE: Final = 500
"""Most units of work of a slice."""
TOPICS_A_UNIT: Final = 64
"""Gates of routing keys that are checked for one unit of work."""
RESOLVE_WORK: Final = 10
"""Units of work to resolve the threshold of a closed gate."""
FOUND_WORK: Final = 20
"""Units of work to describe a condition that holds."""
DAY_S: Final = 86_400.0
GATE_CLOSED: Final = "alarm-gate-closed"
BRIDGE_S: Final = 60.0
"""Seconds for which a bridge is away, or refused, before it raises an alarm."""


class GateOf:
    """A gate above the queues, with the object whose settings have its threshold."""

    __slots__ = ("gate", "scope", "vhost", "name")

    def __init__(self, gate: Gate, scope: str, vhost: str, name: str) -> None:
        self.gate = gate
        self.scope = scope
        """Scope of the settings: queue, address, vhost or user; connection for the settings of the broker."""
        self.vhost = vhost
        """Virtual host of the object; empty for a user or a connection."""
        self.name = name


class AlarmThresholds:
    """Thresholds of alarms that only the broker has, and the defaults of others."""

    def __init__(self, table: SettingsTable) -> None:
        self._table = table
        values = table.resolve(BROKER, "")
        self._closed: SettingValue | None = values.get(GATE_CLOSED)
        """The time of the broker; None if it is not set."""
        self.certificate_s: float = _seconds(values, "alarm-certificate", _default("alarm-certificate"))
        self.loop_s: float = _seconds(values, "alarm-loop", _default("alarm-loop") / 1000)
        self.clear_s: float = _seconds(values, "alarm-clear", _default("alarm-clear"))
        self.disk_bytes: i64 = 0
        """Space that raises an alarm; 0 for none."""
        self.disk_percent: float = 0.0
        """The space in percent of the file system, if it was set as a percentage."""
        low = values.get("alarm-disk-low")
        if low is None:
            self.disk_percent = float(str(ALARM_DEFAULTS["alarm-disk-low"]).removesuffix("%"))
        elif low.text == "%":
            self.disk_percent = low.real
        elif not low.none:
            self.disk_bytes = low.number

    def closed_s(self, of: GateOf) -> float:
        """Return the time after which a closed gate above the queues raises an alarm: of its address or user, its
        virtual host, or the broker.
        """
        given: list[SettingValue | None] = []
        if of.scope in (ADDRESS, USER):
            given.append(self._table.resolve(of.scope, of.name, of.vhost or None).get(GATE_CLOSED))
        if of.vhost:
            given.append(self._table.resolve(VHOST, of.vhost).get(GATE_CLOSED))
        for value in [*given, self._closed]:
            if value is not None:
                return _value_of(GATE_CLOSED, value)
        return ALARM_GATE_CLOSED_S

    def disk_low(self, total: i64) -> i64:
        """Return the space below which an alarm is raised, on a file system of this size (0 if unknown)."""
        if self.disk_percent == 0.0:
            return self.disk_bytes
        return i64(int(total) * round(self.disk_percent * 100) // 10_000)


def _default(name: str) -> float:
    value = ALARM_DEFAULTS[name]
    assert isinstance(value, int)
    return float(value)


def _seconds(values: dict[str, SettingValue], name: str, otherwise: float) -> float:
    value = values.get(name)
    return otherwise if value is None else _value_of(name, value)


def _value_of(name: str, value: SettingValue) -> float:
    seconds = BY_NAME[name].resolved(value)
    assert isinstance(seconds, (int, float))
    return float(seconds)


class AlarmChecks(Chore):
    """Checks of one broker. `tick` begins a round each second, unless the previous round is still going."""

    def __init__(self, node: Node, alarms: Alarms) -> None:
        super().__init__()
        self.node = node
        self.alarms = alarms
        self._thresholds = AlarmThresholds(node.broker.table)
        self._trends = Trends()
        self._running: bool = False
        self._vhosts: list[str] = []
        self._gates: list[GateOf] = []
        """Gates other than of queues that this round has yet to check."""
        self._topics: list[tuple[str, str]] = []
        """Virtual hosts and exchanges with bounds of routing keys that this round has yet to check."""
        self._queues: list[Queue] = []
        self._roll: Iterator[list[Queue]] = iter(())
        """Queues that this round has yet to check, and the rest of their virtual host."""

    # Rounds

    def tick(self) -> None:
        """Begin a round; called each second."""
        if not self._running:
            self._running = True
            self._begin()
            self.node.broker.turns.chores.add(self)

    def check(self) -> None:
        """Do a whole round at once."""
        self.tick()
        while self._running:
            self.work(UNLIMITED, self.node.broker.now)

    @override
    def has_more(self) -> bool:
        return self._running

    def work(self, most: i64, now: float) -> i64:
        """Check some gates and queues, for at most `SLICE` units; returns the units of work."""
        units: i64 = 0
        if most > SLICE:
            most = SLICE
        while units < most and self._running:
            if self._gates:
                units += self._check_gate_of(self._gates.pop())
            elif self._topics:
                units += self._check_topics(*self._topics.pop())
            elif self._queues:
                units += self._check_queues(most - units)
                if not self._queues:
                    self._queues = next(self._roll, self._queues)
            elif self._vhosts:
                vhost = self.node.broker.vhosts.get(self._vhosts.pop())
                if vhost is not None:
                    self._roll = vhost.roll.parts(LISTED_AT_ONCE)
                    self._queues = next(self._roll, self._queues)
                units += len(self._queues) // 100 + 1
            else:
                self.alarms.end_round(self._thresholds.clear_s)
                self._running = False
        return units

    def _begin(self) -> None:
        broker = self.node.broker
        self._thresholds = AlarmThresholds(broker.table)
        self.alarms.begin_round()
        self._trends.begin_round()
        self._check_disk()
        self._check_memory()
        self._check_certificates()
        self._check_cursors()
        self._check_refusals()
        self._check_bridges()
        self._check_loop()
        gates = broker.gates
        self._gates = [GateOf(each.gate, VHOST, name, name) for name, each in gates.vhosts.items()]
        self._gates += [GateOf(each.gate, ADDRESS, vhost, name) for vhost, name, each in gates.address_depths()]
        self._gates += [GateOf(each.gate, each.scope, each.vhost, each.name) for each in gates.operator_gates.values()]
        self._topics = gates.topics.exchanges()
        self._vhosts = list(broker.vhosts)

    # The node

    def _check_disk(self) -> None:
        broker = self.node.broker
        disk = broker.gates.disk
        if broker.journal is None:
            return
        for gate in disk.gates():
            if not gate.open:
                kind = STORE if gate is disk.fault.gate else DISK_FULL
                vhost = text_of(gate).vhost(gate) or ""
                reason = text_of(gate).reason(gate, broker.now)
                self.alarms.find(kind, vhost, _subject_of(gate), reason, outlook=Outlook(hurts_in_s=NOW))
        unwritten: i64 = 0 if disk.backlog is None else disk.backlog.unwritten()
        room = disk.room
        if room is not None and room.gate.open and disk.free != UNLIMITED:
            left = disk.free - disk.needed - unwritten - room.recheck_at()
            hurts_in_s = self._trends.reaches_in_s("free", -int(left), int(left), broker.now)
            self.alarms.forecasts[FORECAST_DISK] = hurts_in_s
            if left < self._thresholds.disk_low(room.total) or is_soon(hurts_in_s):
                text = f"the disk has {int(left):,} bytes left until publishers wait for min-disk-free"
                outlook = Outlook(BROKER_NOUN, "", hurts_in_s, int(left), BYTES)
                self.alarms.find(DISK_LOW, "", _subject_of(room.gate), text, outlook=outlook)
        quotas: list[QuotaGate | None] = [disk.quota, *[usage.quota for usage in disk.vhosts.values()]]
        for quota in quotas:
            if quota is None or not quota.gate.open:
                continue
            over = int(quota.overfull - quota.bytes)
            hurts_in_s = self._trends.reaches_in_s(f"quota {quota.vhost}", int(quota.bytes), over, broker.now)
            if quota is disk.quota:
                self.alarms.forecasts[FORECAST_QUOTA] = hurts_in_s
            if quota.bytes > quota.underfull or is_soon(hurts_in_s):
                of = f" of vhost {quota.vhost}" if quota.vhost else ""
                text = f"the store{of} has {int(quota.bytes):,} bytes; publishers wait above {int(quota.overfull):,}"
                noun = "vhost" if quota.vhost else BROKER_NOUN
                outlook = Outlook(noun, quota.vhost, hurts_in_s, over, BYTES)
                self.alarms.find(DISK_LOW, quota.vhost, _subject_of(quota.gate), text, outlook=outlook)

    def _check_memory(self) -> None:
        now, memory = self.node.broker.now, self.node.broker.gates.memory
        if memory is None:
            return
        if not memory.gate.open:
            reason = text_of(memory.gate).reason(memory.gate, now)
            self.alarms.find(MEMORY, "", "memory", reason, outlook=Outlook(hurts_in_s=NOW))
            return
        stop = memory.thresholds.stop.bytes
        if stop == UNLIMITED:
            return
        left = int(stop - memory.bytes)
        hurts_in_s = self._trends.reaches_in_s("memory", int(memory.bytes), left, now)
        self.alarms.forecasts[FORECAST_MEMORY] = hurts_in_s
        if is_soon(hurts_in_s):
            text = f"messages fill {int(memory.bytes):,} bytes of memory; publishers wait above {int(stop):,}"
            outlook = Outlook(BROKER_NOUN, "", hurts_in_s, left, BYTES)
            self.alarms.find(MEMORY_LOW, "", "memory", text, outlook=outlook)

    def _check_certificates(self) -> None:
        broker = self.node.broker
        wall = broker.now + broker.wall_offset
        for file, name, ends in self.node.certificates.ends():
            left = ends - wall
            if left <= self._thresholds.certificate_s:
                day = datetime.fromtimestamp(ends, UTC).date().isoformat()
                when = f"ends in {left / DAY_S:.0f} days, on {day}" if left > 0 else f"has ended on {day}"
                text = f"certificate '{file}'{f' for {name}' if name else ''} {when}"
                outlook = Outlook("certificate", name or file, max(left, NOW), round(max(left, NOW)), SECONDS)
                self.alarms.find(CERTIFICATE, "", f"certificate {name or file}", text, outlook=outlook)

    def _check_cursors(self) -> None:
        for cursor, queue, clause in self.node.control.ranges.behind():
            subject = f"cursor {cursor} of queue {queue.name}"
            action = f"start the reader of the cursor, or `penstock cursors delete {cursor}`"
            outlook = Outlook("cursor", cursor)
            self.alarms.find(CURSOR, queue.vhost, subject, f"{subject} is {clause}", action, outlook)

    def _check_refusals(self) -> None:
        now = self.node.broker.now
        for key, refusals in list(self.alarms.refusing.items()):
            if now - refusals.last > RECENT_S:
                del self.alarms.refusing[key]
                continue
            were = "publish was" if refusals.count == 1 else "publishes were"
            text = f"{int(refusals.count):,} {were} refused at the hold deadline by {key[1]}"
            self.alarms.find(HELD, key[0], key[1], text, advice(refusals.gate), outlook_of(refusals.gate))

    def _check_bridges(self) -> None:
        wall = self.node.broker.now + self.node.broker.wall_offset
        for bridge in self.node.bridges.all():
            state, reason = bridge.state()
            since = bridge.report.get("since")
            if state not in (AWAY, REFUSED) or not isinstance(since, (int, float)) or wall - since < BRIDGE_S:
                continue
            subject = f"{bridge.component} {bridge.name}"
            action = f"`penstock bridges show {bridge.name}` tells which end, and why"
            outlook = Outlook("bridge", bridge.name)
            self.alarms.find(BRIDGE, bridge.vhost, subject, f"{subject} is {state}: {reason}", action, outlook)

    def _check_loop(self) -> None:
        limit, late_s = self._thresholds.loop_s, self.alarms.late_s()
        longest = field_at(self.node.turns_view(), "recent.ms")
        turn_s = longest / 1000 if isinstance(longest, (int, float)) else 0.0
        if max(turn_s, late_s) >= limit:
            text = (
                f"the event loop was busy for {turn_s:.1f} s at once"
                if turn_s >= late_s
                else (f"the event loop ran {late_s:.1f} s late, and not because of a turn")
            )
            self.alarms.find(LOOP, "", "event loop", text)

    # Gates and queues

    def _check_gate_of(self, of: GateOf) -> i64:
        """Check a gate above the queues; one that the operator closes for a queue has the threshold of the queue."""
        if of.gate.stats.since is None:
            return 1
        vhost = self.node.broker.vhosts.get(of.vhost) if of.scope == QUEUE else None
        queue = None if vhost is None else vhost.queues.get(of.name)
        closed_s = self._thresholds.closed_s(of) if queue is None else queue.settings.alarm_gate_closed_s
        return self._check_gate(of.gate, closed_s, of.vhost) + RESOLVE_WORK

    def _check_topics(self, vhost: str, exchange: str) -> i64:
        """Check the gates of the routing keys of an exchange."""
        depths = self.node.broker.gates.topics.depths_of(vhost, exchange)
        units: i64 = len(depths) // TOPICS_A_UNIT + 1
        for depth in depths:
            if depth.gate.stats.since is not None:
                units += self._check_gate_of(GateOf(depth.gate, ADDRESS, vhost, depth.gate.name))
        return units

    def _check_gate(self, gate: Gate, closed_s: float, vhost: str = "") -> i64:
        """Check a gate other than of the disk or the memory, which have kinds of their own."""
        now, since = self.node.broker.now, gate.stats.since
        if since is None or now - since < closed_s:
            return 1
        words = text_of(gate)
        vhost, name = words.vhost(gate) or vhost, words.name(gate)
        if not self.alarms.wants(GATE, vhost, name):
            return 1
        self.alarms.find(GATE, vhost, name, words.reason(gate, now), advice(gate), outlook_of(gate))
        return FOUND_WORK

    def _check_queues(self, most: i64) -> i64:
        """Check some of the listed queues."""
        units: i64 = 0
        usual: i64 = 0
        queues = self._queues
        while queues and units < most:
            queue = queues.pop()
            gate = queue.gate
            settings = queue.settings
            if queue.deleted or (gate.open and settings.alarm_oldest_s == NEVER):
                usual += 1
                if usual == QUEUES_A_UNIT:
                    usual = 0
                    units += 1
                continue
            units += self._check_gate(gate, settings.alarm_gate_closed_s)
            if settings.alarm_oldest_s != NEVER:
                units += self._check_oldest(queue, settings.alarm_oldest_s)
        return units + 1

    def _check_oldest(self, queue: Queue, oldest_s: float) -> i64:
        """Check the age of the oldest ready message of a queue."""
        age = queue.oldest_age_s(self.node.broker.now)
        if age < oldest_s:
            return 1
        subject = text_of(queue.gate).name(queue.gate)
        if not self.alarms.wants(OLDEST, queue.vhost, subject):
            return 1
        text = f"{subject}: the oldest of {counted(int(queue.waiting()), 'ready message')} is {age:,.0f} s old"
        action = f"`penstock why {queue.name}`; start consumers, or more of them"
        self.alarms.find(OLDEST, queue.vhost, subject, text, action, Outlook("queue", queue.name))
        return FOUND_WORK


def is_soon(seconds: float | None) -> bool:
    """Return whether a forecast needs a person before its time."""
    return seconds is not None and seconds < FORECAST_S


def _subject_of(gate: Gate) -> str:
    return f"disk {gate.name}"
