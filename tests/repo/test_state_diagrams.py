"""The state tables, of which docs/inside/states.md is made, are whole."""

from __future__ import annotations

from tests.support.state_diagrams import state_tables


def test_states_are_numbered_from_zero_and_can_be_reached() -> None:
    tables = [table for each in state_tables().values() for table in each]
    assert tables
    for table in tables:
        states = list(type(table.initial))
        assert [int(state) for state in states] == list(range(len(states))), table.machine
        reached = {table.initial} | {after for following in table.transitions.values() for after in following}
        assert set(states) - reached == set(), table.machine
