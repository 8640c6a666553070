"""Gates: their rows, and the texts of each kind of gate for the log, `connection.blocked`, `why` and errors.

Gates measured in messages and bytes (queue, address, virtual host, node) use the texts of Broker-J's queue log. Gates
that Broker-J lacks have similar texts under PST.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.core.gates.disk import FREE_SPACE, QUOTA, STORE_FAILURE
from penstock.core.publish.producer import Producer
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.flow.gate import Gate, GateTransition, Waiter, earlier
from penstock.flow.level import Thresholds, amount

UNCOUNTED: Final = "nothing is counted at this gate"
WITHIN: Final = "0 by construction: a message goes in only where the depth, its charge included, is within the capacity"
SHARES: Final = (
    "the reserve from which each queue has a guaranteed share, filled by queues that hold no more than theirs"
)
CLOSING: Final = "the one publish or transaction that closed it"
"""Bases of the largest excess of a depth over its capacity."""


def _overshoot(bytes: int | None, basis: str) -> dict[str, object]:
    return {"messages": 0, "bytes": bytes, "from": basis}


class GateText:
    """Texts of a gate. Ids omit the subject, as Broker-J's templates do."""

    shows_cause: bool = False
    """True if the cause is part of the gate's view."""

    def subject(self, gate: Gate) -> str:
        """Return the subject of a log line, in Broker-J's form."""
        return f"[{gate.kind}({gate.name})]"

    def name(self, gate: Gate) -> str:
        """Return the displayed name of the gate."""
        return f"{gate.kind} {gate.name}"

    def label(self, gate: Gate) -> str:
        """Prefix of the ids: QUE for queues, as in Broker-J."""
        return f"{gate.kind.capitalize()} {gate.name}"

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """Return id and text of the log line for a transition."""
        return "PST-1007", "Closed" if crossing.closed else "Opened"

    def cause(self, gate: Gate, now: float) -> str:
        """Return the cause of a closed gate, or of waits at it: a clause after its name, or empty."""
        return gate.describe_cause(now)

    def reason(self, gate: Gate, now: float) -> str:
        """Return the reason why a gate is closed, in one sentence."""
        cause = self.cause(gate, now)
        return f"{self.name(gate)}{': ' if cause else ''}{cause}{closed_for(gate, now)}"

    def overshoot(self, gate: Gate) -> dict[str, object]:
        """Return the largest possible excess of the depth over the capacity now, and the basis of that figure."""
        return _overshoot(0, UNCOUNTED)

    def vhost(self, gate: Gate) -> str | None:
        """Return the virtual host of the gate; None without one."""
        return None if gate.owner is None else gate.owner.vhost_name()


class DepthText(GateText):
    """Texts of gates with a depth."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        """Prefix of the ids: QUE for queues, as in Broker-J."""

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """See `GateText.log_line`: QUE-1003 and QUE-1004. Their capacity is the threshold that was crossed."""
        judged = crossing.gate.measure()
        if judged is None:  # Texts of the gate of a queue.
            return f"{self.prefix}-1004", "Underfull : its bound was lifted"
        number, text, limit = "1004", "Underfull : Size : {} bytes, Resume Capacity", judged.thresholds.resume
        if crossing.closed:
            number, text, limit = "1003", "Overfull : Size : {} bytes, Capacity", judged.thresholds.stop
        begin = f"{text.format(amount(crossing.bytes))} : {amount(limit.bytes)}, Messages : {amount(crossing.messages)}"
        return f"{self.prefix}-{number}", f"{begin}, Message Capacity : {amount(limit.messages)}"

    @override
    def overshoot(self, gate: Gate) -> dict[str, object]:
        shares = 0 if gate.owner is None else int(gate.owner.guaranteed_total())
        return _overshoot(shares, WITHIN if shares == 0 else SHARES)


class QueueText(DepthText):
    """The gate of a queue."""

    @override
    def subject(self, gate: Gate) -> str:
        return f"[vh(/{(self.vhost(gate) or '').removeprefix('/')})/qu({gate.name})]"


class VhostText(DepthText):
    """Texts of the disk quota of the broker, or of a virtual host."""

    @override
    def subject(self, gate: Gate) -> str:
        return f"[vh(/{gate.name.removeprefix('/')})]"

    @override
    def vhost(self, gate: Gate) -> str | None:
        return gate.name


class OperatorText(GateText):
    """Texts of gates that the operator closes."""

    @override
    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        reason = crossing.gate.describe_cause(crossing.now)
        if crossing.closed:
            return "PST-1005", f"Blocked by the operator{' : ' if reason else ''}{reason}"
        return "PST-1006", "Unblocked by the operator"

    @override
    def name(self, gate: Gate) -> str:
        return f"the operator, who holds {gate.name}"


class RateText(GateText):
    """Texts of rate gates."""

    @override
    def name(self, gate: Gate) -> str:
        return f"its rate: {gate.name}"

    def reason(self, gate: Gate, now: float) -> str:
        """See `GateText.reason`; without a time, because the gate changes with every message."""
        if gate.owner is None:
            return self.name(gate)
        return f"{self.name(gate)}, the next message in {max(gate.owner.ready_at(now) - now, 0.0) * 1000:.0f} ms"


class DiskText(GateText):
    """Texts of the disk gates, after Broker-J's message stores (MST) and virtual hosts (VHT)."""

    shows_cause = True

    @override
    def subject(self, gate: Gate) -> str:
        vhost = self.vhost(gate)
        return "[ms(store)]" if vhost is None else f"[vh(/{vhost.removeprefix('/')})/ms(store)]"

    @override
    def name(self, gate: Gate) -> str:
        return f"the disk ({gate.name})"

    @override
    def overshoot(self, gate: Gate) -> dict[str, object]:
        return _overshoot(None, f"{CLOSING}, and what the store writes besides: its log, at most")


class QuotaText(DiskText):
    """The quota of the broker, or of a virtual host."""

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """See `GateText.log_line`: MST-1008 and MST-1009."""
        if crossing.closed:
            return "MST-1008", "Store overfull, flow control will be enforced"
        return "MST-1009", "Store overfull condition cleared"

    @override
    def overshoot(self, gate: Gate) -> dict[str, object]:
        if self.vhost(gate) is None:
            return super().overshoot(gate)
        return _overshoot(None, f"{CLOSING}, which is taken whole")


class FreeSpaceText(DiskText):
    """Texts of the gate for free space on the store's file system."""

    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        """See `GateText.log_line`: VHT-1006 and VHT-1007."""
        owner = crossing.gate.owner
        percent = 100 if owner is None else owner.full_percent()
        if crossing.closed:
            return "VHT-1006", f"Filesystem is over {percent} per cent full, enforcing flow control."
        return "VHT-1007", f"Filesystem is no longer over {percent} per cent full."


class StoreFailureText(DiskText):
    """Texts of the gate of a store that cannot be written."""

    @override
    def log_line(self, crossing: GateTransition) -> tuple[str, str]:
        if crossing.closed:
            cause = crossing.gate.describe_cause(crossing.now)
            return "PST-1012", f"Store cannot be written, flow control will be enforced : {cause}"
        return "PST-1013", "Store can be written again"

    @override
    def overshoot(self, gate: Gate) -> dict[str, object]:
        return _overshoot(0, UNCOUNTED)


TEXTS: Final[dict[str, GateText]] = {
    "queue": QueueText("QUE"),
    "vhost": VhostText("PST"),
    "memory": DepthText("PST"),
    "address": DepthText("PST"),
    "operator": OperatorText(),
    "rate": RateText(),
    QUOTA: QuotaText(),
    FREE_SPACE: FreeSpaceText(),
    STORE_FAILURE: StoreFailureText(),
}
"""Texts by key of `key_of`."""
ANY: Final = GateText()


def key_of(gate: Gate) -> str:
    """Return the key of a gate in tables by kind: its kind, or for a disk gate the first word of its name."""
    return gate.name.partition(" ")[0] if gate.kind == "disk" else gate.kind


def text_of(gate: Gate) -> GateText:
    """Return the texts of a gate, by its kind."""
    return TEXTS.get(key_of(gate), ANY)


def because(producer: WaitingPublisher, gate: Gate, now: float) -> str:
    """Return why a producer is blocked, in one sentence: a closed gate, no room, or its turn."""
    words = text_of(gate)
    if isinstance(producer, Producer) and producer.credit is not None and producer.credit.gate is gate and gate.open:
        return _for_credit(producer.credit, gate, now)
    if not gate.open or producer.gate is not gate or not producer.outbox:
        return words.reason(gate, now)
    if producer.obstacle() is gate:
        judged, charge = gate.measure(), producer.outbox[0].charge
        charged = charge if judged is None else judged.thresholds.capacity.counted(1, charge)
        return f"{words.reason(gate, now)}, which is charged {amount(charged)}"
    return f"{words.name(gate)}: the gate is open; it waits for its turn, {_before(producer, gate):,} before it"


def _for_credit(credit: SenderCredit, gate: Gate, now: float) -> str:
    """Return why a sender gets no credit at an open gate: no room, or its turn."""
    words, ahead = text_of(gate), _before(credit, gate)
    if ahead == 0:
        return f"{words.reason(gate, now)}; it waits for credit"
    return f"{words.name(gate)}: the gate is open; it waits for credit, {ahead:,} before it"


def _before(waiter: Waiter, gate: Gate) -> int:
    """Return how many waiters at a gate are before this waiter."""
    return len([each for each in [*gate.waiters, *gate.requests] if earlier(each, waiter)])


def closed_for(gate: Gate, now: float) -> str:
    """Return how long a gate has been closed, as the end of a sentence; empty for a gate that is open or has just
    closed.

    A client may show the notice of a closing repeatedly, when "closed for 0.0 s" is no longer true.
    """
    lasted = 0.0 if gate.stats.since is None else now - gate.stats.since
    return f", closed for {lasted:.1f} s" if lasted >= 0.05 else ""


def gate_state(gate: Gate, now: float) -> dict[str, object]:
    """Return the row of a gate, without its producers and its measurements."""
    return {
        "kind": gate.kind,
        "name": gate.name,
        "open": gate.open,
        "waiting": gate.in_line(),
        **gate.stats.summary(now),
        "overshoot": text_of(gate).overshoot(gate),
    }


def gate_row(gate: Gate, now: float) -> dict[str, object]:
    """Return the row of a gate, without its producers, with its depth and thresholds, if any."""
    row = gate_state(gate, now)
    if gate.owner is None:
        return row
    words, judged = text_of(gate), gate.owner.exact_measure(now)
    if words.shows_cause:
        row["cause"] = "" if gate.open else words.cause(gate, now)
    if judged is not None:
        row["depth"] = {"messages": int(judged.messages), "bytes": int(judged.bytes)}
        if judged.reserved_messages > 0:
            row["reserved"] = {"messages": int(judged.reserved_messages), "bytes": int(judged.reserved_bytes)}
        row.update(thresholds_row(judged.thresholds))
    return row


def thresholds_row(thresholds: Thresholds) -> dict[str, object]:
    """Return capacity, stop and resume; None means no limit."""
    return {
        "capacity": thresholds.capacity.as_dict(),
        "stop": thresholds.stop.as_dict(),
        "resume": thresholds.resume.as_dict(),
    }


def closed_s(gate: Gate, now: float) -> float:
    """Return how long a gate was closed in total: seconds."""
    stats = gate.stats
    return stats.closed_s if stats.since is None else stats.closed_s + now - stats.since
