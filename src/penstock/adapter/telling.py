"""What people are told, in the words of Broker-J's operational log, so that existing scrapers work.

Templates: Queue_logmessages.properties and Channel_logmessages.properties of Broker-J. What they call capacity is the
threshold that was crossed: stop in QUE-1003, resume in QUE-1004. Numbers are grouped, "no limit" is -1.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.producer import Producer
from penstock.core.queue import Queue
from penstock.flow.gate import Crossing, Gate
from penstock.flow.level import UNLIMITED


def amount(value: i64) -> str:
    """Return a number as the log shows it."""
    return "-1" if value == UNLIMITED else f"{int(value):,}"


def crossed(crossing: Crossing) -> str:
    """Return the log line of a gate that closed or opened."""
    owner = crossing.gate.owner
    assert isinstance(owner, Queue)
    subject = f"[vh(/{owner.vhost.removeprefix('/')})/qu({owner.name})]"
    if crossing.closed:
        stop = owner.thresholds.stop
        return (
            f"{subject} QUE-1003 : Overfull : Size : {amount(crossing.bytes)} bytes, Capacity : {amount(stop.bytes)}, "
            f"Messages : {amount(crossing.messages)}, Message Capacity : {amount(stop.messages)}"
        )
    resume = owner.thresholds.resume
    return (
        f"{subject} QUE-1004 : Underfull : Size : {amount(crossing.bytes)} bytes, "
        f"Resume Capacity : {amount(resume.bytes)}, "
        f"Messages : {amount(crossing.messages)}, Message Capacity : {amount(resume.messages)}"
    )


def blocked(producer: Producer, gate: Gate) -> str:
    """Return the log line of a producer that was blocked."""
    return f"[{producer.name}] CHN-1005 : Flow Control Enforced (Queue {gate.name})"


def unblocked(producer: Producer) -> str:
    """Return the log line of a producer that is not blocked any more."""
    return f"[{producer.name}] CHN-1006 : Flow Control Removed"


def reason(gate: Gate, now: float) -> str:
    """Return why a gate is closed, in one sentence: for connection.blocked, `penstock why` and errors."""
    owner = gate.owner
    assert isinstance(owner, Queue)
    marks: list[str] = []
    stop, resume = owner.thresholds.stop, owner.thresholds.resume
    if owner.messages > stop.messages or (owner.messages > resume.messages and stop.messages != UNLIMITED):
        marks.append(_mark(owner.messages, "messages", stop.messages, resume.messages))
    if owner.bytes > stop.bytes or (owner.bytes > resume.bytes and stop.bytes != UNLIMITED):
        marks.append(_mark(owner.bytes, "bytes", stop.bytes, resume.bytes))
    since = "" if gate.book.since is None else f", closed for {now - gate.book.since:.1f} s"
    if not marks:
        marks.append(
            f"{amount(owner.bytes)} of {amount(owner.thresholds.capacity.bytes)} bytes: no room for the next message"
        )
    return f"queue {owner.name}: {'; '.join(marks)}{since}"


def _mark(depth: i64, unit: str, stop: i64, resume: i64) -> str:
    sign = ">" if depth > stop else "after more than"
    return f"{amount(depth)} {unit} {sign} stop {amount(stop)} (opens at {amount(resume)})"
