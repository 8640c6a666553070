"""The reason of a refusal, in words: which gate, its depth, and what it is judged by."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.gates.address_depth import AddressDepth
from penstock.core.gates.disk import DiskGate
from penstock.core.gates.operator import OperatorGate
from penstock.core.gates.rate_gate import RateGate
from penstock.core.queue.queue import Queue
from penstock.flow.gate import Gate
from penstock.flow.level import Thresholds, amounts
from penstock.flow.shared_limit import SharedLimit


def clause(gate: Gate) -> str:
    """Return what stops a publish at a gate, in one clause."""
    owner = gate.owner
    if isinstance(owner, DiskGate):
        return f"disk {gate.name}: {owner.describe()}"
    if isinstance(owner, OperatorGate):
        return f"the operator blocks {gate.name}{': ' if owner.reason else ''}{owner.reason}"
    if isinstance(owner, RateGate):
        return f"the rate of {gate.name} is used up"
    if isinstance(owner, Queue):
        return _depth(gate, owner.thresholds, owner.depth_messages(), owner.depth_bytes())
    if isinstance(owner, SharedLimit):
        return _depth(gate, owner.thresholds, owner.messages, owner.bytes)
    if isinstance(owner, AddressDepth):
        return _depth(gate, owner.thresholds, owner.messages, owner.bytes)
    return f"{gate.kind} '{gate.name}' lets nothing pass"


def _depth(gate: Gate, thresholds: Thresholds, messages: i64, bytes: i64) -> str:
    held = f"{gate.kind} '{gate.name}' holds {amounts(messages, bytes)}"
    marks = "" if gate.open else f"closed above {thresholds.stop.describe()}, opens at {thresholds.resume.describe()}, "
    return f"{held} ({marks}capacity {thresholds.capacity.describe()})"
