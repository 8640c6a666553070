"""Log lines of gates and blocked channels: one by one while they are few, later if they last, else one sum."""

from __future__ import annotations

from penstock.flow.gate import Gate, GateTransition
from penstock.management.gate_lines import BLOCKS_AT_ONCE, CLOSINGS_AT_ONCE, LASTING_S, GateLines
from tests.support.broker_fixture import House


def gate_of(house: House) -> Gate:
    house.queue("orders", capacity_messages=720)
    return house.broker.vhosts["/"].queues["orders"].gate


def crossing(gate: Gate, closed: bool, now: float) -> GateTransition:
    return GateTransition(gate, closed, 720, 175_680, now)


def test_closings_beyond_those_logged_at_once_are_one_line_a_second() -> None:
    gate = gate_of(House())
    lines, told = GateLines(), []
    for number in range(CLOSINGS_AT_ONCE + 3):
        for closed in (True, False):
            told.append(lines.crossed(crossing(gate, closed, number + (0.0 if closed else 0.25))))
    assert told.count(None) == 2 * 3
    (line,) = lines.tick()
    assert line.text == (
        "[vh(/)/qu(orders)] PST-1022 : Closed Briefly : 3 times, 0.750 s in all, Highest : 175,680 bytes, 720 messages"
    )
    assert (line.fields["id"], line.fields["count"], line.fields["brief_s"]) == ("PST-1022", 3, 0.75)
    assert lines.tick() == []


def test_blocks_beyond_those_logged_at_once_are_one_line_a_second_per_gate() -> None:
    house = House()
    gate = gate_of(house)
    lines = GateLines()
    one, other = house.producer("one"), house.producer("other")
    for number in range(BLOCKS_AT_ONCE + 2):
        lines.blocked(one, gate, number)
        lines.unblocked(one, gate, number + 0.5)
    assert [line.text for line in lines.tick()] == [
        "[vh(/)/qu(orders)] PST-1023 : Blocked Briefly : 2 times, 1.000 s in all, of one"
    ]
    for producer in (one, other):
        for number in range(BLOCKS_AT_ONCE + 1):
            lines.blocked(producer, gate, number)
            lines.unblocked(producer, gate, number + 0.5)
    (line,) = lines.tick()
    assert line.text.endswith(": 4 times, 2.000 s in all, of several channels")


def test_closing_and_block_that_last_are_logged_with_their_ends() -> None:
    house = House()
    gate, producer = gate_of(house), house.producer("one")
    lines = GateLines()
    for _ in range(CLOSINGS_AT_ONCE):
        lines.crossed(crossing(gate, True, 0.0))
        lines.crossed(crossing(gate, False, 0.0))
        lines.blocked(producer, gate, 0.0)
        lines.unblocked(producer, gate, 0.0)
    assert lines.crossed(crossing(gate, True, 1.0)) is None
    assert lines.blocked(producer, gate, 1.0) is None
    assert lines.lasting(1.0 + LASTING_S / 2) == []
    assert [line.fields["id"] for line in lines.lasting(1.0 + LASTING_S)] == ["QUE-1003", "CHN-1005"]
    opened, released = lines.crossed(crossing(gate, False, 2.0)), lines.unblocked(producer, gate, 2.0)
    assert (opened.fields["id"], released.fields["id"]) == ("QUE-1004", "CHN-1006")
