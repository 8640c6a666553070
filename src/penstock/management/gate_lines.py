"""Log messages of gates in the form of Broker-J's operational log: one by one while they are rare, otherwise summed.

`Spells` decides which spells are logged one by one. Sums are one line a second for each gate.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from mypy_extensions import i64

from penstock.connections.log_line import LogLine
from penstock.connections.lost_publishes import Losses
from penstock.connections.slowed_connections import KIND, Wait
from penstock.core.effects import NotRetained, Overtaken, Paging
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.queue import Queue
from penstock.describe.gate import text_of
from penstock.describe.table import amounts
from penstock.flow.gate import Gate, GateTransition
from penstock.flow.level import amount
from penstock.flow.timers import NEVER
from penstock.logs.ids import BLOCKED_BRIEFLY, CLOSED_BRIEFLY, SLOW_TURN

LASTING_S: Final = 0.1
"""Seconds after which a spell is always logged."""
CLOSINGS_AT_ONCE: Final = 10
BLOCKS_AT_ONCE: Final = 2
"""Most closings of a gate, and blocks of a producer, in two seconds that are logged at once."""
TOLD_A_SECOND: Final = 200
"""Most beginnings logged in a second. Further spells are logged in the next seconds if they last, else summed."""
SUMS_KEPT: Final = 500
"""Most sums of one producer in a second; those of further producers are one for each gate."""
SUBJECTS_KEPT: Final = 1_000
"""Most subjects of a second whose spells are counted; those of further ones are logged if they last."""
RETRIED_A_SECOND: Final = 1_000
"""Most lasting spells without admission that ask again in a second."""
Key = tuple[int, int]
"""Subject of a spell, by identity: a gate or a producer, or a producer and a gate."""


class Spell:
    """A closing of a gate, or a block of a producer at a gate, that has begun."""

    __slots__ = ("gate", "since", "producer", "closing")

    def __init__(
        self, gate: Gate, since: float, producer: WaitingPublisher | None, closing: GateTransition | None = None
    ) -> None:
        self.gate = gate
        self.since = since
        """Monotonic seconds."""
        self.producer = producer
        """None for a closing."""
        self.closing = closing
        """None for a block."""


class SpellSum:
    """Sum of the spells of a second that were not logged one by one: of one producer at a gate, or of a gate."""

    __slots__ = ("first", "producer", "count", "total_s", "messages", "bytes")

    def __init__(self, first: Spell, producer: WaitingPublisher | None) -> None:
        self.first = first
        """The first of them, which gives gate and time."""
        self.producer = producer
        """None for closings, and for producers that were too many."""
        self.count: int = 0
        self.total_s: float = 0.0
        """Their time together, in seconds."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Highest depth at a closing."""

    def add(self, spell: Spell, now: float) -> None:
        """Add a spell that ends."""
        self.count += 1
        self.total_s += now - spell.since
        if spell.closing is not None:
            self.messages = max(self.messages, spell.closing.messages)
            self.bytes = max(self.bytes, spell.closing.bytes)


class Spells:
    """The spells of one kind, for one log."""

    def __init__(self, at_once: int, admits: Callable[[Spell], bool] | None = None) -> None:
        self._at_once = at_once
        """Most spells of one subject in two seconds that are logged at once."""
        self._admits = admits
        """Returns whether the log has room for a spell; None: always."""
        self._unreported: dict[Key, Spell] = {}
        """Spells that last and are not logged, oldest first."""
        self._without_room: dict[Key, Spell] = {}
        """Spells that lasted and were not admitted."""
        self._begun: dict[Key, tuple[Spell, int]] = {}
        self._begun_before: dict[Key, tuple[Spell, int]] = {}
        """Spells that began in this second, and in the last one: the first of a subject, and their number.

        The spell keeps its subject alive, so that no new one has its identity.
        """
        self._reported: int = 0
        """Number of beginnings logged in this second."""
        self._sums: dict[Key, SpellSum] = {}
        """By gate and producer, with 0 for none."""
        self._done: list[SpellSum] = []
        """Sums of closings before one that was logged, so that a reader of the lines in order knows the last
        opening."""

    def cross(self, crossing: GateTransition) -> bool:
        """Begin or end the spell of a gate that closed or opened; return whether the transition is to be logged now."""
        key = (id(crossing.gate), 0)
        if crossing.closed:
            return self.begin(key, Spell(crossing.gate, crossing.now, None, crossing))
        return self.end(key, crossing.now)

    def begin(self, key: Key, spell: Spell) -> bool:
        """Begin a spell; return whether the beginning is to be logged now."""
        if self._is_rare(key, spell) and self._reported < TOLD_A_SECOND and self._has_room(spell):
            self._reported += 1
            return True
        self._unreported[key] = spell
        return False

    def _has_room(self, spell: Spell) -> bool:
        return self._admits is None or self._admits(spell)

    def _is_rare(self, key: Key, spell: Spell) -> bool:
        """Count a spell; return whether spells of the subject are rare."""
        first, begun = self._begun.get(key, (spell, 0))
        if not begun and len(self._begun) >= SUBJECTS_KEPT:
            return False
        self._begun[key] = (first, begun + 1)
        _, before = self._begun_before.get(key, (spell, 0))
        return begun + 1 + before <= self._at_once

    def end(self, key: Key, now: float) -> bool:
        """End a spell; return whether the end is to be logged. Otherwise the spell is summed."""
        spell = self._unreported.pop(key, None) or self._without_room.pop(key, None)
        if spell is None:
            done = self._sums.pop(key, None)
            if done is not None:
                self._done.append(done)
            return True
        producer = spell.producer
        place = (id(spell.gate), 0 if producer is None else id(producer))
        if place not in self._sums and len(self._sums) >= SUMS_KEPT:
            place, producer = (id(spell.gate), 0), None
        spell_sum = self._sums.get(place)
        if spell_sum is None:
            spell_sum = SpellSum(spell, producer)
            self._sums[place] = spell_sum
        spell_sum.add(spell, now)
        return False

    def lasting(self, now: float) -> list[Spell]:
        """Take the spells whose beginning is to be logged because they have lasted, oldest first."""
        spells: list[Spell] = []
        untold = self._unreported
        while untold and self._reported < TOLD_A_SECOND:
            key = next(iter(untold))
            if untold[key].since + LASTING_S > now:
                break
            spell = untold.pop(key)
            if self._has_room(spell):
                spells.append(spell)
                self._reported += 1
            else:
                self._without_room[key] = spell
        return spells

    def tick(self) -> list[SpellSum]:
        """Begin a second; return the sums of the previous second."""
        self._begun_before = self._begun
        self._begun = {}
        self._reported = 0
        for key in list(islice(self._without_room, RETRIED_A_SECOND)):
            self._unreported[key] = self._without_room.pop(key)
        sums = [*self._done, *self._sums.values()]
        self._done.clear()
        self._sums.clear()
        return sums


def gate_fields(gate: Gate) -> dict[str, object]:
    """Return a gate's identity: its kind, name, virtual host and queue, as far as they exist."""
    fields: dict[str, object] = {"kind": gate.kind, "gate": gate.name}
    vhost = text_of(gate).vhost(gate)
    if vhost is not None:
        fields["vhost"] = vhost
    if gate.kind == "queue":
        fields["queue"] = gate.name
    return fields


def _of_gate(gate: Gate, number: str, text: str, fields: dict[str, object]) -> LogLine:
    """Return a line whose subject is a gate."""
    return LogLine(f"{text_of(gate).subject(gate)} {number} : {text}", {"id": number, **gate_fields(gate), **fields})


def crossed(crossing: GateTransition) -> LogLine:
    """Return the line of a gate that closed or opened (QUE-1003, QUE-1004; PST-... for gates other than queues')."""
    number, text = text_of(crossing.gate).log_line(crossing)
    return _of_gate(crossing.gate, number, text, amounts(crossing.messages, crossing.bytes))


def closed_briefly(closings: SpellSum) -> LogLine:
    """Return the line of closings of a gate that were too frequent to be logged one by one."""
    times = f"{closings.count:,} times, {closings.total_s:.3f} s in all"
    highest = f"Highest : {amount(closings.bytes)} bytes, {amount(closings.messages)} messages"
    fields: dict[str, object] = {"count": closings.count, "brief_s": closings.total_s}
    fields.update(amounts(closings.messages, closings.bytes))
    return _of_gate(closings.first.gate, CLOSED_BRIEFLY, f"Closed Briefly : {times}, {highest}", fields)


def blocked_briefly(blocks: list[SpellSum]) -> LogLine:
    """Return the line of blocks at one gate that were too frequent and too short to be logged one by one."""
    count, total_s = sum([each.count for each in blocks]), sum([each.total_s for each in blocks])
    producer = blocks[0].producer if len(blocks) == 1 else None
    whose = "of several channels" if producer is None else f"of {producer.name}"
    text = f"Blocked Briefly : {count:,} times, {total_s:.3f} s in all, {whose}"
    return _of_gate(blocks[0].first.gate, BLOCKED_BRIEFLY, text, {"count": count, "brief_s": total_s})


def slow_turn(seconds: float, work: int, connection: str, share: int) -> LogLine:
    """Return the line of a turn of the event loop that took long, with the connection that caused most of the work."""
    whose = f", {share:,} of them for {connection}" if connection else ""
    return LogLine(
        f"slow turn of the event loop: {seconds * 1000:.0f} ms, {work:,} units of work{whose}",
        {"id": SLOW_TURN, "ms": round(seconds * 1000, 3), "work": work, "connection": connection or None},
    )


def dropped(queue: Queue) -> LogLine:
    """Return the line of messages that a queue's overflow policy dropped or refused since the last line (QUE-1005)."""
    count = int(queue.counters.rare.unreported_dropped + queue.counters.rare.unreported_refused)
    capacity = queue.thresholds.capacity
    text = (
        f"Dropped : {count:,} messages, "
        f"Depth : {amount(queue.measure().bytes)} bytes, {amount(queue.depth_messages())} messages, "
        f"Capacity : {amount(capacity.bytes)} bytes, {amount(capacity.messages)} messages"
    )
    fields = {"count": count, **amounts(queue.depth_messages(), queue.depth_bytes())}
    return _of_gate(queue.gate, "QUE-1005", text, fields)


def paging(effect: Paging) -> LogLine:
    """Return the line of a queue that begins to page messages out, or has read its last page."""
    size = f"Size : {amount(effect.bytes)} bytes, Messages : {amount(effect.messages)}"
    fields = amounts(effect.messages, effect.bytes)
    if not effect.started:
        return _of_gate(effect.queue.gate, "PST-1011", f"Paging Stopped : {size}", fields)
    capacity = effect.queue.thresholds.capacity
    bound = f"Capacity : {amount(capacity.bytes)}, Message Capacity : {amount(capacity.messages)}"
    return _of_gate(effect.queue.gate, "PST-1010", f"Paging Started : {size}, {bound}", fields)


def not_retained(effect: NotRetained) -> LogLine:
    """Return the line of settled messages that are not retained (PST-1031), or are retained again (PST-1032)."""
    gap = effect.gap
    if not effect.ended:
        return _of_gate(gap.queue.gate, "PST-1031", f"Not Retained : {gap.reason}", {"reason": gap.reason})
    first_s, last_s = max(effect.now - gap.since, 0.0), max(effect.now - gap.until, 0.0)
    text = (
        f"Retained Again : {amount(gap.messages)} messages, {amount(gap.bytes)} bytes, settled {first_s:,.1f} to "
        f"{last_s:,.1f} s ago were not"
    )
    fields = {**amounts(gap.messages, gap.bytes), "first_s": round(first_s, 3), "last_s": round(last_s, 3)}
    return _of_gate(gap.queue.gate, "PST-1032", text, fields)


def letters_lost(queue: Queue) -> LogLine:
    """Return the line of dead letters lost since the previous such line."""
    count = int(queue.counters.rare.unreported_dead_letters)
    exchange = queue.settings.dead_letter_exchange or ""
    text = f"Dead Letters Lost : {count:,} messages, Dead Letter Exchange : '{exchange}'"
    return _of_gate(queue.gate, "PST-1009", text, {"count": count})


def blocked(producer: WaitingPublisher, gate: Gate) -> LogLine:
    """Return the line of a producer that was blocked (CHN-1005)."""
    return _channel(
        producer.name, "CHN-1005", f"Flow Control Enforced ({text_of(gate).label(gate)})", gate_fields(gate)
    )


def unblocked(producer: WaitingPublisher, gate: Gate) -> LogLine:
    """Return the line of a producer that a gate no longer blocks (CHN-1006)."""
    return _channel(producer.name, "CHN-1006", "Flow Control Removed", gate_fields(gate))


def stopped(producer: WaitingPublisher, gate: Gate, hold_deadline_s: float) -> LogLine:
    """Return the line of a producer that has waited for its whole hold deadline at a gate (PST-1014)."""
    text = f"Publisher Stopped ({text_of(gate).label(gate)}) : it has waited its hold deadline of {hold_deadline_s:g} s"
    return _channel(producer.name, "PST-1014", text, gate_fields(gate))


def slowed(wait: Wait, now: float) -> LogLine:
    """Return the line of a connection whose input waits for its share of a turn most of the time (PST-1016)."""
    return _slowed(wait, "PST-1016", f"Slowed By Its Own Work : {wait.clause(now)}")


def slowed_no_more(wait: Wait) -> LogLine:
    """Return the line of a connection that is no longer slowed by its own work (PST-1017)."""
    return _slowed(wait, "PST-1017", "Slowed By Its Own Work No More")


def _slowed(wait: Wait, number: str, text: str) -> LogLine:
    name = wait.connection.name()
    return LogLine(f"[{name}] {number} : {text}", {"id": number, "kind": KIND, "gate": name})


def deliveries(channel: str, started: bool) -> LogLine:
    """Return the line of a client that resumes or stops its deliveries by channel.flow (CHN-1002)."""
    return _channel(channel, "CHN-1002", f"Flow {'Started' if started else 'Stopped'}", {"started": started})


def slow(consumer: str, channel: str, rate: float, least: float, cancelled: bool) -> LogLine:
    """Return the line of a consumer that settles less than its queue's minimum rate (Artemis' slow-consumer-policy)."""
    end = "cancelled" if cancelled else "messages wait for it"
    text = f"Slow Consumer {consumer} : {rate:.3g} messages/s, Least : {least:g}, {end}"
    return _channel(channel, "PST-1008", text, {"consumer": consumer, "rate": rate, "least": least})


def overtaken(effect: Overtaken) -> LogLine:
    """Return the line of a consumer of a stream that goes on at the first retained message (PST-1030)."""
    consumer, queue = effect.consumer, effect.consumer.queue
    text = (
        f"{'Offset Not Retained' if effect.at_start else 'Consumer Overtaken'} {consumer.tag} : offset "
        f"{effect.position - 1:,} of queue '{queue.name}' in vhost '{queue.vhost}', continues at {effect.first - 1:,}"
    )
    fields = {"consumer": consumer.tag, "queue": queue.name, "vhost": queue.vhost, "offset": effect.position - 1}
    return _channel(consumer.session.name, "PST-1030", text, {**fields, "first": effect.first - 1})


def ignored(channel: str) -> LogLine:
    """Return the line of a channel that publishes in spite of channel.flow (CHN-1012)."""
    return _channel(channel, "CHN-1012", "Flow Control Ignored. Channel will be closed.", {})


def held_unconfirmed(channel: str, deadline_s: float) -> LogLine:
    """Return the line about the risk of a held publisher without confirms (PST-1018), once a connection."""
    until = "as long as it takes" if deadline_s == NEVER else f"up to {deadline_s:g} s"
    text = f"Held Without Confirms : {until}, then lost, and lost if the connection is reset; publisher confirms tell"
    return _channel(channel, "PST-1018", text, {})


def lost(connection: str, losses: Losses) -> LogLine:
    """Return the line of held publishes that were lost with their connection or channel (PST-1019)."""
    count = int(losses.messages)
    return LogLine(
        f"[{connection}] PST-1019 : Publishes Lost : {count:,} messages, {int(losses.bytes):,} bytes : "
        f"{losses.describe()}",
        {"id": "PST-1019", "connection": connection, "count": count, "bytes": int(losses.bytes)},
    )


def _channel(name: str, number: str, text: str, fields: dict[str, object]) -> LogLine:
    return LogLine(f"[{name}] {number} : {text}", {"id": number, "producer": name, **fields})


class GateLines:
    """Log lines of the gates of one broker. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._closings = Spells(CLOSINGS_AT_ONCE)
        self._blocks = Spells(BLOCKS_AT_ONCE)

    def crossed(self, crossing: GateTransition) -> LogLine | None:
        """Return the line of a transition; None if the line is logged later, or summed."""
        return crossed(crossing) if self._closings.cross(crossing) else None

    def blocked(self, producer: WaitingPublisher, gate: Gate, now: float) -> LogLine | None:
        """Return the line of a producer that the first gate blocks; None if the line is logged later, or summed."""
        logged = self._blocks.begin((id(producer), 0), Spell(gate, now, producer))
        return blocked(producer, gate) if logged else None

    def unblocked(self, producer: WaitingPublisher, gate: Gate, now: float) -> LogLine | None:
        """Return the line of a producer that no gate blocks any more; None if its block is summed."""
        logged = self._blocks.end((id(producer), 0), now)
        return unblocked(producer, gate) if logged else None

    def lasting(self, now: float) -> list[LogLine]:
        """Take the lines of closings and blocks that have lasted and were not logged."""
        lines = [crossed(each.closing) for each in self._closings.lasting(now) if each.closing is not None]
        for each in self._blocks.lasting(now):
            if each.producer is not None:
                lines.append(blocked(each.producer, each.gate))
        return lines

    def tick(self) -> list[LogLine]:
        """Take the lines of the sums of a second."""
        lines = [closed_briefly(each) for each in self._closings.tick()]
        gates: dict[int, list[SpellSum]] = {}
        for each in self._blocks.tick():
            gates.setdefault(id(each.first.gate), []).append(each)
        return lines + [blocked_briefly(sums) for sums in gates.values()]
