"""Explanations of `penstock why`: why producers and consumers wait, as sentences and as rows.

The subject is a queue, a connection, a channel, a link or a user. For producers the answer has the blocking gates, the
times, and the conditions that the gates wait for. For consumers the answer has the reasons why they get no messages.
The longest waits come first; an answer has at most `SAID_MOST` sentences of a kind, and the number of omitted
sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.access.permission import MONITORING
from penstock.access.rules import Rules
from penstock.connections.connection import Connection
from penstock.connections.connection_names import channel_named, connection_named
from penstock.connections.control_request import ControlRequest
from penstock.core.broker import Broker
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import consumers_of
from penstock.core.consume.session import Session
from penstock.core.gates.disk import FREE_SPACE, QUOTA, STORE_FAILURE
from penstock.core.publish.admission import gates_of
from penstock.core.publish.producer import Producer
from penstock.core.publish.session_counts import producers_of
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.cursor_state import CursorState, LeaseState, passed_by_all, shared_of
from penstock.core.queue.queue import Queue, queue_of
from penstock.describe.gate import because, gate_row, gate_state, key_of, text_of
from penstock.describe.queue import asked_s_ago, expires_in_s, idle_s, idle_words, queue_row, share_words
from penstock.describe.retention import retention_sentences
from penstock.describe.road import source_gates
from penstock.describe.session import (
    CONNECTIONS_SHOWN,
    CONSUMERS_SHOWN,
    connection_in_full,
    consumer_row,
    delayed_clause,
    held_by,
    obstacles,
    producer_row,
    session_row,
    withheld_by,
)
from penstock.describe.spark import held_by_lease, lease_end, lease_row, staged_line
from penstock.describe.stream import stream_words
from penstock.errors import NotFound
from penstock.flow.gate import Gate
from penstock.flow.gate_stats import PRODUCERS_LISTED, BlockStats
from penstock.flow.level import amount, amounts
from penstock.flow.shared_limit import CountedDepth
from penstock.flow.work import WorkMeter
from penstock.management import bridge_lines, dead_letter_lines
from penstock.management.links import FoundLink, credit_sentence, find_link
from penstock.management.node import Node
from penstock.management.operation import only_one
from penstock.management.refusals import Refusal
from penstock.management.waiting_line import line_rows
from penstock.texts import SCOPE_NOUNS, shown_age

SAID_MOST: Final = 10
REFUSALS_SAID: Final = 3
"""Most kinds of refusals of a connection in sentences; the plain data has all that are stored."""
OLD_S: Final = 1.0
"""Least seconds that the oldest message of a queue has waited for a sentence about it."""
LARGEST: Final = 3
"""Most queues named as the largest of a sum."""
OF_ALL_VHOSTS: Final = " of all virtual hosts"
"""Words in a sentence that names queues of all of them."""


SUBJECTS: Final[tuple[str, ...]] = ("queue", "connection", "channel", "link", "user")


def subject_of(request: ControlRequest) -> str:
    """Return the one of `SUBJECTS` that a request names. Raises PreconditionFailed (406) for none or several."""
    return only_one(SUBJECTS, [subject for subject in SUBJECTS if request.fields.get(subject) is not None])


def answer(request: ControlRequest, node: Node) -> dict[str, object]:
    """Return the answer to a request for one of `SUBJECTS`.

    Raises PreconditionFailed (406) for none or several, NotFound (404) for an unknown object.
    """
    subject = subject_of(request)
    name = request.text(subject)
    if subject == "queue":
        return _with_bridges(request.vhost.queue(name, request.connection), node, request.access.rules)
    if subject == "connection":
        return of_connection(connection_named(node.connections, name, _owner(request)), node)
    if subject == "channel":
        return of_channel(channel_named(node.connections, name, _owner(request)), node)
    if subject == "link":
        return of_link(find_link(node, name), node.broker)
    asker = request.connection
    connections = [each for each in node.connections.values() if each.user == name and each is not asker]
    if not connections:
        own = asker is not None and asker.user == name
        raise NotFound(f"user '{name}' has no connection" + (" besides the one that asks" if own else ""))
    return of_user(name, connections, node)


def _owner(request: ControlRequest) -> str:
    """Return the user to whom a named connection must belong; empty for any user."""
    access = request.access
    return "" if access.rules.has_tag(MONITORING) else access.user


def of_queue(queue: Queue, broker: Broker) -> dict[str, object]:
    """Return the row of a queue: blocked producers, their gates, and the cursors and consumers that delay it."""
    now = broker.now
    blocks = queue.gate.stats.blocked()
    row = queue_row(queue, broker)
    row["gate"] = {**gate_state(queue.gate, now), **queue.gate.stats.as_dict(now)}
    gates = [*gates_of(queue), *[gate for gate in source_gates(queue, broker) if gate.in_line() or not gate.open]]
    row["gates"] = [gate_row(gate, now) for gate in gates[1:]]
    row["blocked"] = [block.as_dict(now, queue.gate.stats.since) for block in list(blocks.values())[:PRODUCERS_LISTED]]
    row["waiting"] = waiting_at(gates)
    row["line"] = line_rows(gates, now)
    row["waits_for"] = waits_for(queue, now, broker.work)
    sentences: list[str] = []
    for gate in gates:
        sentences += _of_gate(gate, broker)
    shut = [gate for gate in gates if gate.in_line() or not gate.open]
    if not shut and not blocks:
        measured = queue.measure()
        depth = amounts(measured.messages, measured.bytes)
        if queue.features.type.retains:
            depth += f" not written yet; {stream_words(queue)}"
        elif queue.pager is not None and queue.pager.messages > 0:
            depth += f", of which {amount(queue.pager.messages)}, {amount(queue.pager.bytes)} bytes, on the disk"
        sentences.append(f"queue {queue.name}: the gate is open; {depth}; it blocks no producer")
    age_s = queue.oldest_age_s(now)
    if age_s >= OLD_S:
        sentences.append(f"the oldest ready message of queue {queue.name} has waited {shown_age(age_s)}")
    if queue.length is not None:
        sentences.append(f"queue {queue.name} has {queue.length.clause()}; above it {queue.length.acts()}")
    sentences += retention_sentences(queue)
    for gate in shut or [queue.gate]:
        sentences += waits_of(gate, broker)
    sentences += [*_leases(queue, now, broker.work), *_staged(queue, broker)]
    row["sentences"] = [*sentences, *dead_letter_lines.sentences(queue, broker), *_refused_of_gone(queue.gate)]
    return row


def _with_bridges(queue: Queue, node: Node, rules: Rules) -> dict[str, object]:
    """Return the row of a queue with its bridges, which another broker may hold."""
    row = of_queue(queue, node.broker)
    found = bridge_lines.bridges_at(queue, node.bridges, rules)
    if found:
        said = row["sentences"]
        assert isinstance(said, list)
        wall = node.broker.now + node.broker.wall_offset
        row["bridges"] = bridge_lines.rows_of(found)
        row["sentences"] = [*said, *bridge_lines.sentences_of(queue, found, wall)]
    return row


def of_connection(connection: Connection, node: Node) -> dict[str, object]:
    """Return the row of a connection: the gates of its producers, and the obstacles of its consumers."""
    broker = node.broker
    row = connection_in_full(connection, broker.now)
    refusals = node.refused.of(connection.number)
    row["refusals"] = [refusal.as_dict(broker.now) for refusal in refusals]
    row["sentences"] = _of_connections([connection], node) + _refusals(refusals, broker.now)
    return row


def of_channel(channel: Session, node: Node) -> dict[str, object]:
    """Return the row of a channel, as `of_connection`."""
    broker = node.broker
    row = session_row(channel, broker.now)
    refusals = [each for each in node.refused.of(channel.connection_number) if each.producer == channel.name]
    row["refusals"] = [refusal.as_dict(broker.now) for refusal in refusals]
    row["sentences"] = _of_channels([channel], [], broker) + _refusals(refusals, broker.now)
    return row


def of_link(link: FoundLink, broker: Broker) -> dict[str, object]:
    """Return the row of a link: the reason why its sender has no credit, or why its receiver gets no messages."""
    now = broker.now
    consumer, producer = link.consumer, link.producer
    if consumer is not None:
        return {**consumer_row(consumer, now), "link": link.name(), "sentences": [_consumer(consumer, now)]}
    assert producer is not None
    sentences: list[str] = []
    gate: Gate | None = None
    if producer.credit is not None:
        sentences.append(credit_sentence(producer, producer.credit, now))
        gate = producer.credit.blocked_by()
    blocks = [(each, block) for each, block in producer.stories() if block.since is not None and each is not gate]
    sentences += [blocked_by(producer, each, block, now) for each, block in blocks]
    for each in ([] if gate is None else [gate]) + [blocking for blocking, _ in blocks]:
        sentences += waits_of(each, broker)
    if not sentences:
        sentences.append(f"link {producer.name} is not blocked{_history(producer, now)}")
    return {**producer_row(producer, now), "link": link.name(), "sentences": sentences}


def of_user(user: str, connections: list[Connection], node: Node) -> dict[str, object]:
    """Return the views of a user's connections, at least one."""
    shown = connections[:CONNECTIONS_SHOWN]
    return {
        "user": user,
        "connections": [connection_in_full(connection, node.broker.now) for connection in shown],
        "more_connections": len(connections) - len(shown),
        "sentences": _of_connections(connections, node),
    }


def waiting_at(gates: list[Gate]) -> dict[str, int]:
    """Return the waits at gates as plain data: held publishes, withheld confirms, and senders without credit.

    The first `PRODUCERS_LISTED` blocked producers of each gate count.
    """
    held = withheld = senders = 0
    for gate in gates:
        for producer in list(gate.blocked.values())[:PRODUCERS_LISTED]:
            if isinstance(producer, WaitingPublisher):
                held += held_by(producer)[0] if producer.gate is gate else 0
                withheld += withheld_by(producer, gate)
        senders += 0 if gate.open else len(gate.requests)
    return {"held": held, "withheld": withheld, "senders": senders}


def waits_for(queue: Queue, now: float, work: WorkMeter) -> list[dict[str, object]]:
    """Return the rows of the cursors, and of the first consumers, that a queue waits for."""
    rows: list[dict[str, object]] = []
    for cursor in queue.cursors[:CONSUMERS_SHOWN]:
        position = cursor.positions[queue.name]
        rows.append(
            {
                "cursor": cursor.name,
                "settled": int(position.settled),
                "planned": int(position.planned),
                "tail": int(queue.tail),
                "asked_s_ago": asked_s_ago(cursor, now),
                "user": cursor.user or None,
                "idle_s": None if cursor.lease is not None else idle_s(cursor, now),
                "expires_in_s": None if cursor.lease is not None else expires_in_s(cursor, now),
                "lease": None if cursor.lease is None else lease_row(cursor.lease, now, work),
            }
        )
    rows += [consumer_row(consumer, now) for consumer in consumers_of(queue, CONSUMERS_SHOWN)]
    return rows


# Sentences


def _of_gate(gate: Gate, broker: Broker) -> list[str]:
    """Describe the producers that a gate blocks, or that a closed gate blocks none.

    The gates of the disk also pause connections with incoming large messages, for any queues.
    """
    now = broker.now
    blocks = [(gate.blocked.get(key), block) for key, block in gate.stats.blocked().items()]
    waiting = [(each, block) for each, block in blocks if isinstance(each, WaitingPublisher)]
    lines = [blocked_by(producer, gate, block, now) for producer, block in waiting[:SAID_MOST]]
    if not lines and not gate.open:
        is_of_disk = any(gate is each for each in broker.gates.disk.gates())
        idle = "no publish is held by it now, large messages may wait" if is_of_disk else "it blocks no producer"
        return [f"{text_of(gate).reason(gate, now)}; {idle}"]
    return first_lines(lines, f"producers are blocked by {text_of(gate).name(gate)}", count=len(waiting))


def of_address(gates: list[Gate], broker: Broker) -> list[str]:
    """Describe the closed gates of an exchange, the producers that they block, and what they wait for."""
    sentences: list[str] = []
    for gate in gates:
        if gate.in_line() or not gate.open:
            sentences += _of_gate(gate, broker) + waits_of(gate, broker)
    return sentences


def _refused_of_gone(gate: Gate) -> list[str]:
    """Describe the refused publishes of the last closed publishers."""
    gone = [block for block in gate.stats.departed or () if block.refused]
    if not gone:
        return []
    count, last = sum(block.refused for block in gone), gone[-1].producer
    return [f"{text_of(gate).name(gate)} has refused {count:,} of publishers that have gone, the last of them {last}"]


def blocked_by(producer: WaitingPublisher, gate: Gate, block: BlockStats, now: float) -> str:
    """Describe the gate that blocks a producer, and for how long."""
    since = 0.0 if block.since is None else now - block.since
    stakes = _stakes(producer, gate, block, now)
    return f"{producer.name} is blocked {since:.1f} s by {because(producer, gate, now)}{stakes}"


def _stakes(producer: WaitingPublisher, gate: Gate, block: BlockStats, now: float) -> str:
    """Describe the waiting publishes of a producer at a gate, and the outcomes at the deadline so far."""
    parts: list[str] = []
    if block.is_stopped(gate.stats.since, block.hold_deadline_s, now):
        parts.append("stopped: it has waited a whole hold deadline, and what it publishes now is held and refused")
    if producer.gate is gate:
        held, size = held_by(producer)
        parts.append(f"{_of_its(held, 'publish', 'publishes')} held ({size:,} bytes)")
    withheld = withheld_by(producer, gate)
    if withheld:
        parts.append(f"{_of_its(withheld, 'confirmation', 'confirmations')} withheld")
    past: list[str] = []
    if block.refused:
        past.append(f"{block.refused:,} refused")
    if block.late:
        past.append(f"{block.late:,} confirmed at the deadline")
    if past:
        parts.append(f"until now {' and '.join(past)}")
    return "".join(f"; {part}" for part in parts)


def _of_its(count: int, one: str, many: str) -> str:
    return f"1 {one} is" if count == 1 else f"{count:,} {many} are"


def _refusals(refusals: list[Refusal], now: float) -> list[str]:
    """Describe recent refusals with their reasons; the latest first."""
    return first_lines([refusal.sentence(now) for refusal in refusals], "kinds of refusals", REFUSALS_SAID)


def _of_connections(connections: list[Connection], node: Node) -> list[str]:
    broker = node.broker
    paused = [
        f"{connection.name()} is paused: it only publishes, and {connection.pausing.budget.messages:,} publishes "
        f"({connection.pausing.budget.bytes:,} bytes) are held; it is read in pulses"
        for connection in connections
        if connection.may_pause()
    ]
    unsaid = [
        f"{connection.name()}: {_answers(_waiting_replies(connection))} for the disk, and what comes after"
        for connection in connections
        if _waiting_replies(connection)
    ]
    unwritten = [unread(connection) for connection in connections if connection.waits_for_store()]
    channels = [channel for connection in connections for channel in connection.engine.sessions()]
    waits = [(connection, node.slowed().of(connection)) for connection in connections]
    slowed = [f"{connection.name()} is {wait.clause(broker.now)}" for connection, wait in waits if wait is not None]
    sentences = first_lines(slowed, "connections are slowed by their own work")
    sentences += first_lines(paused, "connections are paused") + first_lines(unsaid, "connections wait for the disk")
    sentences += first_lines(unwritten, "connections wait for the store")
    sentences += _of_channels(channels, _outside_of(channels, connections), broker)
    return sentences or [f"{connections[0].name()} has no channels: nothing of it waits"]


def unread(connection: Connection) -> str:
    """Describe a connection that is not read because the store has not written its large messages."""
    octets = connection.pausing.pieces.unwritten
    waits = f"{octets:,} bytes of its large messages are not in the store yet"
    if not octets:
        waits = "its large message waits for room in the store"
    if not connection.pausing.pieces.waiting and connection.origin is not None:
        waits = f"{connection.origin.writes.bytes:,} bytes of its changes are not in the store yet, which is its share"
    return f"{connection.name()} is not read: {waits}"


def _waiting_replies(connection: Connection) -> int:
    return 0 if connection.output.replies is None else connection.output.replies.waiting


def _answers(count: int) -> str:
    return "1 answer waits" if count == 1 else f"{count:,} answers wait"


def _outside_of(channels: list[Session], connections: list[Connection]) -> list[Producer]:
    """Return the producers of connections that belong to no channel: the producers of blocks."""
    of_channels = {id(producer) for channel in channels for producer in producers_of(channel)}
    origins = [connection.origin for connection in connections if connection.origin is not None]
    return [producer for origin in origins for producer in origin.producers if id(producer) not in of_channels]


def _of_channels(channels: list[Session], others: list[Producer], broker: Broker) -> list[str]:
    """Describe the gates that block producers, the condition of each gate (once), and the obstacles of consumers.

    `others` are producers besides the channels' producers.
    """
    now = broker.now
    blocks: list[tuple[float, int, Gate, BlockStats]] = []
    consumers: list[Consumer] = []
    producers: list[Producer] = []
    idle: list[Producer] = []
    for channel in channels:
        consumers += channel.consumers.values()
        for producer in producers_of(channel):
            producers.append(producer)
            if not channel.consumers and not producer.gates:
                idle.append(producer)
    producers += others
    for index, producer in enumerate(producers):
        for gate, block in producer.stories():
            if block.since is not None:
                blocks.append((block.since, index, gate, block))
    blocks.sort(key=lambda entry: entry[:2])
    shown = blocks[:SAID_MOST]
    lines = [blocked_by(producers[index], gate, block, now) for _, index, gate, block in shown]
    sentences = first_lines(lines, "blocks", count=len(blocks))
    for gate in {id(gate): gate for _, _, gate, _ in shown}.values():
        sentences += waits_of(gate, broker)
    lines = [_consumer(consumer, now) for consumer in consumers[:SAID_MOST]]
    sentences += first_lines(lines, "consumers", count=len(consumers))
    if not sentences:
        lines = [f"{each.name} is not blocked, and consumes nothing{_history(each, now)}" for each in idle[:SAID_MOST]]
        sentences = first_lines(lines, "channels", count=len(idle))
    return sentences


def first_lines(lines: list[str], what: str, most: int = SAID_MOST, count: int = 0) -> list[str]:
    """Return the first lines, and the number of omitted lines; `count` is the number of all, if more than `lines`."""
    more = (count or len(lines)) - most
    return [*lines[:most], f"and {more:,} more {what}"] if more > 0 else lines


def _history(producer: Producer, now: float) -> str:
    times = sum(block.times for _, block in producer.stories())
    total = sum(block.blocked_s(now) for _, block in producer.stories())
    return f"; until now it was blocked {times:,} times, {total:.1f} s in all" if times else ""


def _consumer(consumer: Consumer, now: float) -> str:
    where = f"consumer {consumer.tag} of {consumer.session.name} on queue {consumer.queue.name}"
    return f"{where}: {_state(consumer, now)}"


def _state(consumer: Consumer, now: float) -> str:
    return ", ".join(obstacles(consumer, now)) or "may receive"


def _of_sum(gate: Gate, broker: Broker) -> list[str]:
    return [_largest(gate, broker), *_circles(gate, broker)]


def _circles(gate: Gate, broker: Broker) -> list[str]:
    """Describe queries that wait at a gate for room that only their own settlement releases."""
    limit = gate.owner
    circles: list[str] = []
    for waiter in gate.blocked.values():
        room = waiter.pinned_room() if isinstance(waiter, Producer) else None
        if room is not None and isinstance(limit, CountedDepth) and room.pins(limit) and isinstance(waiter, Producer):
            cursors = ", ".join([cursor.name for cursor in room.cursors])
            circles.append(
                f"{waiter.name} waits for itself: it publishes the results of cursor {cursors}, whose messages leave "
                f"{text_of(gate).name(gate)} only after that, and it has taken the half of the capacity that it may "
                "take beyond it; raise the capacity, or let the query read less at once (maxOffsetsPerTrigger)"
            )
    return first_lines(circles, "that wait for themselves")


def _of_readers(gate: Gate, broker: Broker) -> list[str]:
    queue = queue_of(gate)
    return [_readers(queue, broker)] if queue is not None and queue.depth_messages() > 0 else []


class Explained(NamedTuple):
    """Explanations of a kind of gates: the events that reduce its amount, and advice while a gate is closed."""

    relief: Callable[[Gate, Broker], list[str]]
    advice: Callable[[Gate], str]


def _no_relief(gate: Gate, broker: Broker) -> list[str]:
    return []


def _advice_on(queue: Queue) -> str:
    name = queue.name
    if queue.cursors:
        cursor = slowest_cursor(queue)
        slowest = cursor.name
        # The preceding sentences have counted that work.
        holder = _holder(queue, WorkMeter())[0] if cursor.positions[name].settled >= queue.tail else None
        if holder is not None:
            return f"wait for the end of the batch read, or `penstock leases end {holder.number}`"
        if cursor.lease is not None:
            return f"start a reader of queue {name}: a lease of a batch read takes nothing"
        if cursor.positions[queue.name].left:
            return f"subscribe to queue {name} again, or `penstock cursors release {slowest} {name}`"
        return (
            f"start the reader of cursor {slowest} again; if it is gone for good, `penstock cursors delete {slowest}`"
        )
    if queue.features.type.retains:
        return f"the disk is slow: what is published to stream {name} waits until it is written"
    if queue.delayed_messages > 0 and queue.delayed_messages == queue.depth_messages():
        return f"all messages of queue {name} are delayed: raise its capacity, or `penstock messages cancel {name} all`"
    if not queue.consumers:
        return f"start a consumer of queue {name}, or drop its messages (`penstock queues purge {name}`)"
    if queue.unacked_messages == queue.depth_messages():
        return f"all messages of queue {name} are unacknowledged: have its consumers acknowledge, or add consumers"
    return f"add consumers, or find what keeps those of queue {name} (`penstock why {name}`)"


def _advice_on_queue(gate: Gate) -> str:
    queue = queue_of(gate)
    return "" if queue is None else _advice_on(queue)


def _advice_on_quota(gate: Gate) -> str:
    vhost = text_of(gate).vhost(gate)
    of = "broker show" if vhost is None else f"vhosts show {vhost}"
    return f"consume stored messages, or raise disk-overfull (`penstock {of}`)"


def _advice_on_operator(gate: Gate) -> str:
    scope, _, name = gate.name.partition(" ")
    return f"`penstock {SCOPE_NOUNS[scope]} unblock {name}` lets it go on"


EXPLAINED: Final[dict[str, Explained]] = {
    "queue": Explained(_of_readers, _advice_on_queue),
    "operator": Explained(_no_relief, _advice_on_operator),
    QUOTA: Explained(_of_sum, _advice_on_quota),
    FREE_SPACE: Explained(
        lambda gate, broker: ["the disk needs free space: consume stored messages, or delete other files"],
        lambda gate: "free space on the disk, or consume stored messages",
    ),
    STORE_FAILURE: Explained(
        lambda gate, broker: ["the store is tried again every second; consumers go on meanwhile"],
        lambda gate: (
            "look at the disk and at the broker's log; persistent messages go on when the store can be written"
        ),
    ),
    "vhost": Explained(
        _of_sum,
        lambda gate: f"consume from its largest queues, or raise its capacity (`penstock vhosts show {gate.name}`)",
    ),
    "memory": Explained(
        _of_sum, lambda gate: "consume from the largest queues, or raise memory-capacity (`penstock broker show`)"
    ),
    "address": Explained(
        _circles,
        lambda gate: f"consume what went through it, or raise its capacity (`penstock exchanges show {gate.name}`)",
    ),
    "rate": Explained(
        _no_relief, lambda gate: "it is as fast as its rate allows; `penstock settings` lists who set it"
    ),
}
"""Explanations by `key_of`; advice is empty where waiting is all."""


def waits_of(gate: Gate, broker: Broker) -> list[str]:
    """Describe the events that would reduce a gate's depth; empty for an empty queue and for gates without a depth."""
    explained = EXPLAINED.get(key_of(gate))
    return [] if explained is None or gate.owner is None else explained.relief(gate, broker)


def advice(gate: Gate) -> str:
    """Return advice for the operator about a closed gate; empty if no action helps."""
    explained = EXPLAINED.get(key_of(gate))
    return "" if explained is None else explained.advice(gate)


def _readers(queue: Queue, broker: Broker) -> str:
    """Describe the consumers of a queue, and their obstacles."""
    now = broker.now
    if queue.cursors:
        behind = _cursor(queue, slowest_cursor(queue), now, broker.work)
        left = queue.unacked_messages + shared_of(queue).aside.available()
        if not left and not queue.consumers:
            return behind
        return f"{behind}; {int(left):,} messages are left to consumers, and it {_consumers(queue, now)}"
    delayed = f"; {delayed_clause(queue, now)}" if queue.delayed_messages else ""
    return f"queue {queue.name} {_consumers(queue, now)}{delayed}"


def _holder(queue: Queue, work: WorkMeter) -> tuple[LeaseState | None, int]:
    """Return the lease that pins most messages settled by all cursors, and the number of all such messages.

    The first `SAID_MOST` leases are examined.
    """
    most = 0
    found: LeaseState | None = None
    leases = [cursor for cursor in queue.cursors if cursor.lease is not None]
    for cursor in leases[:SAID_MOST]:
        held = held_by_lease(cursor.positions[queue.name], work)
        if held > most:
            most, found = held, cursor.lease
    return found, 0 if found is None else int(shared_of(queue).line.count_through(passed_by_all(queue))[0])


def _leases(queue: Queue, now: float, work: WorkMeter) -> list[str]:
    """Describe the leases that pin messages of a queue: owner, range and end."""
    lines: list[str] = []
    count = 0
    for cursor in queue.cursors:
        lease = cursor.lease
        if lease is None:
            continue
        count += 1
        if count > SAID_MOST:
            continue
        position = cursor.positions[queue.name]
        held = held_by_lease(position, work)
        keeps = f", and keeps {held:,} of them that are settled" if held else ""
        lines.append(
            f"{lease.name()}, of a batch read by user {lease.user}, pins messages {position.settled + 1} to "
            f"{position.planned} of queue {queue.name}{keeps}; {lease_end(lease, now)}"
        )
    return first_lines(lines, "leases", count=count)


def _staged(queue: Queue, broker: Broker) -> list[str]:
    """Describe the batches that are staged for a queue and not yet published."""
    sinks = broker.ranges.sinks_of(queue.vhost)
    lines = [line for line in [staged_line(sink, queue, broker.now) for sink in sinks] if line]
    return first_lines(lines, "queries with staged batches")


def _consumers(queue: Queue, now: float) -> str:
    """Describe the consumers of a queue: a phrase without a subject."""
    if not queue.consumers:
        return "has no consumer"
    phrases = [f"consumer {consumer.tag} ({_state(consumer, now)})" for consumer in consumers_of(queue, SAID_MOST)]
    more = len(queue.consumers) - len(phrases)
    return f"waits for {'; '.join(phrases)}{f' and {more:,} more' if more > 0 else ''}"


def _cursor(queue: Queue, cursor: CursorState, now: float, work: WorkMeter) -> str:
    """Describe the cursor that a queue waits for, the cursor's idle time, and the producers that it blocks."""
    position = cursor.positions[queue.name]
    holder, pinned = _holder(queue, work)
    if holder is not None and position.settled >= queue.tail:
        return (
            f"queue {queue.name} waits for {holder.name()}, of a batch read: {pinned:,} messages are pinned that "
            f"all cursors have settled; {lease_end(holder, now)}"
        )
    if cursor.lease is not None:
        return f"queue {queue.name} has no cursor but {cursor.lease.name()}, of a batch read"
    if position.left:
        return (
            f"queue {queue.name} waits for cursor {cursor.name}, which has left it: its query no longer "
            f"subscribes to it, and {queue.tail - position.settled} messages from {position.settled + 1} on are "
            f"kept; subscribe to it again, or `penstock cursors release {cursor.name} {queue.name}`"
        )
    ago = asked_s_ago(cursor, now)
    query = "" if cursor.room is None else f" for query {cursor.room.query.name}"
    gone = ", which has ended" if cursor.reader_ended else ""
    by = f" by {cursor.reader_name}{query}{gone}" if cursor.reader_name else ""
    asked = "has not asked since the broker's start" if ago is None else f"asked last {ago:.1f} s ago{by}"
    held = len(queue.gate.blocked)
    owner = f" of user {cursor.user}" if cursor.user else ""
    idle, share = idle_words(cursor, now), share_words(cursor)
    return (
        f"queue {queue.name} waits for cursor {cursor.name}{owner}, which has settled up to {position.settled} of "
        f"{queue.tail}, has {position.planned - position.settled} planned and {asked}"
        + (f"; it has {share}" if share else "")
        + (f"; {idle}" if idle else "")
        + (f"; it holds back {_producers(held)}" if held else "")
    )


def _producers(count: int) -> str:
    return "1 producer" if count == 1 else f"{count:,} producers"


def slowest_cursor(queue: Queue) -> CursorState:
    """Return the cursor with the lowest settled position of a queue; a lease only without other cursors."""
    cursors = [cursor for cursor in queue.cursors if cursor.lease is None]
    return min(cursors or queue.cursors, key=lambda cursor: cursor.positions[queue.name].settled)


def _largest(gate: Gate, broker: Broker) -> str:
    """Describe the queues with the largest parts of a sum."""
    of_vhost = text_of(gate).vhost(gate)
    queues = [
        queue
        for vhost in broker.vhosts.values()
        if of_vhost is None or vhost.name == of_vhost
        for queue in vhost.queues.values()
        if gate.kind != "disk" or queue.storage is not None
    ]
    queues.sort(key=lambda queue: queue.bytes, reverse=True)
    names = ", ".join(f"{queue.name} with {amount(queue.bytes)} bytes" for queue in queues[:LARGEST])
    everywhere = OF_ALL_VHOSTS if of_vhost is None else ""
    return f"the largest of {len(queues):,} queues{everywhere} that count in {text_of(gate).name(gate)}: {names}"
