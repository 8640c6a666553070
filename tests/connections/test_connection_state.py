"""States of a connection, and of the teardown of its sessions."""

from __future__ import annotations

from penstock.connections.connection_state import (
    CONNECTION_STATES,
    TEARDOWN_STATES,
    ConnectionState,
    TeardownState,
)
from tests.support.driven_connection import Dialogue, make_driver


def test_connection_state_of_an_open_connection_is_running_and_nothing_is_torn_down() -> None:
    connection = Dialogue(make_driver()).connection
    assert connection.state is ConnectionState.RUNNING
    assert connection.teardown is TeardownState.NONE
    assert not connection.ignores_input()


def test_connection_state_has_a_word_for_each_stage_of_the_close() -> None:
    words = {state: state.word() for state in ConnectionState}
    assert words[ConnectionState.START] == words[ConnectionState.REFUSED] == "start"
    assert words[ConnectionState.CLOSE_SENT] == words[ConnectionState.CLOSE_RECEIVED] == "closing"
    assert {words[state] for state in ConnectionState if state >= ConnectionState.CLOSED} == {"closed"}
    assert words[ConnectionState.RUNNING] == "running"


def test_connection_state_may_become_gone_from_any_state_and_then_stays() -> None:
    table = CONNECTION_STATES.transitions
    assert set(ConnectionState) - table.keys() == {ConnectionState.GONE}
    assert all(ConnectionState.GONE in following for following in table.values())
    assert CONNECTION_STATES.initial is ConnectionState.HEADER


def test_connection_state_never_goes_back_once_input_is_ignored() -> None:
    for before, following in CONNECTION_STATES.transitions.items():
        if before >= ConnectionState.REFUSED:
            assert min(following) > before


def test_teardown_state_only_advances() -> None:
    assert TEARDOWN_STATES.transitions == {
        TeardownState.NONE: {TeardownState.RUNNING: "close, end of input, or socket closed"},
        TeardownState.RUNNING: {TeardownState.DONE: "last session and exclusive queue removed"},
    }
