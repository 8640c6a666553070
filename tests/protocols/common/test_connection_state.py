"""States of a connection."""

from __future__ import annotations

from penstock.protocols.common.connection_state import CONNECTION_STATES, ConnectionState
from tests.support.driven_connection import Dialogue, make_driver


def test_connection_state_of_an_open_connection_is_running_and_has_a_word() -> None:
    connection = Dialogue(make_driver()).connection
    assert connection.state is ConnectionState.RUNNING
    assert connection.state.word() == "running"


def test_connection_state_may_become_closed_from_any_other_and_nothing_else_after_that() -> None:
    table = CONNECTION_STATES.transitions
    assert table.keys() == set(ConnectionState)
    assert all(ConnectionState.CLOSED in following for following in table.values())
    assert table[ConnectionState.CLOSED].keys() == {ConnectionState.CLOSED}
    assert CONNECTION_STATES.initial is ConnectionState.HEADER
