"""Log messages in the form of Broker-J's operational log, so that existing scrapers work.

Templates: Queue_logmessages.properties and Channel_logmessages.properties of Broker-J. A line has the same data as
fields for machine readers. Which transitions have a line of their own is decided in gate_lines.py.
"""

from __future__ import annotations

from penstock.core.effects import Paging
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.queue import Queue
from penstock.describe.gate import text_of
from penstock.describe.table import amounts
from penstock.flow.gate import Gate, GateTransition
from penstock.flow.measure import amount
from penstock.flow.timers import NEVER
from penstock.log_ids import BLOCKED_BRIEFLY, CLOSED_BRIEFLY, SLOW_TURN
from penstock.management.brief_spells import SpellSum
from penstock.protocols.common.log_line import LogLine
from penstock.protocols.common.lost_publishes import Losses
from penstock.protocols.common.read_pausing import KIND, Wait


def gate_fields(gate: Gate) -> dict[str, object]:
    """Return a gate's identity: its kind and name, and its virtual host and queue if it has them."""
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
    """Return the line of closings of a gate that were too many to be told one by one."""
    times = f"{closings.count:,} times, {closings.total_s:.3f} s in all"
    highest = f"Highest : {amount(closings.bytes)} bytes, {amount(closings.messages)} messages"
    fields: dict[str, object] = {"count": closings.count, "brief_s": closings.total_s}
    fields.update(amounts(closings.messages, closings.bytes))
    return _of_gate(closings.first.gate, CLOSED_BRIEFLY, f"Closed Briefly : {times}, {highest}", fields)


def blocked_briefly(blocks: list[SpellSum]) -> LogLine:
    """Return the line of blocks at one gate that were too many, and too short, to be told one by one."""
    count, total_s = sum([each.count for each in blocks]), sum([each.total_s for each in blocks])
    producer = blocks[0].producer if len(blocks) == 1 else None
    whose = "of several channels" if producer is None else f"of {producer.name}"
    text = f"Blocked Briefly : {count:,} times, {total_s:.3f} s in all, {whose}"
    return _of_gate(blocks[0].first.gate, BLOCKED_BRIEFLY, text, {"count": count, "brief_s": total_s})


def slow_turn(seconds: float, work: int, connection: str, share: int) -> LogLine:
    """Return the line of a turn of the event loop that took long, with the connection that cost most of its work."""
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
    """Return the line of a queue that begins to page messages out, or has none on disk any more."""
    size = f"Size : {amount(effect.bytes)} bytes, Messages : {amount(effect.messages)}"
    fields = amounts(effect.messages, effect.bytes)
    if not effect.started:
        return _of_gate(effect.queue.gate, "PST-1011", f"Paging Stopped : {size}", fields)
    capacity = effect.queue.thresholds.capacity
    bound = f"Capacity : {amount(capacity.bytes)}, Message Capacity : {amount(capacity.messages)}"
    return _of_gate(effect.queue.gate, "PST-1010", f"Paging Started : {size}, {bound}", fields)


def letters_lost(queue: Queue) -> LogLine:
    """Return the line of lost dead letters since the last such line."""
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


def stopped(producer: WaitingPublisher, gate: Gate, patience_s: float) -> LogLine:
    """Return the line of a producer that has waited for its whole hold deadline at a gate (PST-1014)."""
    text = f"Publisher Stopped ({text_of(gate).label(gate)}) : it has waited its hold deadline of {patience_s:g} s"
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
