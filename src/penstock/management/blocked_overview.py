"""Overview of all blocked producers with advice, longest first: `penstock why` without a name.

For each gate the overview names the longest blocked producer, the number of other producers, the condition that the
gate waits for, and advice for the operator. Producers of all virtual hosts, HTTP and dead letters are covered. Next
come connections that are not read until the store takes their large messages, connections slowed by their own work, and
queues whose dead letters cannot be published. Memory in reply queues, messages in pieces and published blocks comes
last, with its holders.
"""

from __future__ import annotations

from typing import Final

from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.core.broker import Broker
from penstock.core.publish.dead_letters import publisher_of
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.queue import Queue
from penstock.describe.gate import gate_row, text_of
from penstock.describe.pools import pool_rows, pool_sentences
from penstock.flow.gate import Gate
from penstock.flow.work import Steps
from penstock.management import dead_letter_lines, why
from penstock.management.node import Node
from penstock.management.unlisted_memory import SAID_FROM, held_steps

GATES_TOLD: Final = 20
"""Most gates, and most slowed or unread connections, in one answer; the others are counted."""
PARTS: Final = "parts"
"""Field of the overview with its sentences by part."""
SENDERS_A_UNIT: Final = 10
GATE_WORK: Final = 50
"""Producers and queues examined per unit of work, and units per reported gate."""


class Blocked:
    """Gate with the producers that it blocks now."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.since: float = 0.0
        """Time since which the first of them is blocked, in monotonic seconds."""
        self.first: WaitingPublisher | None = None
        self.senders: int = 0

    def add(self, sender: WaitingPublisher) -> None:
        """Add a producer, and update the longest blocked producer."""
        since = sender.entry(self.gate).since
        self.senders += 1
        if since is not None and (self.first is None or since < self.since):
            self.first = sender
            self.since = since

    def lasts(self) -> bool:
        """Return whether the first producer is still blocked after the examination of the other producers."""
        return self.first is not None and id(self.gate) in self.first.gates


def is_named(request: ControlRequest) -> bool:
    """Return whether a request for `why` names a queue, connection, channel or user."""
    return any(request.fields.get(subject) is not None for subject in why.SUBJECTS)


def of_everything_steps(node: Node, vhost: str) -> Steps[dict[str, object]]:
    """Return the gates that block producers, the longest block first, then connections slowed by their own work.

    Advice names virtual hosts other than `vhost`. `PARTS` has the sentences by part, which `composed` puts together.
    """
    broker = node.broker
    parked: list[Queue] = []
    blocked = yield from _blocked_gates(broker, parked)
    listed = blocked[:GATES_TOLD]
    broker.work.done += len(listed) * GATE_WORK
    unread = yield from _unread(node)
    slowed = node.slowed().slowed()
    named = [queue for queue in parked if dead_letter_lines.has_parked(queue)]
    held = yield from held_steps(node)
    parts: dict[str, object] = {
        "gates": [_sentences(each, broker, vhost) for each in listed],
        "more_gates": len(blocked) - len(listed),
        "unread": _lines([why.unread(connection) for connection in unread[:GATES_TOLD]], len(unread)),
        "disk": _of_disk(broker) if unread else [],
        "slowed": _lines(
            [f"{wait.connection.name()} is {wait.clause(broker.now)}" for wait in slowed[:GATES_TOLD]], len(slowed)
        ),
        "parked": _lines([dead_letter_lines.parked_line(queue) for queue in named[:GATES_TOLD]], len(named)),
        "memory": [each.sentence() for each in held if each.bytes >= SAID_FROM],
        "pools": pool_sentences(broker),
        "jobs": [],
    }
    return {
        "gates": [_plain(each, broker) for each in listed],
        "more_gates": len(blocked) - len(listed),
        "unread": [connection.name() for connection in unread[:GATES_TOLD]],
        "slowed": [wait.connection.name() for wait in slowed[:GATES_TOLD]],
        "memory": [each.as_dict() for each in held],
        "pools": pool_rows(broker, None),
        "sentences": composed(parts),
        PARTS: parts,
    }


def _lines(lines: list[str], count: int) -> dict[str, object]:
    """Return the first lines, and the number of all."""
    return {"lines": lines, "count": count}


def composed(parts: dict[str, object]) -> list[str]:
    """Return the sentences of all parts, of one broker or of several."""
    gates, more = parts["gates"], parts["more_gates"]
    assert isinstance(gates, list) and isinstance(more, int)
    sentences: list[str] = [sentence for each in gates for sentence in each]
    if more > 0:
        sentences.append(f"and {more:,} more gates block producers")
    sentences += _counted(parts["unread"], "connections wait for the store")
    sentences += _texts(parts["disk"])
    sentences += _counted(parts["slowed"], "connections are slowed by their own work")
    sentences += _counted(parts["parked"], "queues have dead letters without a way")
    sentences += _texts(parts["memory"])
    return [*(sentences or ["no producer is blocked"]), *_texts(parts["pools"]), *_texts(parts["jobs"])]


def _texts(part: object) -> list[str]:
    assert isinstance(part, list)
    return part


def _counted(part: object, of: str) -> list[str]:
    assert isinstance(part, dict)
    return why.first_lines(part["lines"], of, GATES_TOLD, part["count"])


def _blocked_gates(broker: Broker, parked: list[Queue]) -> Steps[list[Blocked]]:
    """Return the gates that block producers now, by their longest block.

    Adds queues with dead letters that cannot be published to `parked`.
    """
    rows: dict[int, Blocked] = {}
    work = broker.work
    for origin in list(broker.gates.connections):
        for producer in origin.producers:
            _look_at(producer, rows)
        if work.spend(1 + len(origin.producers) // SENDERS_A_UNIT):
            yield
    for vhost in list(broker.vhosts.values()):
        for part in vhost.roll.parts(SENDERS_A_UNIT):
            for queue in part:
                letters = publisher_of(queue)
                if letters is not None:
                    _look_at(letters, rows)
                    if letters.parked:
                        parked.append(queue)
            if work.spend(1):
                yield
    return sorted([each for each in rows.values() if each.lasts()], key=lambda each: each.since)


def _unread(node: Node) -> Steps[list[Connection]]:
    """Return the connections that are not read because the store has not written their large messages."""
    connections: list[Connection] = []
    for number, connection in enumerate(list(node.connections.values())):
        if connection.waits_for_store():
            connections.append(connection)
        if number % SENDERS_A_UNIT == 0:
            if node.broker.work.spend(1):
                yield
    return connections


def _of_disk(broker: Broker) -> list[str]:
    """Describe the closed gates of the disk, for which connections are not read, with advice."""
    listed: list[str] = []
    for gate in [each for each in broker.gates.disk.gates() if not each.open][:GATES_TOLD]:
        listed.append(text_of(gate).reason(gate, broker.now))
        listed += [*why.waits_of(gate, broker), f"advice: {why.advice(gate)}"]
    return listed


def _look_at(sender: WaitingPublisher, rows: dict[int, Blocked]) -> None:
    for gate in sender.gates.values():
        blocked = rows.get(id(gate))
        if blocked is None:
            blocked = Blocked(gate)
            rows[id(gate)] = blocked
        blocked.add(sender)


def _plain(blocked: Blocked, broker: Broker) -> dict[str, object]:
    first = blocked.first
    return {
        **gate_row(blocked.gate, broker.now),
        "vhost": text_of(blocked.gate).vhost(blocked.gate),
        "blocked": blocked.senders,
        "blocked_for_s": broker.now - blocked.since,
        "longest": None if first is None else first.name,
        "advice": why.advice(blocked.gate),
    }


def _sentences(blocked: Blocked, broker: Broker, vhost: str) -> list[str]:
    gate = blocked.gate
    listed: list[str] = []
    if blocked.first is not None:
        listed.append(why.blocked_by(blocked.first, gate, blocked.first.entry(gate), broker.now))
    more = blocked.senders - 1
    if more > 0:
        listed.append(
            f"and {more:,} more {'producer is' if more == 1 else 'producers are'} blocked by {text_of(gate).name(gate)}"
        )
    listed += why.waits_of(gate, broker)
    hint = why.advice(gate)
    of = text_of(gate).vhost(gate)
    elsewhere = f", in vhost {of}" if of is not None and of != vhost else ""
    return [*listed, f"advice{elsewhere}: {hint}"] if hint else listed
