"""What people are told, in the words of Broker-J's operational log, so that existing scrapers work.

Templates: Queue_logmessages.properties and Channel_logmessages.properties of Broker-J. What they call capacity is the
threshold that was crossed: stop in QUE-1003, resume in QUE-1004. Numbers are grouped, "no limit" is -1. What Broker-J
has no gate for is told in the same manner under PST: sums over many queues, addresses, the operator's own.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.blockable import Blockable
from penstock.core.operator import OperatorGate
from penstock.core.queue import Queue
from penstock.core.rates import RateGate
from penstock.core.share import AddressDepth
from penstock.flow.gate import Crossing, Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import Pool


def amount(value: i64) -> str:
    """Return a number as the log shows it."""
    return "-1" if value == UNLIMITED else f"{int(value):,}"


def subject(gate: Gate) -> str:
    """Return what a log line is about."""
    owner = gate.owner
    if isinstance(owner, Queue):
        return f"[vh(/{owner.vhost.removeprefix('/')})/qu({owner.name})]"
    return f"[{gate.kind}({gate.name})]"


def crossed(crossing: Crossing) -> str:
    """Return the log line of a gate that closed or opened."""
    gate = crossing.gate
    owner = gate.owner
    if isinstance(owner, OperatorGate):
        return _operated(owner, crossing.closed)
    if isinstance(owner, Queue):
        thresholds, number = owner.thresholds, "QUE-100"
    elif isinstance(owner, Pool | AddressDepth):
        thresholds, number = owner.thresholds, "PST-100"
    else:
        return f"{subject(gate)} PST-1007 : {'Closed' if crossing.closed else 'Opened'}"
    if crossing.closed:
        stop = thresholds.stop
        return (
            f"{subject(gate)} {number}3 : Overfull : Size : {amount(crossing.bytes)} bytes, "
            f"Capacity : {amount(stop.bytes)}, "
            f"Messages : {amount(crossing.messages)}, Message Capacity : {amount(stop.messages)}"
        )
    resume = thresholds.resume
    return (
        f"{subject(gate)} {number}4 : Underfull : Size : {amount(crossing.bytes)} bytes, "
        f"Resume Capacity : {amount(resume.bytes)}, "
        f"Messages : {amount(crossing.messages)}, Message Capacity : {amount(resume.messages)}"
    )


def _operated(owner: OperatorGate, closed: bool) -> str:
    if closed:
        return f"{subject(owner.gate)} PST-1005 : Blocked by the operator{_because(owner)}"
    return f"{subject(owner.gate)} PST-1006 : Unblocked by the operator"


def _because(owner: OperatorGate) -> str:
    return f" : {owner.reason}" if owner.reason else ""


def blocked(producer: Blockable, gate: Gate) -> str:
    """Return the log line of a producer that was blocked."""
    kind = "Queue" if gate.kind == "queue" else gate.kind.capitalize()
    return f"[{producer.name}] CHN-1005 : Flow Control Enforced ({kind} {gate.name})"


def unblocked(producer: Blockable) -> str:
    """Return the log line of a producer that is not blocked any more."""
    return f"[{producer.name}] CHN-1006 : Flow Control Removed"


def reason(gate: Gate, now: float) -> str:
    """Return why a gate is closed, in one sentence: for connection.blocked, `penstock why` and errors."""
    owner = gate.owner
    since = "" if gate.book.since is None else f", closed for {now - gate.book.since:.1f} s"
    if isinstance(owner, OperatorGate):
        return f"the operator, who holds {owner.scope} {owner.name}{_because(owner)}{since}"
    if isinstance(owner, RateGate):
        return f"its rate: {gate.name}, the next message in {max(owner.ready_at(now) - now, 0.0) * 1000:.0f} ms"
    if not isinstance(owner, Queue | Pool | AddressDepth):
        return f"{gate.kind} {gate.name}{since}"
    marks: list[str] = []
    stop, resume = owner.thresholds.stop, owner.thresholds.resume
    if owner.messages > stop.messages or (owner.messages > resume.messages and stop.messages != UNLIMITED):
        marks.append(_mark(owner.messages, "messages", stop.messages, resume.messages))
    if owner.bytes > stop.bytes or (owner.bytes > resume.bytes and stop.bytes != UNLIMITED):
        marks.append(_mark(owner.bytes, "bytes", stop.bytes, resume.bytes))
    if not marks:
        marks.append(
            f"{amount(owner.bytes)} of {amount(owner.thresholds.capacity.bytes)} bytes: no room for the next message"
        )
    return f"{gate.kind} {gate.name}: {'; '.join(marks)}{since}"


def _mark(depth: i64, unit: str, stop: i64, resume: i64) -> str:
    sign = ">" if depth > stop else "after more than"
    return f"{amount(depth)} {unit} {sign} stop {amount(stop)} (opens at {amount(resume)})"
