"""Chains from blocked producers to the slow consumer: along links of queues, as long as the next gate closes too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CHAINS_MOST = 5
LONGEST = 10
"""Most queues in a chain; a longer chain ends there."""
PART = 0.1
"""Part of a queue's closed time for which the next queue must have been closed to count as the cause."""
CONSUMERS_NAMED = 3
Row = dict[str, Any]
Name = tuple[str, str, str]
"""A queue: log, virtual host, name."""


@dataclass
class Chain:
    """Queues in the direction of the messages; consumers of the last queue are slower than its arrivals."""

    queues: list[Row]
    """Name and closed seconds of each queue."""
    via: list[str]
    """Links between the queues: the clients that consume from one and publish to the next."""
    blocked_seconds: float
    """Time for which the gate of the first queue blocked producers."""
    consumers: list[Row] = field(default_factory=list)
    """Busiest consumers of the last queue."""
    settled_per_second: float | None = None
    """Rate at which the last queue is emptied; None if the log has no counts."""

    def sentence(self) -> str:
        """Describe the chain in one sentence."""
        way = " -> ".join(
            [
                "blocked producers",
                *[
                    f"queue '{row['queue']}' (closed {row['closed_seconds']:,.1f} s)"
                    + (f" -> {self.via[index]}" if index < len(self.via) else "")
                    for index, row in enumerate(self.queues)
                ],
                self.takers(),
            ]
        )
        return f"{way}: {self.blocked_seconds:,.1f} s of blocked time"

    def takers(self) -> str:
        """Name the consumers of the last queue, with their rate."""
        rate = "" if self.settled_per_second is None else f" ({self.settled_per_second:,.1f} messages/s)"
        if not self.consumers:
            return f"its consumers{rate}"
        names = [f"query {row['query']}" if row["query"] else row["consumer"] for row in self.consumers]
        more = len(names) - CONSUMERS_NAMED
        return ", ".join(names[:CONSUMERS_NAMED]) + (f" and {more} more" if more > 0 else "") + rate


def chains(gates: Sequence[Row], queues: Sequence[Row], links: Sequence[Row], consumers: Sequence[Row]) -> list[Chain]:
    """Return the chains that begin at the queues with the most blocked time, the longest first.

    A queue of an earlier chain begins no chain.
    """
    closed = {_name(gate, "gate"): gate["seconds"] for gate in gates if gate["kind"] == "queue"}
    rates = {_name(row): _rate(row) for row in queues}
    following: dict[Name, list[Row]] = {}
    for link in sorted(links, key=lambda link: -(link["messages"] or 0)):
        following.setdefault(_name(link), []).append(link)
    found: list[Chain] = []
    seen: set[Name] = set()
    starts = [gate for gate in gates if gate["kind"] == "queue" and gate.get("blocked_seconds", 0.0) > 0.0]
    # Queues that no other blocked queue leads to come first, so that a chain is complete.
    inner = {(row["to_log"], row["to_vhost"], row["to_queue"]) for row in links if _name(row) in closed}
    starts.sort(key=lambda gate: (_name(gate, "gate") in inner, -gate["blocked_seconds"]))
    for gate in starts:
        name = _name(gate, "gate")
        if name in seen:
            continue
        path, via = _follow(name, closed, following)
        seen.update(path)
        takers = [row for row in consumers if _name(row) == path[-1]]
        rows = [{"log": each[0], "vhost": each[1], "queue": each[2], "closed_seconds": closed[each]} for each in path]
        found.append(Chain(rows, via, gate["blocked_seconds"], takers, rates.get(path[-1])))
    found.sort(key=lambda chain: -chain.blocked_seconds)
    return found[:CHAINS_MOST]


def _follow(name: Name, closed: dict[Name, float], following: dict[Name, list[Row]]) -> tuple[list[Name], list[str]]:
    """Return the path of the messages from a queue on, as long as the next gate closes too."""
    path, via = [name], []
    while len(path) < LONGEST:
        for link in following.get(path[-1], ()):
            target = (link["to_log"], link["to_vhost"], link["to_queue"])
            if target not in path and closed.get(target, 0.0) > PART * closed[path[-1]]:
                path.append(target)
                via.append(link["via"])
                break
        else:
            break
    return path, via


def _name(row: Row, queue: str = "queue") -> Name:
    return row["log"], row["vhost"], row[queue]


def _rate(row: Row) -> float | None:
    seconds = row.get("sampled_seconds")
    return (row["settled_messages"] or 0) / seconds if seconds else None
