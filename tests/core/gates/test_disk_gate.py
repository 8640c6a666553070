"""What all gates before the disk have in common."""

from __future__ import annotations

from penstock.core.gates.disk import FREE_SPACE, QUOTA, STORE_FAILURE, DiskGate
from tests.support.broker_fixture import House


def test_disk_gate_admits_nothing_while_it_is_closed_and_everything_while_it_is_open() -> None:
    found = DiskGate(House().broker.gates.disk, "room of the store")
    assert found.admits(1 << 40, 9, 1.0)
    found.move(True, 1000, 1.0)
    assert not found.admits(1, 1, 1.0)
    found.move(False, 500, 2.0)
    assert found.admits(1, 1, 2.0)


def test_disk_gate_names_itself_in_a_refusal() -> None:
    found = DiskGate(House().broker.gates.disk, "room of the store")
    assert found.gate.owner is found
    assert "room of the store" in found.describe_refusal()


def test_disk_gates_of_each_kind_begin_their_names_with_another_word() -> None:
    assert len({QUOTA, FREE_SPACE, STORE_FAILURE}) == 3
