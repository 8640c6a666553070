"""Answers of Penstock with types. What a field does not say is in `raw`, which has the whole answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.client.engine.outcomes import Amounts, amounts_of


class WhyGate(NamedTuple):
    """Gate of an answer to `why`, open or closed."""

    kind: str
    """queue, address, vhost, user, memory, disk, operator or another of docs/flow-control.md."""
    name: str
    scope: str | None
    """Virtual host of the gate; None for one of the whole broker, or where the answer does not say it."""
    open: bool
    reason: str
    """Cause of a closed gate, where it is none of depth and thresholds."""
    since: float | None
    """Seconds that it has been closed; None for an open one."""
    blocked: int
    """Producers that it blocks."""
    depth: Amounts
    stop: Amounts
    resume: Amounts
    capacity: Amounts
    raw: dict[str, Any]


class WhyProducer(NamedTuple):
    """Producer that the queue of an answer blocks."""

    producer: str
    since: float | None
    """Seconds that it has been blocked."""
    withheld: int
    """Its messages that are in the queue and not confirmed."""
    held: int
    """Its messages that are outside of the queue."""
    refused: int
    raw: dict[str, Any]


class Why(NamedTuple):
    """Answer to `why`."""

    kind: str
    """Subject of the question: queue, connection, channel, link, user; empty for all that is blocked."""
    sentences: tuple[str, ...]
    """The answer for people."""
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
    if isinstance(answer.get("gate"), dict):  # A queue: the figures of its gate are its own.
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
