"""Answers of Penstock with types. The whole answer, including fields without a type here, is in `raw`."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.client.engine.outcomes import Amounts, amounts_of


class WhyGate(NamedTuple):
    """Gate of an answer to `why`, open or closed."""

    kind: str
    """queue, address, vhost, user, memory, disk, operator or another of docs/flow-control.md."""
    name: str
    scope: str | None
    """Virtual host of the gate; None for a gate of the whole broker, or if the answer lacks it."""
    open: bool
    reason: str
    """Cause of a closed gate other than depth and thresholds."""
    since: float | None
    """Seconds since the gate closed; None for an open gate."""
    blocked: int
    """Producers that the gate blocks."""
    depth: Amounts
    stop: Amounts
    resume: Amounts
    capacity: Amounts
    raw: dict[str, Any]


class WhyProducer(NamedTuple):
    """Producer that the queue of an answer blocks."""

    producer: str
    since: float | None
    """Seconds since the producer was blocked."""
    withheld: int
    """Messages of the producer that are in the queue and not confirmed."""
    held: int
    """Messages of the producer that are held outside of the queue."""
    refused: int
    raw: dict[str, Any]


class Why(NamedTuple):
    """Answer to `why`."""

    kind: str
    """Subject of the question: queue, connection, channel, link, user; empty for everything that is blocked."""
    sentences: tuple[str, ...]
    """The answer as sentences."""
    gates: tuple[WhyGate, ...]
    """Gates of the queue, its own first; or all gates that block a producer, the longest block first."""
    blocked: tuple[WhyProducer, ...]
    """Producers that the queue blocks."""
    raw: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def depth(self) -> Amounts:
        """Return the depth of the queue, or of the first gate."""
        return amounts_of(self.raw.get("depth")) or (self.gates[0].depth if self.gates else Amounts())


def why_of(answer: dict[str, Any], kind: str) -> Why:
    """Return the answer to `why` with types."""
    gates = list(answer.get("gates", ()))
    if isinstance(answer.get("gate"), dict):  # A queue: the figures of its gate are in the queue's own row.
        gates.insert(0, {**answer, **answer["gate"]})
    blocked = answer.get("blocked", ())
    return Why(
        kind,
        tuple(answer.get("sentences", ())),
        tuple(_gate(each) for each in gates),
        tuple(_producer(each) for each in blocked) if isinstance(blocked, list) else (),
        answer,
    )


def _gate(row: dict[str, Any]) -> WhyGate:
    kind, name, cause = (str(row.get(field) or "") for field in ("kind", "name", "cause"))
    blocked = row["blocked"] if isinstance(row.get("blocked"), int) else 0
    depth, stop, resume, capacity = (amounts_of(row.get(field)) for field in ("depth", "stop", "resume", "capacity"))
    state = (row.get("open") is True, cause, row.get("closed_for_s"), blocked)
    return WhyGate(kind, name, row.get("vhost"), *state, depth, stop, resume, capacity, row)


def _producer(row: dict[str, Any]) -> WhyProducer:
    withheld, held, refused = (int(row.get(field, 0)) for field in ("withheld", "held", "refused"))
    return WhyProducer(str(row.get("producer", "")), row.get("blocked_for_s"), withheld, held, refused, row)
