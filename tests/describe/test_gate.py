"""The words of each kind of gate, and the most by which a depth can pass its capacity."""

from __future__ import annotations

import pytest

from penstock.core.gates.address_depth import AddressDepth
from penstock.core.gates.rate_gate import RateGate
from penstock.describe.gate import text_of
from penstock.flow.gate import Gate, GateTransition
from penstock.flow.level import Level, Thresholds
from penstock.flow.shared_limit import SharedLimit
from penstock.flow.token_bucket import TokenBucket
from penstock.flow.turns import Turns
from penstock.management import gate_lines
from tests.support.driven_connection import make_driver

BOUNDED = Thresholds(Level(10, 1000), Level(8, 800), Level(7, 700))


def gates() -> dict[str, Gate]:
    """A gate of each kind that is no queue's, closed at second 10."""
    driver, turns = make_driver(), Turns(make_driver().broker.timers)
    vhost, memory = SharedLimit("vhost", "sales", BOUNDED, turns), SharedLimit("memory", "of the node", BOUNDED, turns)
    memory.reserve = 128
    for pool in (vhost, memory):
        pool.messages, pool.bytes = 9, 900
    address = AddressDepth("orders", BOUNDED, turns)
    address.messages, address.bytes = 9, 900
    rate = RateGate("user guest", turns, driver.broker.timers)
    rate.passes.messages = TokenBucket(2.0, 1.0)
    rate.passes.messages.take(1, 10.0)
    operator = driver.broker.gates.block("user", "", "guest", "upgrade at noon").gate
    made = {
        gate.kind: gate for gate in (vhost.gate, memory.gate, address.gate, rate.gate, operator, Gate("new", "n", []))
    }
    for gate in made.values():
        gate.close(9, 900, 10.0)
    return made


DEPTH = "Size : 900 bytes, Capacity : 800, Messages : 9, Message Capacity : 8"


MARKS = "9 messages > stop 8 (opens at 7); 900 bytes > stop 800 (opens at 700), closed for 2.5 s"


SPOKEN = {
    "vhost": (f"[vh(/sales)] PST-1003 : Overfull : {DEPTH}", "Vhost sales", f"vhost sales: {MARKS}"),
    "memory": (
        f"[memory(of the node)] PST-1003 : Overfull : {DEPTH}", "Memory of the node", f"memory of the node: {MARKS}"
    ),
    "address": (f"[address(orders)] PST-1003 : Overfull : {DEPTH}", "Address orders", f"address orders: {MARKS}"),
    "operator": (
        "[operator(user guest)] PST-1005 : Blocked by the operator : upgrade at noon",
        "Operator user guest",
        "the operator, who holds user guest: upgrade at noon, closed for 2.5 s",
    ),
    "rate": (
        "[rate(user guest)] PST-1007 : Closed", "Rate user guest", "its rate: user guest, the next message in 500 ms"
    ),
    "new": ("[new(n)] PST-1007 : Closed", "New n", "new n, closed for 2.5 s"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SPOKEN)
def test_gate_of_each_kind_has_its_own_words(kind: str) -> None:
    gate = gates()[kind]
    words = text_of(gate)
    line, label, reason = SPOKEN[kind]
    assert gate_lines.crossed(GateTransition(gate, True, 9, 900, 10.0)).text == line
    assert words.label(gate) == label
    gate.stats.since = 10.0
    assert words.reason(gate, 10.0 if kind == "rate" else 12.5) == reason
    opened = gate_lines.crossed(GateTransition(gate, False, 7, 700, 13.0))
    assert opened.text.startswith(line.partition("] ")[0])
    assert opened.text != line


def test_overshoot_of_each_gate_is_stated_with_its_source() -> None:
    overshoot = {kind: text_of(gate).overshoot(gate) for kind, gate in gates().items()}
    assert {kind: said["bytes"] for kind, said in overshoot.items()} == {
        "vhost": 0, "memory": 128, "address": 0, "operator": 0, "rate": 0, "new": 0
    }  # fmt: skip
    assert all(said["messages"] == 0 and said["from"] for said in overshoot.values())
