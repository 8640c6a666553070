"""How gates are spoken of: the words of each kind in one place, for the log, `connection.blocked`, `why` and errors.

A gate that is measured in messages and bytes (a queue's, an address's, a virtual host's, the node's) speaks in the
words of Broker-J's queue log; what Broker-J has no gate for is told in the same manner under PST.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import AddressDepth
from penstock.core.gates.disk import DiskGate, FreeSpaceGate, QuotaGate, StoreFailureGate
from penstock.core.gates.operator import OperatorGate
from penstock.core.gates.rate_gate import RateGate
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.queue import Queue
from penstock.flow.gate import Gate, GateTransition
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.shared_limit import SharedLimit


def amount(value: i64) -> str:
    """Return a number as the log shows it: grouped, and -1 for no limit."""
    return "-1" if value == UNLIMITED else f"{int(value):,}"


class Measure:
    """What a gate is judged by: a depth and its thresholds."""

    def __init__(self, thresholds: Thresholds, messages: i64, bytes: i64) -> None:
        self.thresholds = thresholds
        self.messages: i64 = messages
        self.bytes: i64 = bytes


def measure(gate: Gate) -> Measure | None:
    """Return what a gate is judged by, None for one that has no depth (a rate, the operator's)."""
    owner = gate.owner
    if isinstance(owner, Queue):
        return Measure(owner.thresholds, owner.depth_messages(), owner.depth_bytes())
    if isinstance(owner, SharedLimit):
        return Measure(owner.thresholds, owner.messages, owner.bytes)
    if isinstance(owner, AddressDepth):
        return Measure(owner.thresholds, owner.messages, owner.bytes)
    return None


class GateText:
    """What can be said of any gate. Ids are without the subject, as Broker-J's templates are."""

    def subject(self, gate: Gate) -> str:
        """Return what a log line is about, as Broker-J writes it."""
        return f"[{gate.kind}({gate.name})]"

    def name(self, gate: Gate) -> str:
        """Return the gate's name in a sentence: queue orders."""
        return f"{gate.kind} {gate.name}"

    def label(self, gate: Gate) -> str:
        """Return the gate's name in CHN-1005: Queue orders."""
        return f"{gate.kind.capitalize()} {gate.name}"

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """Return id and text of the log line of a crossing."""
        return "PST-1007", "Closed" if crossing.closed else "Opened"

    def cause(self, gate: Gate, now: float) -> str:
        """Return what keeps the gate closed, or its waiters waiting: a clause after its name, or empty."""
        return ""

    def reason(self, gate: Gate, now: float) -> str:
        """Return why a gate is closed, in one sentence."""
        cause = self.cause(gate, now)
        return f"{self.name(gate)}{': ' if cause else ''}{cause}{closed_for(gate, now)}"

    def overshoot(self, gate: Gate) -> dict[str, object]:
        """Return the most by which its depth can pass its capacity now, and what that is computed from."""
        return {"messages": 0, "bytes": 0, "from": "nothing is counted at this gate"}

    def vhost(self, gate: Gate) -> str | None:
        """Return the virtual host that the gate belongs to; None for one that belongs to none."""
        return None


class DepthText(GateText):
    """Gates that are judged by a depth."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        """Of the ids: QUE for queues, as in Broker-J."""

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """See `GateText.log_line`: QUE-1003 and QUE-1004. What they call capacity is the threshold that was crossed."""
        judged = measure(crossing.gate)
        if judged is None:  # Its bound was lifted, and the gate opened for good.
            return f"{self.prefix}-1004", "Underfull : its bound was lifted"
        size, messages = f"Size : {amount(crossing.bytes)} bytes", f"Messages : {amount(crossing.messages)}"
        if crossing.closed:
            stop = judged.thresholds.stop
            return (
                f"{self.prefix}-1003",
                f"Overfull : {size}, Capacity : {amount(stop.bytes)}, {messages}, "
                f"Message Capacity : {amount(stop.messages)}",
            )
        resume = judged.thresholds.resume
        return (
            f"{self.prefix}-1004",
            f"Underfull : {size}, Resume Capacity : {amount(resume.bytes)}, {messages}, "
            f"Message Capacity : {amount(resume.messages)}",
        )

    def cause(self, gate: Gate, now: float) -> str:
        """See `GateText.cause`: each unit that is above its stop threshold, or has not come down to resume."""
        judged = measure(gate)
        if judged is None:
            return ""
        if gate.open:
            return no_room(judged)
        marks: list[str] = []
        stop, resume = judged.thresholds.stop, judged.thresholds.resume
        if judged.messages > stop.messages or (judged.messages > resume.messages and stop.messages != UNLIMITED):
            marks.append(_threshold(judged.messages, "messages", stop.messages, resume.messages))
        if judged.bytes > stop.bytes or (judged.bytes > resume.bytes and stop.bytes != UNLIMITED):
            marks.append(_threshold(judged.bytes, "bytes", stop.bytes, resume.bytes))
        return "; ".join(marks)

    def overshoot(self, gate: Gate) -> dict[str, object]:
        """See `GateText.overshoot`."""
        told = "0 by construction: a message goes in only where the depth, its charge included, is within the capacity"
        owner = gate.owner
        if not isinstance(owner, SharedLimit) or owner.reserve == 0:
            return {"messages": 0, "bytes": 0, "from": told}
        told = (
            "the reserve from which each queue has a guaranteed share, filled by queues that hold no more than theirs"
        )
        return {"messages": 0, "bytes": int(owner.reserve), "from": told}


class QueueText(DepthText):
    """The gate of a queue."""

    def subject(self, gate: Gate) -> str:
        """See `GateText.subject`."""
        return f"[vh(/{(self.vhost(gate) or '').removeprefix('/')})/qu({gate.name})]"

    def cause(self, gate: Gate, now: float) -> str:
        """See `GateText.cause`: a queue that pages has no room on the disk, or the disk is slow."""
        owner = gate.owner
        if gate.open and isinstance(owner, Queue) and owner.pager is not None and owner.pager.messages > 0:
            pages = owner.pager
            if not owner.overflow.pages:
                return f"{amount(pages.messages)} messages are read back from the disk first, for it pages no more"
            if pages.unwritten_bytes > 0 and pages.within_limit(1, 1):
                return f"{amount(pages.unwritten_bytes)} bytes wait to be written to the disk"
            return no_room(
                Measure(Thresholds(owner.settings.page_limit, Level(), Level()), pages.messages, pages.bytes)
            )
        return super().cause(gate, now)

    def vhost(self, gate: Gate) -> str | None:
        """See `GateText.vhost`."""
        owner = gate.owner
        assert isinstance(owner, Queue)
        return owner.vhost


class VhostText(DepthText):
    """The sum of a virtual host's queues."""

    def subject(self, gate: Gate) -> str:
        """See `GateText.subject`."""
        return f"[vh(/{gate.name.removeprefix('/')})]"

    def vhost(self, gate: Gate) -> str | None:
        """See `GateText.vhost`."""
        return gate.name


class OperatorText(GateText):
    """What the operator holds by hand."""

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """See `GateText.log_line`."""
        if crossing.closed:
            return "PST-1005", f"Blocked by the operator{_because(crossing.gate)}"
        return "PST-1006", "Unblocked by the operator"

    def name(self, gate: Gate) -> str:
        """See `GateText.name`."""
        return f"the operator, who holds {gate.name}"

    def cause(self, gate: Gate, now: float) -> str:
        """See `GateText.cause`: the operator's own words."""
        owner = gate.owner
        return owner.reason if isinstance(owner, OperatorGate) else ""

    def vhost(self, gate: Gate) -> str | None:
        """See `GateText.vhost`."""
        owner = gate.owner
        return owner.vhost or None if isinstance(owner, OperatorGate) else None


class RateText(GateText):
    """So many a second."""

    def name(self, gate: Gate) -> str:
        """See `GateText.name`."""
        return f"its rate: {gate.name}"

    def reason(self, gate: Gate, now: float) -> str:
        """See `GateText.reason`: not since when, for it comes and goes with every message."""
        owner = gate.owner
        if not isinstance(owner, RateGate):
            return self.name(gate)
        return f"{self.name(gate)}, the next message in {max(owner.ready_at(now) - now, 0.0) * 1000:.0f} ms"


class DiskText(GateText):
    """What stands before the disk, in the words of Broker-J's message stores (MST) and virtual hosts (VHT)."""

    def subject(self, gate: Gate) -> str:
        """See `GateText.subject`: the store (Broker-J's ms) of a virtual host, or of all."""
        owner = gate.owner
        if isinstance(owner, QuotaGate) and owner.vhost:
            return f"[vh(/{owner.vhost.removeprefix('/')})/ms(store)]"
        return "[ms(store)]"

    def name(self, gate: Gate) -> str:
        """See `GateText.name`."""
        return f"the disk ({gate.name})"

    def label(self, gate: Gate) -> str:
        """See `GateText.label`."""
        return f"Disk {gate.name}"

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """See `GateText.log_line`: MST-1008 and MST-1009 of quotas, VHT-1006 and VHT-1007 of the free room."""
        gate = crossing.gate
        owner = gate.owner
        if isinstance(owner, FreeSpaceGate) or (owner is None and gate.name == "room"):
            percent = owner.full_percent() if isinstance(owner, FreeSpaceGate) else 100
            if crossing.closed:
                return "VHT-1006", f"Filesystem is over {percent} per cent full, enforcing flow control."
            return "VHT-1007", f"Filesystem is no longer over {percent} per cent full."
        if isinstance(owner, StoreFailureGate):
            if crossing.closed:
                return "PST-1012", f"Store cannot be written, flow control will be enforced : {owner.reason}"
            return "PST-1013", "Store can be written again"
        if crossing.closed:
            return "MST-1008", "Store overfull, flow control will be enforced"
        return "MST-1009", "Store overfull condition cleared"

    def cause(self, gate: Gate, now: float) -> str:
        """See `GateText.cause`."""
        owner = gate.owner
        return owner.describe() if isinstance(owner, DiskGate) else ""

    def overshoot(self, gate: Gate) -> dict[str, object]:
        """See `GateText.overshoot`."""
        owner = gate.owner
        if isinstance(owner, QuotaGate) and owner.vhost:
            told = "the one publish or transaction that closed it, which is taken whole"
        elif isinstance(owner, StoreFailureGate):
            told = "nothing is counted at this gate"
        else:
            told = "the one publish or transaction that closed it, and what the store writes besides: its log, at most"
        return {"messages": 0, "bytes": 0 if isinstance(owner, StoreFailureGate) else None, "from": told}

    def vhost(self, gate: Gate) -> str | None:
        """See `GateText.vhost`."""
        owner = gate.owner
        return owner.vhost or None if isinstance(owner, QuotaGate) else None


TEXTS: Final[dict[str, GateText]] = {
    "queue": QueueText("QUE"),
    "vhost": VhostText("PST"),
    "memory": DepthText("PST"),
    "address": DepthText("PST"),
    "operator": OperatorText(),
    "rate": RateText(),
    "disk": DiskText(),
}
ANY: Final = GateText()


def text_of(gate: Gate) -> GateText:
    """Return the words for a gate, by its kind."""
    return TEXTS.get(gate.kind, ANY)


def because(producer: WaitingPublisher, gate: Gate, now: float) -> str:
    """Return by what a producer is blocked, in one sentence: by a closed gate, by want of room, or by its turn."""
    words = text_of(gate)
    if not gate.open or producer.gate is not gate or not producer.outbox:
        return words.reason(gate, now)
    if producer.obstacle() is gate:
        return f"{words.reason(gate, now)}, which is charged {amount(producer.outbox[0].charge)}"
    ahead = sum(1 for ticket, serial, _ in gate.waiters if (ticket, serial) < (producer.ticket, producer.serial))
    return f"{words.name(gate)}: the gate is open; it waits for its turn, {ahead:,} before it"


def no_room(judged: Measure) -> str:
    """Return that a gate is open and the next message does not fit, in each unit that has a capacity."""
    capacity = judged.thresholds.capacity
    parts: list[str] = []
    if capacity.messages != UNLIMITED:
        parts.append(f"{amount(judged.messages)} of {amount(capacity.messages)} messages")
    if capacity.bytes != UNLIMITED or not parts:
        parts.append(f"{amount(judged.bytes)} of {amount(capacity.bytes)} bytes")
    return f"{', '.join(parts)}: no room for the next message"


def closed_for(gate: Gate, now: float) -> str:
    """Return for how long a gate has been closed, as the end of a sentence; empty for one that is open."""
    return "" if gate.stats.since is None else f", closed for {now - gate.stats.since:.1f} s"


def _because(gate: Gate) -> str:
    owner = gate.owner
    return f" : {owner.reason}" if isinstance(owner, OperatorGate) and owner.reason else ""


def _threshold(depth: i64, unit: str, stop: i64, resume: i64) -> str:
    sign = ">" if depth > stop else "after more than"
    return f"{amount(depth)} {unit} {sign} stop {amount(stop)} (opens at {amount(resume)})"
